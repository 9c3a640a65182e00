"""The frame of the jobs: publishing, exit codes; export in this process."""

import io
import json
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import JOBS, main
from pipeline.core.errors import BadInputError
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import plan_read, read_table
from pipeline.jobs import job
from pipeline.jobs.export.files import SplitFiles, Target
from pipeline.jobs.job import JobConfig, JobResult, Progress, progress, publishing
from pipeline.spark_session import check_java
from tests.pipeline.segments import GOLDEN, batch, write_partition
from tests.pipeline.test_linearize import write_corpus

ROOT = Path(__file__).resolve().parent.parent.parent


def test_export_writes_every_row_and_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = GOLDEN / "data-log", tmp_path / "out"
    assert main(["export", "--input", str(source), "--output", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = read_table(parse_options({"path": str(source)}))
    files = sorted((out / "data").rglob("*.parquet"))
    tables = [pq.ParquetFile(path).read() for path in files]
    assert sum(table.num_rows for table in tables) == expected.num_rows == printed["tables"]["data"]
    places = [path.relative_to(out / "data").parts for path in files]
    found = [
        row | {"topic": topic.removeprefix("topic="), "partition": int(partition[10:])}
        for (topic, partition, *_), table in zip(places, tables, strict=True)
        for row in table.to_pylist()
    ]
    order = lambda row: (row["topic"], row["segment"], row["offset"])  # noqa: E731
    assert sorted(found, key=order) == sorted(expected.to_pylist(), key=order)
    assert len(pq.read_table(out / "manifest.parquet")) == len(files)
    run = json.loads((out / "run.json").read_text())
    assert {entry["path"] for entry in run["inputs"]} == {str(p) for p in source.rglob("*.log")}
    assert sorted(path.name for path in out.iterdir()) == [
        "_SUCCESS",
        "data",
        "manifest.parquet",
        "run.json",
    ]


def test_export_by_date_cuts_at_midnight(tmp_path: Path) -> None:
    day = 86_400_000
    times = [19_000 * day + 5, 19_001 * day - 1, 19_001 * day, 18_000 * day, -1]
    batches = [batch(n, [b"v%d" % n], time_ms=time) for n, time in enumerate(times)]
    source, out = write_partition(tmp_path / "in", batches).parent, tmp_path / "out"
    command = ["export", "--input", str(source), "--output", str(out), "--by", "date"]
    assert main(command) == 0
    found = {}
    for path in sorted((out / "data").rglob("*.parquet")):
        (date,) = (part for part in path.parts if part.startswith("date="))
        found[date] = pq.ParquetFile(path).read()["offset"].to_pylist()
    assert found == {
        "date=2022-01-08": [0, 1],
        "date=2022-01-09": [2],
        "date=2019-04-14": [3],
        "date=__HIVE_DEFAULT_PARTITION__": [4],
    }
    manifest = pq.read_table(out / "manifest.parquet")
    assert sum(manifest["rows"].to_pylist()) == 5
    assert main([*command, "--overwrite", "--columns", "offset"]) == 2


def test_many_days_in_one_split_go_to_numbered_files(tmp_path: Path) -> None:
    """No more than 32 files are open: a day that comes back gets a further file."""
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
    source = write_partition(tmp_path / "in", [batch(0)])
    options = parse_options({"path": str(source.parent)})
    ((piece,),) = plan_read(options).packs
    files = SplitFiles(
        Target(folder=str(tmp_path / "out"), date_column="timestamp"), [piece], schema
    )
    for start in (0, 40):
        rows = range(start, start + 40)
        times = pa.array([n % 40 * 86_400_000_000 for n in rows], schema.field("timestamp").type)
        files.write(pa.RecordBatch.from_arrays([pa.array(rows), times], schema=schema))
    written = files.close()
    paths = [one.path for one in written]
    assert len(set(paths)) == len(paths) > 40
    offsets = [n for path in paths for n in pq.ParquetFile(path).read()["offset"].to_pylist()]
    assert sorted(offsets) == list(range(80))
    assert sum(one.rows for one in written) == 80


def test_the_manifest_compares_exports_without_reading_them(tmp_path: Path) -> None:
    manifests = []
    for number, last in enumerate((b"a", b"a", b"b")):
        source = write_partition(tmp_path / f"in{number}", [batch(0), batch(1, [last])]).parent
        out = tmp_path / f"out{number}"
        assert main(["export", "--input", str(source), "--output", str(out)]) == 0
        (row,) = pq.read_table(out / "manifest.parquet").to_pylist()
        manifests.append(row["crc_of_crcs"])
        (path,) = (out / "data").rglob("*.parquet")
        statistics = pq.ParquetFile(path).metadata.row_group(0)
        offset = statistics.column(pq.ParquetFile(path).schema_arrow.names.index("offset"))
        assert (offset.statistics.min, offset.statistics.max) == (0, 1)
        assert row["segment_bytes"] == (source / row["segment"]).stat().st_size
    assert manifests[0] == manifests[1] != manifests[2]


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    source = str(GOLDEN / "data-log")
    assert main(["export", "--input", source, "--output", str(out), "--dry-run"]) == 0
    logs = [path.stat().st_size for path in (GOLDEN / "data-log").rglob("*.log")]
    assert f"splits {len(logs)}, bytes {sum(logs)}" in capsys.readouterr().out
    assert not out.exists()


def test_a_failed_run_publishes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = bytearray(batch(0))
    bad[70] ^= 1
    source, out = write_partition(tmp_path / "in", [bytes(bad)]).parent, tmp_path / "out"
    assert main(["export", "--input", str(source), "--output", str(out)]) == 2
    assert "bad_crc" in capsys.readouterr().err
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(("mode", "rows"), [("PERMISSIVE", 3), ("DROPMALFORMED", 2)])
def test_an_export_over_damage_names_it_and_has_findings(
    mode: str, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = bytearray(batch(1))
    bad[70] ^= 1
    folder = write_partition(tmp_path / "in", [batch(0), bytes(bad), batch(2)]).parent
    other = folder.parent / "other-0" / f"{0:020d}.log"
    other.parent.mkdir()
    other.symlink_to(tmp_path / "gone")
    out, errors = tmp_path / "out", tmp_path / "errors"
    command = ["export", "--input", str(folder.parent), "--output", str(out)]
    assert main([*command, "--errors-path", str(errors)]) == 2
    assert "--errors-path needs --mode PERMISSIVE" in capsys.readouterr().err
    assert main([*command, "--mode", mode, "--errors-path", str(errors), "--json"]) == 1
    told = capsys.readouterr()
    printed = json.loads(told.out)
    assert printed["tables"]["data"] == rows
    assert (printed["findings"], printed["counters"]["damaged"]) == (2, 1)
    assert f"{other}: a link that leads nowhere" in told.err
    assert f"error {folder}/{0:020d}.log:{len(batch(0))} bad_crc offset 1" in told.err
    (lines,) = errors.iterdir()
    assert json.loads(lines.read_text())["reason"] == "bad_crc"


def test_many_damaged_places_are_counted_and_the_first_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = bytearray(batch(0))
    bad[70] ^= 1
    batches = [part for n in range(30) for part in (bytes(bad), batch(n))]
    source, out = write_partition(tmp_path / "in", batches).parent, tmp_path / "out"
    command = ["export", "--input", str(source), "--output", str(out), "--mode", "DROPMALFORMED"]
    assert main(command) == 1
    told = capsys.readouterr()
    assert "damaged 30" in told.out
    assert told.err.count("bad_crc") == 20
    assert told.err.endswith("and 10 more\n")


def test_a_finished_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    source, out = write_partition(tmp_path / "in", [batch(0)]).parent, tmp_path / "out"
    command = ["export", "--input", str(source), "--output", str(out)]
    assert main(command) == 0
    assert main(command) == 2
    assert main([*command, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "/no/such"], "/no/such: no such file or directory"),
        (["--input", "."], "no segments"),
        (["--input", ".", "--decode", "x"], "decode is 'x', allowed"),
    ],
)
def test_bad_input_is_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--output", "out", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_success_appears_last_and_old_tables_are_replaced(tmp_path: Path) -> None:
    config = JobConfig(inputs=(), output=str(tmp_path), run_id="r")
    with publishing(config) as publication:
        (publication.folder / "t").mkdir()
        (publication.folder / "t" / "old").write_text("x")
        publication.result = JobResult()
    again = JobConfig(inputs=(), output=str(tmp_path), run_id="r", overwrite=True)
    with publishing(again) as publication:
        (publication.folder / "t").mkdir()
        (publication.folder / "t" / "new").write_text("x")
        assert (tmp_path / "_SUCCESS").exists()
        publication.result = JobResult()
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["new"]


def test_what_a_killed_run_left_is_removed_by_the_next_and_not_what_works(tmp_path: Path) -> None:
    source, out = write_partition(tmp_path / "in", [batch(0)]).parent, tmp_path / "out"
    command = ["export", "--input", str(source), "--output", str(out)]
    kill = (
        "import os, signal, sys, pipeline.jobs.export.tasks as tasks\n"
        "tasks.write_pieces = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from pipeline.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", kill, *command], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in out.iterdir()] == ["_tmp"]
    working = JobConfig(inputs=(), output=str(out), run_id="working")
    refused = pytest.raises(BadInputError, match="another run has finished meanwhile")
    with refused, publishing(working) as publication:
        assert main(command) == 0
        names = {path.name.partition(".")[0] for path in (out / "_tmp").iterdir()}
        assert names == {"working"}
        assert publication.folder.is_dir()
        publication.result = JobResult()
    assert not (out / "_tmp").exists()


def test_progress_tells_bytes_and_time_left() -> None:
    told = Progress(8_000_000, tasks=4)
    assert json.loads(told.line(9.0, as_json=True))["seconds_left"] is None
    told.step(2_000_000)
    assert told.line(10.0, as_json=False) == "tasks 1 of 4, 2 of 8 MB, 30 s left"
    assert json.loads(told.line(10.0, as_json=True)) == {
        "tasks_done": 1, "tasks": 4, "bytes": 2_000_000, "bytes_planned": 8_000_000,
        "seconds_left": 30,
    }  # fmt: skip


class _Lines(io.StringIO):
    """Says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        length = super().write(text)
        self.written.set()
        return length


def test_work_without_spark_has_lines_of_progress_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _Lines()
    monkeypatch.setattr(sys, "stderr", lines)
    monkeypatch.setattr(job, "PROGRESS_SECONDS", 0.001)
    with progress(None, 1_000_000, tasks=2) as told:
        assert lines.written.wait(20)
        told.step(500_000)
    assert lines.getvalue().startswith("tasks 0 of 2, 0 of 1 MB\n")


@pytest.mark.parametrize("name", ["audit", "export", "linearize"])
def test_jobs_in_this_process_tell_each_task(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last figures of a run: all tasks and all bytes."""
    made: list[Progress] = []

    class Kept(Progress):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(job, "Progress", Kept)
    for number in range(3):
        write_partition(tmp_path / "in", [batch(number)], base_offset=number)
    histories = tmp_path / "histories"
    histories.mkdir()
    source = histories if name == "linearize" else tmp_path / "in"
    if name == "linearize":
        write_corpus(histories, "cas-register", 3)
    model = ["--model", "cas-register"] if name == "linearize" else []
    main([name, "--input", str(source), "--output", str(tmp_path / "out"), *model])
    ((done, total, read),) = [told.figures() for told in made]
    assert done == total >= 3
    wanted = "history*" if name == "linearize" else "*.log"
    assert read == sum(path.stat().st_size for path in source.rglob(wanted))


def test_ctrl_c_while_modules_load_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow_to_load.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(JOBS, "audit", ("slow_to_load", ""))
    assert main(["audit", "--input", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "pipeline: interrupted\n"
    # what Py4J says of it when a job of Spark's is at work
    record = logging.makeLogRecord({"module": "java_gateway", "msg": "KeyboardInterrupt"})
    assert not logging.getLogger().filter(record)


def test_java_that_is_missing_or_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadInputError, match="has no bin/java"):
        check_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(BadInputError, match="is version 11"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BadInputError, match="no java on PATH"):
        check_java()
