"""The wheel, built from the sdist, in an empty environment on each Python that is here.

Everything runs outside the repository. The Pythons are those of PATH, of pyenv and of Debian, whose
testing has those that are in none of these; the test says which ran, and why another one did not.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archives import unpack
from tests.interop.debian_python import NotToBeHadError, debian_python
from tests.peers import is_missing
from tests.pipeline.segments import batch, write_partition

pytestmark = [pytest.mark.interop, pytest.mark.long]
ROOT = Path(__file__).resolve().parent.parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
DEBIAN = Path("/usr/bin")
PULLED_MB_MAX = 60
"""Without extras: the wheel and the wheels that it pulls in; 15 in November 2026."""
UNPACKED_MB_MAX = 60
"""The same, installed, without compiled modules: 47 in November 2026."""
EXTRAS = (
    "_pytest",
    "aiokafka",
    "confluent_kafka",
    "deltalake",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "pytest",
    "rpds",  # no extra: of Python 3.14 alone (wire/persistent_map.py)
)
COMMAND_TIMEOUT_S = 300
START_TIMEOUT_S = 30


def interpreters() -> tuple[list[Path], list[str]]:
    """Each Python of one of the versions, once; a line for each version of which there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, Path] = {}
    lacking = []
    for version in VERSIONS:
        before = len(found)
        name = f"python{version}"
        candidates = [*sorted(pyenv.glob(f"{version}.*/bin/{name}")), DEBIAN / name]
        if (on_path := shutil.which(name)) is not None:
            candidates.append(Path(on_path))
        for candidate in candidates:
            print_it = (
                "import sys; print(sys.base_prefix, sys.version_info[:2], sys.implementation)"
            )
            done = subprocess.run(
                [candidate, "-c", print_it], capture_output=True, text=True, check=False
            ) if candidate.exists() else None  # fmt: skip
            if done is not None and done.returncode == 0:  # a shim may have no such version
                found.setdefault(done.stdout, candidate)
        if len(found) == before:
            try:
                found[version] = debian_python(version)
            except NotToBeHadError as error:
                lacking.append(f"no Python {version} here: {error}")
    return list(found.values()), lacking


def run(*words: object, **options: object) -> str:
    """Output of a command that has to succeed."""
    done = refused(*words, expected=0, **options)
    return done.stdout


def refused(*words: object, expected: int, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S, env=environment(),
        **options,
    )  # fmt: skip
    assert done.returncode == expected, (words, done.stdout, done.stderr)
    return done


def environment() -> dict[str, str]:
    """Nothing in it leads to the repository."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the unpacked sdist; that of the repository holds the same."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-d"]
    run(*build, folder / "of-repository", cwd=ROOT)
    with tarfile.open(next((folder / "of-repository").glob("*.tar.gz"))) as sdist:
        unpack(sdist, folder)
    source = next(path for path in folder.iterdir() if path.name.startswith("kraftline-"))
    run(*build, folder / "of-sdist", "-t", "wheel", cwd=source)
    made = [next((folder / of).glob("*.whl")) for of in ("of-sdist", "of-repository")]
    assert made[0].read_bytes() == made[1].read_bytes()
    return made[0]


def test_one_package_with_types_and_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
        information = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
        entry_points = archive.read(f"{information}/entry_points.txt").decode()
    assert {name.split("/")[0] for name in names} == {"kraftline", information}
    assert "kraftline/py.typed" in names
    assert "Requires-Python: >=3.11\n" in metadata
    assert "[pytest11]\nkraftline = kraftline.pytest_plugin\n" in entry_points
    for extra in ("arrow", "delta", "dev", "interop", "plot", "spark"):
        assert f"Provides-Extra: {extra}\n" in metadata


IMPORT_ALL = """
import pkgutil, sys
import kraftline
extras = {extras!r}
for found in pkgutil.walk_packages(kraftline.__path__, "kraftline.", onerror=lambda name: None):
    if found.name.endswith("__main__"):
        continue
    try:
        __import__(found.name)
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] in extras, (found.name, error)
ours = {ours!r} & {{name.partition(".")[0] for name in sys.modules}}
assert not ours, ours
print(len([name for name in sys.modules if name.startswith("kraftline.")]))
"""


def test_it_works_in_an_empty_environment(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, lacking = interpreters()
    if not found:
        is_missing("a Python of pyenv, of Debian or on PATH")
    with capsys.disabled():
        sys.stdout.writelines(f"\n{line}" for line in lacking)
    for number, python in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        pulled_mb, unpacked_mb = install(python, wheel, folder)
        check_installed(folder / "venv/bin", folder)
        if python == found[-1]:
            check_plugin(folder / "venv/bin/python", folder)
        version = run(folder / "venv/bin/python", "-V").strip()
        with capsys.disabled():
            sys.stdout.write(
                f"\nthe wheel on {version} ({python}): {pulled_mb:.0f} MB of wheels,"
                f" {unpacked_mb:.0f} MB installed\n"
            )
        shutil.rmtree(folder / "venv")
        assert pulled_mb <= PULLED_MB_MAX
        assert unpacked_mb <= UNPACKED_MB_MAX


def install(python: Path, wheel: Path, folder: Path) -> tuple[float, float]:
    """Make an environment without pip, with the wheel: MB that are fetched, and that are there."""
    run(python, "-m", "venv", "--without-pip", folder / "venv")  # Debian has no ensurepip
    pip = [sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "--quiet",
           "--disable-pip-version-check"]  # fmt: skip
    run(*pip, "download", "--dest", folder / "wheels", "--only-binary", ":all:", wheel, cwd=folder)
    run(*pip, "install", "--no-index", "--find-links", folder / "wheels", "kraftline", cwd=folder)
    site = next((folder / "venv/lib").glob("python*/site-packages"))
    pulled = size_mb(folder / "wheels", "*.whl")
    return pulled, size_mb(site, "*") - size_mb(site, "*.pyc")


def size_mb(folder: Path, pattern: str) -> float:
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file()) / 1e6


def check_installed(binaries: Path, folder: Path) -> None:
    kraftline, python = binaries / "kraftline", binaries / "python"
    assert run(kraftline, "--version", cwd=folder) == "kraftline 0.1.0\n"
    help_text = run(python, "-m", "kraftline", "--help", cwd=folder)
    assert help_text == run(kraftline, "--help", cwd=folder)
    assert help_text.startswith("usage: kraftline COMMAND ...\n")
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"kraftline"}
    script = IMPORT_ALL.format(ours=ours, extras=set(EXTRAS))
    assert int(run(python, "-c", script, cwd=folder)) > 900
    check_pipeline(python, folder)
    check_others(kraftline, folder)
    check_node(kraftline, folder)
    check_cluster(kraftline, python, folder)


def check_pipeline(python: Path, folder: Path) -> None:
    """Without the extra it is imported, and says which one is missing when it needs it."""
    script = (
        "import kraftline.pipeline as p\n"
        "try: p.session()\n"
        "except Exception as error: print(type(error).__module__, error)"
    )
    expected = "pyspark is not installed; install it with: pip install 'kraftline[spark]'"
    said = run(python, "-c", script, cwd=folder)
    assert said == f"kraftline.pipeline.core.errors {expected}\n"
    job = [python, "-m", "kraftline.pipeline.cli", "audit", "--input", folder]
    done = refused(*job, expected=2, cwd=folder)
    assert "install it with: pip install 'kraftline[arrow]'" in done.stderr


def check_cluster(kraftline: Path, python: Path, folder: Path) -> None:
    """A cluster for tests, by the name of the wheel; nothing of it is left."""
    script = (
        "from kraftline.testing import Cluster\n"
        "with Cluster(nodes=3) as kafka: print(kafka.bootstrap_servers)\n"
        "print(kafka.folder.exists())"
    )
    servers, is_there = run(python, "-c", script, cwd=folder).splitlines()
    assert (servers.count("127.0.0.1:"), is_there) == (3, "False")
    assert "kraftline dev" in run(kraftline, "dev", "--help", cwd=folder)


PLUGIN_TEST = """
import subprocess, sys

def kraftline(*words, **more):
    command = [sys.executable, "-m", "kraftline", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more).stdout

def test_a_record(kafka, kafka_topic):
    at = ["--bootstrap-server", kafka.bootstrap_servers, "--topic", kafka_topic]
    kraftline("console-producer", *at, input="one\\n")
    words = ["console-consumer", *at, "--from-beginning", "--max-messages", "1"]
    assert kraftline(*words) == "one\\n"
"""


def check_plugin(python: Path, folder: Path) -> None:
    """pytest finds the fixtures by the entry point, as soon as it is installed beside."""
    pip = [sys.executable, "-m", "pip", "--python", python, "-q", "--disable-pip-version-check"]
    run(*pip, "install", "pytest", cwd=folder)
    (folder / "test_orders.py").write_text(PLUGIN_TEST)
    assert "1 passed" in run(python, "-m", "pytest", "-q", "test_orders.py", cwd=folder)


def check_others(kraftline: Path, folder: Path) -> None:
    """Commands that look for modules by name or read files beside them."""
    assert "complete" in run(kraftline, "completion", "bash", cwd=folder)
    assert "ok" in run(kraftline, "sim", "--seed", "1", cwd=folder)
    mutant = run(kraftline, "sim", "mutate", "--mutants", "M17", cwd=folder)
    assert "killed" in mutant
    done = refused(kraftline, "jepsen", "run", "--workload", "topic-set", expected=255, cwd=folder)
    assert "which the source tree has" in done.stderr


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def running_node(kraftline: Path, folder: Path) -> Iterator[str]:
    """One node, formatted by our own command."""
    kafka, controller = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{kafka},CONTROLLER://127.0.0.1:{controller}\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={folder}/data\n"
        "offsets.topic.replication.factor=1\nlog.cleaner.backoff.ms=100\n"
    )
    cluster_id = run(kraftline, "storage", "random-uuid").strip()
    run(kraftline, "storage", "format", "-t", cluster_id, "-c", properties)
    with (folder / "node.log").open("wb") as log:
        node = subprocess.Popen(
            [kraftline, "server", "start", properties],
            cwd=folder, env=environment(), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_for(kafka, node)
        yield f"127.0.0.1:{kafka}"
        assert node.poll() is None
    finally:
        node.terminate()
        code = node.wait(START_TIMEOUT_S)
    assert code == 0, (folder / "node.log").read_text()


def wait_for(port: int, node: subprocess.Popen[bytes]) -> None:
    """Until the node accepts connections."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert node.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)


def check_node(kraftline: Path, folder: Path) -> None:
    with running_node(kraftline, folder) as server:
        at = ["--bootstrap-server", server]
        topic = [*at, "--topic", "orders"]
        run(kraftline, "topics", *topic, "--create", "--partitions", 1, "--replication-factor", 1)
        run(kraftline, "console-producer", *topic, input="one\ntwo\nthree\n")
        output = run(kraftline, "console-consumer", *topic, "--from-beginning", "--max-messages", 3)
        assert output == "one\ntwo\nthree\n"


ROUND_TRIP = """
import pickle, sys
from pathlib import Path
from {layout}pipeline.core.errors import CorruptSegmentError
from {layout}pipeline.core.reading.reader import plan_read
from {layout}pipeline.core.reading.options import parse_options
if sys.argv[1] == "make":
    plan = plan_read(parse_options({{"path": sys.argv[3]}}))
    value = [plan.packs, CorruptSegmentError("a", 1, 2, "bad")]
    Path(sys.argv[2]).write_bytes(pickle.dumps(value))
else:
    packs, error = pickle.loads(Path(sys.argv[2]).read_bytes())
    print(type(error).__module__, error, {{type(part).__module__ for p in packs for part in p}})
    print(not {{"pipeline", "kraftline"}} <= {{n.partition(".")[0] for n in sys.modules}})
"""


@pytest.mark.parametrize("layout", ["", "kraftline."])
def test_tasks_travel_to_another_process(wheel: Path, tmp_path: Path, layout: str) -> None:
    """By the name that their module has in that layout."""
    write_partition(tmp_path / "log", [batch(0)])
    path = wheel if layout else ROOT
    script = f"import sys; sys.path.insert(0, {str(path)!r})\n" + ROUND_TRIP.format(layout=layout)
    pickled = tmp_path / "tasks"
    run(sys.executable, "-c", script, "make", pickled, tmp_path / "log", cwd=tmp_path)
    output = run(sys.executable, "-c", script, "read", pickled, cwd=tmp_path)
    module = f"{layout}pipeline.core."
    assert output.startswith(f"{module}errors a:1 (base offset 2): bad {{'{module}")
    assert output.endswith("True\n")


SPARK = """
import sys
from kraftline import pipeline
spark = pipeline.session("wheel", "local[2]")
print(spark.read.format("kraft-log").load(sys.argv[1]).count())
spark.stop()
assert "pipeline" not in sys.modules
"""


@pytest.mark.spark
def test_spark_runs_tasks_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The workers of Spark import them from where the driver found them, by their new name."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    write_partition(tmp_path / "log", [batch(0), batch(1)])
    with_site = environment() | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SPARK, tmp_path / "log"],
        cwd=tmp_path, env=with_site, capture_output=True, text=True, check=False,
        timeout=COMMAND_TIMEOUT_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
