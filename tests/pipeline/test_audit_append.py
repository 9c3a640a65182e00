"""An audit that goes on: what it knows is not read again, what it found stays."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from tests.pipeline.segments import batch, write_partition

SIZE = len(batch(0))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two replicas of a partition in two segments, another partition on one node."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for node in (1, 2):
        home = Path(f"in/n{node}")
        home.mkdir(parents=True)
        (home / "meta.properties").write_text(f"version=1\ncluster.id=c1\nnode.id={node}\n")
        write_segment(home, 0, 3)
        write_segment(home, 3, 5)
    write_segment(Path("in/n1"), 0, 2, "other-0")
    return tmp_path


def write_segment(home: Path, first: int, end: int, name: str = "orders-0") -> Path:
    batches = [batch(at) for at in range(first, end)]
    return write_partition(home, batches, name=name, base_offset=first)


def audit(*flags: str) -> int:
    return main(["audit", "--input", "in/n1", "in/n2", "--show", "0", *flags])


def append(*flags: str) -> int:
    return audit("--output", "out", "--append", *flags)


def tables(out: str) -> dict[str, list[dict[str, Any]]]:
    found = {
        name: pq.read_table(f"{out}/{name}.parquet").to_pylist()
        for name in ("findings", "segments", "replica_diff")
    }
    for row in found["findings"]:
        row.pop("run_id")
        row.pop("last_run_id", None)
    return found


def counters() -> dict[str, int]:
    found: dict[str, int] = json.loads(Path("out/run.json").read_text())["counters"]
    return found


def findings(check: str) -> list[dict[str, Any]]:
    return [row for row in pq.read_table("out/findings.parquet").to_pylist()
            if row["check"] == check]  # fmt: skip


def run_id() -> str:
    found: str = json.loads(Path("out/run.json").read_text())["run_id"]
    return found


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_only_what_has_changed_is_read_and_the_result_is_that_of_a_whole_audit(here: Path) -> None:
    assert append() == 0
    assert counters()["bytes"] == 12 * SIZE
    assert append() == 0
    assert counters()["bytes"] == 0
    write_segment(Path("in/n1"), 3, 7)  # has grown, and so differs from the other replica
    write_segment(Path("in/n2"), 0, 4, "other-0")  # a replica that is new
    code = audit("--output", "whole")
    assert append() == code
    assert counters()["bytes"] == 4 * SIZE + 4 * SIZE
    whole = json.loads(Path("whole/run.json").read_text())["counters"]
    assert {**counters(), "bytes": 0, "task_peak_bytes": 0} == {
        **whole, "bytes": 0, "task_peak_bytes": 0,
    }  # fmt: skip
    assert tables("out") == tables("whole")
    assert tables("out")["segments"] != []


def test_a_segment_that_is_no_longer_the_last_is_judged_anew(here: Path) -> None:
    """A torn batch is legal at the end of a log alone."""
    path = Path("in/n1/orders-0", f"{3:020d}.log")
    path.write_bytes(path.read_bytes() + batch(5)[:40])
    assert append() == 0
    write_segment(Path("in/n1"), 5, 6)
    assert append() == audit("--output", "whole") == 1
    assert counters()["bytes"] == 2 * SIZE + 40 + SIZE
    now = [row for row in findings("short_header") if row["last_run_id"] == run_id()]
    assert [(row["severity"], row["position"]) for row in now] == [("error", 2 * SIZE)]


def test_findings_stay_with_the_runs_that_saw_them(here: Path) -> None:
    assert append() == 0
    path = Path("in/n1/orders-0", f"{0:020d}.log")
    flip(path, SIZE + 70)
    assert append() == 1
    first = run_id()
    assert append() == 1  # known, and not read again
    assert counters()["bytes"] == 0
    second = run_id()
    ((found, last),) = [(one["run_id"], one["last_run_id"]) for one in findings("bad_crc")]
    assert (found, last) == (first, second)
    flip(path, SIZE + 70)  # repaired
    assert append() == 0
    assert [(one["run_id"], one["last_run_id"]) for one in findings("bad_crc")] == [(first, second)]
    assert json.loads(Path("out/run.json").read_text())["tables"]["findings"] > len(
        [one for one in findings("bad_crc") if one["last_run_id"] == run_id()]
    )
    lines = Path("out/findings.jsonl").read_text().splitlines()
    assert len(lines) == len(pq.read_table("out/findings.parquet"))


def test_damage_without_a_trace_needs_a_whole_audit(here: Path) -> None:
    """As the page says: size and time are what a file is known by."""
    assert append() == 0
    path = Path("in/n1/other-0", f"{0:020d}.log")
    stat = path.stat()
    flip(path, 70)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert append() == 0
    assert audit("--output", "whole") == 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_file_beside_the_log_counts_too(here: Path, suffix: str) -> None:
    assert append() == 0
    path = Path("in/n1/orders-0", f"{0:020d}{suffix}")
    path.write_bytes(b"")
    append()
    assert counters()["bytes"] == 3 * SIZE


def test_a_stricter_audit_reads_all(here: Path) -> None:
    assert append() == 0
    assert append("--validate", "full") == 0
    assert counters()["bytes"] == 12 * SIZE
    (Path("in/n1") / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    append("--validate", "full")
    assert counters()["bytes"] == 10 * SIZE  # both replicas of what is compacted now


def test_another_version_checks_all_again(here: Path, monkeypatch) -> None:
    assert append() == 0
    monkeypatch.setattr("pipeline.jobs.audit.tool_version", lambda: "99")
    assert append() == 0
    assert counters()["bytes"] == 12 * SIZE
    assert append() == 0
    assert counters()["bytes"] == 0


def test_a_report_that_is_cut_is_made_anew(here: Path) -> None:
    assert append() == 0
    place = Path("out/state/other-0.reports")
    (report,) = msgspec.msgpack.decode(place.read_bytes())
    report["digest"] = report["digest"][:-1]
    place.write_bytes(msgspec.msgpack.encode([report]))
    assert append() == 0
    assert counters()["bytes"] == 2 * SIZE


def test_reports_that_can_not_be_read_are_made_anew(here: Path, capsys) -> None:
    assert append() == 0
    Path("out/state/orders-0.reports").write_bytes(b"x")
    assert append() == 0
    assert counters()["bytes"] == 10 * SIZE
    for name, content in (("findings.parquet", b"x"), ("state/cluster.json", b"")):
        place = Path("out", name)
        kept = place.read_bytes()
        place.write_bytes(content)
        capsys.readouterr()
        assert append() == 2
        assert "can not be read, so nothing can be appended" in capsys.readouterr().err
        place.write_bytes(kept)
    assert append() == 0


def test_what_does_not_go_on(here: Path, capsys) -> None:
    assert audit("--append") == 2
    assert "--append needs --output: what was read is known there" in capsys.readouterr().err
    assert audit("--output", "whole") == 0
    assert audit("--output", "whole", "--append") == 2
    assert "pipeline audit: whole holds" in capsys.readouterr().err
    assert append() == 0
    version = Path("out/_current").readlink()
    for node in (1, 2):
        path = Path(f"in/n{node}/meta.properties")
        path.write_text(path.read_text().replace("c1", "c2"))
    capsys.readouterr()
    assert append() == 2
    assert capsys.readouterr().err == (
        "pipeline audit: in/n1, in/n2 is of cluster c2, the audit out is of cluster c1\n"
    )
    assert Path("out/_current").readlink() == version
    for node in (1, 2):
        Path(f"in/n{node}/meta.properties").unlink()
    assert append("--dry-run") == 0  # they do not say of which cluster they are


def test_a_dry_run_tells_what_would_be_read(here: Path, capsys) -> None:
    assert append("--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["counters"] == {"files": 5, "bytes": 12 * SIZE}
    assert not Path("out").exists()
    assert append() == 0
    write_segment(Path("in/n1"), 0, 3, "other-0")
    capsys.readouterr()
    assert append("--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["counters"] == {"files": 5, "bytes": 3 * SIZE}
