"""The examples and the tutorial of the documentation, run as their readers run them.

`kraftline` is the package of the wheel, which the repository does not have. What an example needs
beside the environment of the tests is installed into a folder of its own.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.wheel.tree import wheel_files
from tests.peers import is_missing

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
SECONDS = 600
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = {"faststream[kafka]": "faststream"}
"""Module of a requirement that is named otherwise."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `kraftline` as the wheel has it."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    for name, content in wheel_files(ROOT, hook["packages"]):
        path = folder / str(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.fixture
def environment(package: Path, tmp_path: Path) -> dict[str, str]:
    """Variables of a process that finds that package first, and keeps clusters in a folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    (tmp_path / "temporary").mkdir()
    more = {"PYTHONPATH": str(package), "TMPDIR": str(tmp_path / "temporary")}
    return {**kept, **more, "PYSPARK_PYTHON": sys.executable}


def install_missing(requirements: Path, folder: Path) -> None:
    """Install into a folder the requirements that the environment of the tests lacks."""
    wanted = []
    for line in requirements.read_text(encoding="utf-8").split():
        name = line.partition(">=")[0]
        module = MODULES.get(name, name.replace("-", "_"))
        if not name.startswith("kraftline") and importlib.util.find_spec(module) is None:
            wanted.append(line)
    if wanted:
        has_pip = importlib.util.find_spec("pip") is not None
        pip = [sys.executable, "-m", "pip", "-q"] if has_pip else ["uv", "pip", "-q"]
        done = subprocess.run(
            [*pip, "install", "--target", folder, *wanted],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def run(environment: dict[str, str], folder: Path, *words: str) -> str:
    """Output of a process of Python that has to succeed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_pytest(environment: dict[str, str], folder: Path) -> None:
    plain = ("-c", os.devnull, "--rootdir", str(folder), "-p", "no:schemathesis", "-q")
    before = folders(environment)
    assert " passed" in run(environment, folder, "-m", "pytest", *plain, str(folder))
    assert folders(environment) == before


def folders(environment: dict[str, str]) -> list[Path]:
    """Those of clusters that run, or were left behind."""
    return sorted(Path(environment["TMPDIR"]).glob("kraftline-testing-*/*"))


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "exactly_once_copy",
        "aiokafka_service",
        "faststream_service",
        pytest.param("metadata_history", marks=pytest.mark.spark),
    ],
)
def test_an_example(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    if name == "metadata_history":
        if importlib.util.find_spec("pyspark") is None:
            is_missing("the extra spark")
        if shutil.which("java") is None:
            is_missing("java")
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    install_missing(folder / "requirements.txt", tmp_path / "packages")
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path / 'packages'}"
    run_pytest(environment, folder)


@pytest.mark.long
def test_the_notebook(environment: dict[str, str], tmp_path: Path) -> None:
    """Its cells in order, in one namespace, as a kernel of Jupyter does; no magics are in it."""
    notebook = json.loads((EXAMPLES / "notebook" / "leader_dies.ipynb").read_text("utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if "outputs" in cell)
    (tmp_path / "cells.py").write_text("\n".join(cells))
    assert "kafka.stop()" in cells[-1]
    checked = "\nassert (unanswered, len(answered), len(ticks)) == (0, 300, 300)\n"
    with (tmp_path / "cells.py").open("a") as file:
        file.write(checked + "assert 0.5 < pause < 20\n")
    run(environment, tmp_path, "cells.py")


@pytest.fixture
def dev(environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of `kraftline dev`, as its first line has it."""
    command = [sys.executable, "-m", "kraftline", "dev"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("ready: bootstrap.servers=")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_the_tutorial(dev: str, environment: dict[str, str], tmp_path: Path) -> None:
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    first, tests = FENCED.findall(page)
    assert "127.0.0.1:9092" in first
    (tmp_path / "first.py").write_text(first.replace("127.0.0.1:9092", dev))
    shown = run(environment, tmp_path, "first.py")
    assert shown == "0 order 0\n1 order 1\n2 order 2\n"
    assert "".join(f"    {line}\n" for line in shown.splitlines()) in page
    words = ["--bootstrap-server", dev, "--topic", "orders", "--from-beginning"]
    read = run(
        environment, tmp_path, "-m", "kraftline", "console-consumer", *words, "--max-messages", "3"
    )
    assert read.splitlines()[:3] == ["order 0", "order 1", "order 2"]
    groups = ["groups", "--bootstrap-server", dev, "--describe", "--group", "billing"]
    assert "billing" in run(environment, tmp_path, "-m", "kraftline", *groups)
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_orders.py").write_text(tests)
    run_pytest(environment, folder)
