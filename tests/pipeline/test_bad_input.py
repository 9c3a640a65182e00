"""Wrong inputs of every job: one line that names the fault, or a finding."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from metadata import record_codec
from metadata import records as m
from pipeline.cli import main
from pipeline.core.audit.findings import ERROR, INFO, Finding
from pipeline.core.compaction.partition import plan_one
from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from pipeline.jobs.audit import _seen_from_here
from pipeline.jobs.compaction import wanted_partitions
from pipeline.jobs.export import tasks
from pipeline.jobs.job import data_error
from tests.pipeline.segments import batch, write_partition
from tests.selection import thinned

GOLDEN = Path(__file__).parent.parent / "golden"
ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534
# what each job needs besides its input; nothing says that a topic is compacted, so one is named
FLAGS = {
    "audit": [],
    "export": ["--output", "out"],
    "compaction": ["--output", "out", "--subscribe", "orders"],
    "history": ["--output", "out"],
}
every_job = pytest.mark.parametrize("job", sorted(FLAGS))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(job: str, source: object, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The one line with which a job refuses an input; it must have published nothing."""
    assert main([job, "--input", str(source), *FLAGS[job], *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert not Path("out").exists() or list(Path("out").iterdir()) == []
    return line.removeprefix(f"pipeline {job}: ")


def write_metadata(root: Path, values: list[bytes], base_offset: int = 0) -> Path:
    return write_partition(
        root, [batch(base_offset, values)], name="__cluster_metadata-0", base_offset=base_offset
    )


@every_job
def test_a_path_that_does_not_exist(here: Path, capsys, job: str) -> None:
    assert refused(job, "nowhere", capsys) == "nowhere: no such file or directory"
    assert refused(job, "no*where", capsys) == "no*where: no such file or directory"


@every_job
def test_no_segments(here: Path, capsys, job: str) -> None:
    (here / "empty").mkdir()
    expected = {"history": "empty: no segments of __cluster_metadata",
                "compaction": "empty: no partition of orders"}  # fmt: skip
    assert refused(job, "empty", capsys) == expected.get(job, "empty: no segments")


@every_job
def test_several_clusters(here: Path, capsys, job: str) -> None:
    for name in ("a", "b"):
        write_partition(here / "in" / name, [batch(0)])
        text = f"version=1\nnode.id=1\ncluster.id=cluster-{name}\n"
        (here / "in" / name / "meta.properties").write_text(text)
    assert refused(job, "in", capsys) == (
        "several clusters below one input, read them one by one:"
        " cluster-a in in/a; cluster-b in in/b"
    )


@every_job
def test_a_file_that_is_no_segment(here: Path, capsys, job: str) -> None:
    (here / "notes.txt").write_text("x")
    assert refused(job, "notes.txt", capsys).startswith("notes.txt: not a segment (20 digits.log)")


def test_a_number_of_findings_to_show(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()
    line = refused("audit", "empty", capsys, "--show", "-1")
    assert line == "--show is -1, allowed: a whole number from 0 on"
    assert refused("audit", "empty", capsys, "--show", "0") == "empty: no segments"


@every_job
def test_an_empty_path(here: Path, capsys, job: str) -> None:
    """An unset variable in a script must not mean the whole machine."""
    write_partition(here, [batch(0)])
    assert refused(job, "", capsys) == "an input is empty, name a file or directory"


def write_both(root: Path) -> list[Path]:
    """A partition and a metadata log of two segments; the paths of the second ones."""
    paths = []
    for name in ("orders-0", "__cluster_metadata-0"):
        values = [record_codec.encode(m.NoOpRecord(), 0)]
        write_partition(root, [batch(0, values)], name=name)
        paths.append(write_partition(root, [batch(1, values)], name=name, base_offset=1))
    return paths


@every_job
def test_a_segment_that_is_no_file(here: Path, capsys, job: str) -> None:
    for path in write_both(Path("in")):
        path.unlink()
        os.mkfifo(path)  # opening it to read would wait for a writer
    if job == "audit":
        assert main([job, "--input", "in"]) == 1
        assert (
            f"{path}:0 unreadable {path.parent.name}: not a regular file" in capsys.readouterr().err
        )
    else:
        assert refused(job, "in", capsys).endswith("not a regular file")


@every_job
def test_a_segment_that_is_a_link_to_nowhere(here: Path, capsys, job: str) -> None:
    for path in write_both(Path("in")):
        path.unlink()
        path.symlink_to("gone")
    if job == "audit":
        assert main([job, "--input", "in"]) == 1
        assert (
            f"{path}:0 unreadable {path.parent.name}: a link that leads nowhere"
            in capsys.readouterr().err
        )
    else:
        assert refused(job, "in", capsys).endswith("a link that leads nowhere")


def test_a_directory_that_is_reached_by_several_names_counts_once(here: Path, capsys) -> None:
    write_partition(here / "in", [batch(0)])
    (here / "in" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (here / "in" / "again").symlink_to(".")
    (here / "other").symlink_to("in")
    command = ["export", "--input", "in", "./in", "other", "in/orders-0", "--output", "out"]
    assert main(command) == 0
    assert "data 1," in capsys.readouterr().out


@every_job
@pytest.mark.parametrize("where", ["in", "in/out", "in/orders-0/out", "link/out"])
def test_an_output_in_what_is_read(here: Path, capsys, job: str, where: str) -> None:
    """Kafka does not start with a foreign directory among its partitions."""
    write_both(here / "in")
    (here / "link").symlink_to("in")
    names = sorted(here.rglob("*"))
    flags = [*FLAGS[job], "--output", where]
    assert main([job, "--input", "in", *flags]) == 2
    assert capsys.readouterr().err == (
        f"pipeline {job}: --output {where} lies in the log directory in; nothing is written into"
        " what is read\n"
    )
    assert sorted(here.rglob("*")) == names


@every_job
def test_an_output_that_is_a_file(here: Path, capsys, job: str) -> None:
    write_both(here / "in")
    (here / "file").touch()
    for where in ("file", "file/out"):
        assert refused(job, "in", capsys, "--output", where) == f"{where}: Not a directory"


def test_topics_that_are_not_there(here: Path, capsys) -> None:
    write_partition(here / "in", [batch(0)])
    line = refused("export", "in", capsys, "--subscribe", "nosuch,orders2")
    assert line == "in: no partition of nosuch, orders2"


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory for who has no special rights: root is such from `as_nobody` on."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    monkeypatch.chdir(folder)
    user = os.geteuid()
    yield folder
    os.seteuid(user)
    for path in folder.rglob("*"):
        path.chmod(0o777)
    shutil.rmtree(folder)


def as_nobody() -> None:
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


@every_job
@pytest.mark.parametrize("closed", ["in", "in/__cluster_metadata-0", "in/orders-0"])
def test_a_directory_that_can_not_be_read(nobody: Path, capsys, job: str, closed: str) -> None:
    write_metadata(nobody / "in", [record_codec.encode(m.NoOpRecord(), 0)])
    write_partition(nobody / "in", [batch(0)])
    Path(closed).chmod(0)
    as_nobody()
    line = refused(job, "in", capsys)
    assert line.startswith(closed)
    assert line.endswith(": Permission denied")


@pytest.mark.parametrize("job", ["compaction", "export", "history"])
def test_a_segment_that_can_not_be_read(nobody: Path, capsys, job: str) -> None:
    path = write_partition(Path("in"), [batch(0)])
    if job == "history":
        path = write_metadata(Path("in"), [record_codec.encode(m.NoOpRecord(), 0)])
    path.chmod(0)
    as_nobody()
    line = refused(job, "in", capsys)
    assert line.startswith(f"{path}:")
    assert line.endswith("Permission denied")


def test_a_segment_that_the_audit_can_not_read_is_a_finding(nobody: Path, capsys) -> None:
    path = write_partition(Path("in"), [batch(0)])
    path.chmod(0)
    as_nobody()
    assert main(["audit", "--input", "in"]) == 1
    assert f"error {path}:0 unreadable orders-0: Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["compaction", "export", "history"])
def test_an_output_that_can_not_be_written(nobody: Path, capsys, job: str) -> None:
    write_partition(Path("in"), [batch(0)])
    write_metadata(Path("in"), [record_codec.encode(m.NoOpRecord(), 0)])
    nobody.chmod(0o755)
    as_nobody()
    assert refused(job, "in", capsys) == "out: Permission denied"


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from pipeline.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("package", "extra", "job"),
    thinned(
        [("pyarrow", "arrow", "audit"), ("pyspark", "spark", "history"),
         ("pyspark", "spark", "export"), ("numpy", "arrow", "export")],
        every=4,
    ),
)  # fmt: skip
def test_an_extra_that_is_not_installed(here: Path, package: str, extra: str, job: str) -> None:
    write_metadata(here / "in", [record_codec.encode(m.NoOpRecord(), 0)])
    write_partition(here / "in", [batch(0)])
    command = [sys.executable, "-c", WITHOUT, package, job, "--spark", "--input", str(here / "in"),
               "--output", str(here / "out")]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    install = f"install it in the source tree with: pip install -e '.[{extra}]'"
    assert line.startswith("pipeline")
    assert line.endswith(f"{package} is not installed; {install}")


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
from pipeline.cli import main
sys.exit(main(sys.argv[1:]))
"""


INTERRUPTED = """
import signal, sys
import pipeline.jobs.export.tasks as tasks
tasks.write_pieces = lambda *_: signal.raise_signal(signal.SIGINT)
from pipeline.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "code", "said"),
    [(FULL, 2, "out: File too large"), (INTERRUPTED, 130, "interrupted")],
)
def test_a_disk_that_is_full_and_an_impatient_person(
    here: Path, script: str, code: int, said: str
) -> None:
    write_partition(here / "in", [batch(at) for at in range(50)])
    command = [sys.executable, "-c", script, "export", "--input", "in", "--output", "out"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, f"pipeline export: {said}\n")
    assert list((here / "out").iterdir()) == []


def test_an_export_that_is_interrupted(here: Path, capsys, monkeypatch) -> None:
    write_partition(here / "in", [batch(at) for at in range(50)])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "write_pieces", interrupted)
    assert main(["export", "--input", "in", "--output", "out"]) == 130
    assert capsys.readouterr().err == "pipeline export: interrupted\n"
    assert list((here / "out").iterdir()) == []


def test_a_master_that_is_none(here: Path, capsys) -> None:
    write_partition(here / "in", [batch(0)])
    line = refused("export", "in", capsys, "--spark", "--master", "somewhere:7077")
    assert line == (
        "the master is 'somewhere:7077', allowed: local, local[N], spark://HOST:PORT, yarn,"
        " k8s://URL"
    )
    with pytest.raises(SystemExit) as stopped:
        main(["export", "--input", "in", "--conf", "spark.executor.memory"])
    assert stopped.value.code == 2
    assert "'spark.executor.memory' is not KEY=VALUE" in capsys.readouterr().err


SNAPSHOT = GOLDEN / "metadata" / "static-4.3.1" / "00000000000000000209-0000000001.checkpoint"


def test_a_truncated_snapshot_in_each_mode(here: Path, capsys) -> None:
    content = SNAPSHOT.read_bytes()
    home = here / "in" / "__cluster_metadata-0"
    home.mkdir(parents=True)
    (home / SNAPSHOT.name).write_bytes(content[:-50])
    source = f"in/__cluster_metadata-0/{SNAPSHOT.name}"
    line = refused("export", source, capsys, "--decode", "json")
    assert line.startswith(f"{source}:")
    assert "short_header" in line
    whole = read_table(parse_options({"path": str(SNAPSHOT), "decode": "json"})).num_rows
    for mode, damaged in (("PERMISSIVE", 1), ("DROPMALFORMED", 0)):
        rows = read_table(parse_options({"path": source, "decode": "json", "mode": mode}))
        assert rows.num_rows == whole + damaged
        if damaged:
            assert rows.column("_corrupt_batch").to_pylist()[-1]["reason"] == "short_header"
    assert main(["audit", "--input", "in"]) == 1
    assert "snapshot_no_footer" in capsys.readouterr().err


def test_a_segment_that_vanishes_while_compaction_is_planned(here: Path) -> None:
    path = write_partition(here / "in", [batch(0)])
    (found,) = wanted_partitions((str(here / "in"),), "orders")
    path.unlink()
    with pytest.raises(BadInputError, match=f"{path}.*: vanished since it was listed"):
        plan_one(found, 0, [])


def test_a_file_that_only_a_task_does_not_see_was_not_deleted(here: Path) -> None:
    """The executor lacks the mount: the audit must not call the log clean."""
    path = write_partition(here / "in", [batch(0)])
    vanished = Finding(severity=INFO, check="vanished", path=str(path))
    seen = _seen_from_here(vanished)
    assert (seen.severity, seen.check) == (ERROR, "unreadable")
    path.unlink()
    assert _seen_from_here(vanished) == vanished


def test_what_a_task_says_of_the_data_is_told_and_nothing_else() -> None:
    trace = (
        "Job aborted due to stage failure: Task 3 failed 4 times: PythonException: Traceback\n"
        '  File "reader.py", line 199, in _damage\n'
        "pipeline.core.errors.CorruptSegmentError: in/a.log:70 (base offset 1): bad_crc\n\n\tat org"
    )
    assert data_error(trace) == "in/a.log:70 (base offset 1): bad_crc"
    full = "OSError: [Errno 28] Error writing bytes to file. Detail: No space left on device\n\tat"
    assert data_error(full) == "No space left on device"
    assert data_error("java.lang.OutOfMemoryError: Java heap space") is None
    denied = "Traceback:\nPermissionError: [Errno 13] Permission denied: '/in/a.log'\n\n\tat org"
    assert data_error(denied) == "/in/a.log: Permission denied"
    lacking = "Traceback:\nModuleNotFoundError: No module named 'pipeline'\n\n\tat org"
    assert data_error(lacking) == (
        "the Python of the workers has no module pipeline; --conf"
        " spark.pyspark.python=PATH names one that has this project"
    )
