"""Torn batches and zeros behind a log: a node cuts them when it starts, and no read stops there."""

import json
import shutil
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.core.errors import CorruptSegmentError
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import plan_read, read_table
from pipeline.core.reading.stream import replicas
from pipeline.jobs.history.input import choose_log, log_options, merge_scans, scan_pieces
from storage.checkpoints.flushed_end_file import FLUSHED_END_NAME, encode_flushed_end
from tests.pipeline.segments import batch, write_partition

STORAGE = Path(__file__).resolve().parent.parent / "golden" / "storage"
TAILS = {"zero_tail": bytes(300), "partial_tail": batch(20, [b"x" * 200])[:100]}
every_tail = pytest.mark.parametrize("kind", sorted(TAILS))


def log(root: Path, tail: bytes, recovery_point: int | None = None) -> Path:
    """A log of the offsets 0 to 20 with something behind it."""
    path = write_partition(root, [batch(0, [b"a"] * 10), batch(10, [b"b"] * 10), tail])
    if recovery_point is not None:
        known = f"0\n1\norders 0 {recovery_point}\n"
        (root / "recovery-point-offset-checkpoint").write_text(known)
    return path


def read(root: Path, **more: str) -> int:
    options = parse_options({"path": str(root), "mode": "FAILFAST", **more})
    return int(read_table(options).num_rows)


@every_tail
def test_what_a_node_cuts_is_left_out_and_named(tmp_path: Path, kind: str) -> None:
    path = log(tmp_path, TAILS[kind], recovery_point=20)
    assert read(tmp_path) == 20
    plan = plan_read(parse_options({"path": str(tmp_path)}))
    (line,) = plan.cut_tails
    size = len(TAILS[kind])
    at = path.stat().st_size - size
    assert line.startswith(f"{path}:{at} {kind}: {size} bytes behind offset 20 ")
    assert plan.warnings == ()


@every_tail
def test_below_the_recovery_point_it_is_damage(tmp_path: Path, kind: str) -> None:
    log(tmp_path, TAILS[kind], recovery_point=21)
    with pytest.raises(CorruptSegmentError, match=kind):
        read(tmp_path)
    assert plan_read(parse_options({"path": str(tmp_path)})).cut_tails == ()


@every_tail
def test_above_what_is_read_it_is_nothing(tmp_path: Path, kind: str) -> None:
    log(tmp_path, TAILS[kind], recovery_point=21)
    assert read(tmp_path, endingOffsets='{"orders": {"0": 20}}') == 20
    below = {"path": str(tmp_path), "endingOffsets": '{"orders": {"0": 20}}'}
    assert plan_read(parse_options(below)).cut_tails == (), "no node cuts it"
    with pytest.raises(CorruptSegmentError, match=kind):
        read(tmp_path, endingOffsets='{"orders": {"0": 21}}')


@pytest.mark.parametrize(("end", "is_read"), [(3, True), (10, True), (11, False), (20, False)])
def test_damage_above_what_is_read_stops_nothing(tmp_path: Path, end: int, is_read: bool) -> None:
    content = bytearray(batch(10, [b"b"] * 10))
    content[-1] ^= 1
    write_partition(tmp_path, [batch(0, [b"a"] * 10), bytes(content)])
    ending = f'{{"orders": {{"0": {end}}}}}'
    if is_read:
        assert read(tmp_path, endingOffsets=ending) == end
    else:
        with pytest.raises(CorruptSegmentError, match="bad_crc"):
            read(tmp_path, endingOffsets=ending)


@every_tail
def test_below_the_flushed_end_of_kraftline_it_is_damage(tmp_path: Path, kind: str) -> None:
    path = log(tmp_path, TAILS[kind])
    (path.parent / FLUSHED_END_NAME).write_bytes(encode_flushed_end(21))
    with pytest.raises(CorruptSegmentError, match=kind):
        read(tmp_path)


@every_tail
def test_a_closed_segment_can_not_end_so(tmp_path: Path, kind: str) -> None:
    log(tmp_path, TAILS[kind])
    write_partition(tmp_path, [batch(20)], base_offset=20)
    with pytest.raises(CorruptSegmentError, match=kind):
        read(tmp_path)


def test_zeros_before_a_batch_are_damage(tmp_path: Path) -> None:
    log(tmp_path, bytes(300) + batch(20))
    with pytest.raises(CorruptSegmentError, match="old_magic"):
        read(tmp_path)


def test_a_range_that_ends_before_the_last_segment_has_no_tail(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0)])
    write_partition(tmp_path, [bytes(300)], base_offset=1)
    before = parse_options({"path": str(tmp_path), "endingOffsets": '{"orders":{"0":1}}'})
    assert plan_read(before).cut_tails == ()
    assert len(plan_read(parse_options({"path": str(tmp_path)})).cut_tails) == 1


def test_an_export_reads_to_the_zeros_and_says_so(tmp_path: Path, capsys) -> None:
    """Exit code 0: nothing is lost."""
    path = log(tmp_path / "in", TAILS["zero_tail"])
    out = tmp_path / "out"
    assert main(["export", "--input", str(tmp_path / "in"), "--output", str(out)]) == 0
    (told,) = [line for line in capsys.readouterr().err.splitlines() if str(path) in line]
    run = json.loads((out / "run.json").read_text())
    assert run["bypassed"] == [told]
    assert run["tables"]["data"] == 20


@pytest.mark.parametrize(("limit", "recovery_point"), [(20, None), (21, None), (None, 21)])
def test_a_stream_stops_at_zeros_below_what_is_committed_or_flushed(
    tmp_path: Path, limit: int | None, recovery_point: int | None
) -> None:
    log(tmp_path, TAILS["zero_tail"], recovery_point)
    options = {"path": str(tmp_path), "mode": "FAILFAST", "upTo": "hw" if limit else "logEnd"}
    if limit is not None:
        (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {limit}\n")
    if limit == 20:
        assert replicas(parse_options(options))["orders", 0].end.offset == 20
        return
    with pytest.raises(CorruptSegmentError, match="zero_tail"):
        replicas(parse_options(options))


def test_a_stream_to_the_end_of_the_log_waits_at_zeros(tmp_path: Path) -> None:
    log(tmp_path, TAILS["zero_tail"])
    options = parse_options({"path": str(tmp_path), "mode": "FAILFAST", "upTo": "logEnd"})
    assert replicas(options)["orders", 0].end.offset == 20


def test_a_history_reads_to_the_zeros(tmp_path: Path) -> None:
    """Kafka runs with this log; its own zeros, as of a file that was extended and never written."""
    shutil.copytree(STORAGE / "static", tmp_path / "log")
    shutil.copytree(STORAGE / "bad" / "tail-zero-filled", tmp_path / "log", dirs_exist_ok=True)
    choice = choose_log([str(tmp_path / "log")])
    sound = choose_log([str(STORAGE / "static")])
    assert (choice.start, choice.end) == (sound.start, sound.end)
    options = log_options(choice)
    plan = plan_read(options)
    scanned = [scan_pieces(pack, options) for pack in plan.packs]
    assert merge_scans(scanned).end_offset == sound.end
    assert len(plan.cut_tails) == 1
