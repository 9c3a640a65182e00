"""Damage that a job meets in Spark's tasks: the same one line, nothing published."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from metadata import record_codec
from metadata import records as m
from pipeline.cli import main
from pipeline.jobs.publishing import LOCK_NAME
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log
from tests.pipeline.segments import batch, write_partition

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SNAPSHOTS = Path(__file__).parent.parent / "golden" / "metadata" / "static-4.3.1"
ROOT = Path(__file__).resolve().parent.parent.parent


def last_line(job: str, source: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """Last line of a job that refuses its input in the middle; nothing is published."""
    out = source.parent / "out"
    command = [job, "--input", str(source), "--output", str(out), "--master", "local[2]", *flags]
    assert main(command) == 2
    assert not out.exists() or {path.name for path in out.iterdir()} <= {LOCK_NAME}
    line = [one for one in capsys.readouterr().err.splitlines() if one.startswith("pipeline ")][-1]
    return line.removeprefix(f"pipeline {job}: ")


@pytest.mark.parametrize(
    ("job", "flags"),
    [("export", ["--spark"]), ("compaction", ["--spark", "--subscribe", "orders"])],
)
def test_a_damaged_batch(tmp_path: Path, capsys, job: str, flags: list[str]) -> None:
    bad = bytearray(batch(1))
    bad[70] ^= 1
    path = write_partition(tmp_path / "in", [batch(0), bytes(bad)])
    write_partition(tmp_path / "in", [batch(2)], base_offset=2)
    line = last_line(job, tmp_path / "in", capsys, *flags)
    assert line.startswith(f"{path}:{len(batch(0))} (base offset 1): bad_crc")


def test_a_damaged_batch_of_the_metadata_log(tmp_path: Path, capsys) -> None:
    log = RandomLog(1, 20)
    content = bytearray(log.content)
    content[len(content) // 2] ^= 1
    root = write_metadata_log(tmp_path / "in", bytes(content))
    line = last_line("history", root, capsys)
    assert line.startswith(str(root / "__cluster_metadata-0" / f"{0:020d}.log:"))
    assert "bad_crc" in line


def with_snapshots(root: Path, first: int) -> Path:
    """Kafka's log from a segment on, and its snapshots; those before it are the only beginning."""
    home = root / "__cluster_metadata-0"
    home.mkdir(parents=True)
    for path in SNAPSHOTS.iterdir():
        if path.name[0] == "0" and int(path.name[:20]) >= first:
            (home / path.name).write_bytes(path.read_bytes())
    return home


def batch_ends(content: bytes) -> list[int]:
    ends, position = [], 0
    while position < len(content):
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        ends.append(position)
    return ends


@pytest.mark.parametrize("where", ["inside a batch", "before the footer", "to nothing"])
def test_a_truncated_snapshot_is_no_beginning(tmp_path: Path, capsys, where: str) -> None:
    home = with_snapshots(tmp_path / "in", 182)
    snapshot = home / "00000000000000000209-0000000001.checkpoint"
    content = snapshot.read_bytes()
    cut = {"inside a batch": len(content) - 100, "before the footer": batch_ends(content)[-2],
           "to nothing": 0}[where]  # fmt: skip
    snapshot.write_bytes(content[:cut])
    line = last_line("history", tmp_path / "in", capsys)
    assert line.startswith(str(snapshot))


def test_a_truncated_later_snapshot_is_read_around(tmp_path: Path, capsys) -> None:
    home = with_snapshots(tmp_path / "in", 0)
    snapshot = home / "00000000000000000340-0000000001.checkpoint"
    content = snapshot.read_bytes()
    snapshot.write_bytes(content[: batch_ends(content)[-2]])
    command = ["history", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main([*command, "--master", "local[2]"]) == 0
    assert str(snapshot) in capsys.readouterr().err


def test_unknown_and_newer_records_are_kept_in_hex(tmp_path: Path) -> None:
    known = record_codec.encode(m.TopicRecord(name="t", topic_id=bytes(16)), 0)
    values = [known, b"\x01\x63\x00abc", b"\x01\x02\x63abc"]
    write_partition(tmp_path / "in", [batch(0, values)], name="__cluster_metadata-0")
    out = tmp_path / "out"
    command = ["history", "--input", str(tmp_path / "in"), "--output", str(out)]
    assert main([*command, "--master", "local[2]"]) == 0
    counters = json.loads((out / "run.json").read_text())["counters"]
    assert counters["unknown"] == 2
    rows = sorted(pq.read_table(out / "records").to_pylist(), key=lambda row: row["offset"])
    assert [row["unknown"] for row in rows] == [False, True, True]
    for row, value in zip(rows[1:], values[1:], strict=True):
        assert value[3:].hex() in row["json"]


@pytest.mark.parametrize("job", ["history", "export"])
def test_without_java(tmp_path: Path, job: str) -> None:
    """In a process of its own: this one has a JVM already."""
    write_metadata_log(tmp_path / "in", RandomLog(1, 3).content)
    command = [sys.executable, "-m", "pipeline.cli", job, "--spark", "--input",
               str(tmp_path / "in"), "--output", str(tmp_path / "out")]  # fmt: skip
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    nothing = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH")}
    for environment, expected in (
        ({"PATH": "/nowhere"}, "Spark needs Java 17 or newer: no java on PATH"),
        ({"JAVA_HOME": str(tmp_path)}, f"JAVA_HOME is {tmp_path}, which has no bin/java"),
        ({"JAVA_HOME": str(tmp_path / "old")}, f"{old} is version 11"),
    ):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=nothing | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert done.stderr.strip().endswith(expected)
        assert {path.name for path in (tmp_path / "out").glob("*")} <= {LOCK_NAME}
