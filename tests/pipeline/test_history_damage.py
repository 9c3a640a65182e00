"""Damage of the metadata log that nothing replaces: `history --mode` as the source has it."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from metadata import record_codec
from metadata import records as m
from metadata.loader import committed_batches
from pipeline.cli import main
from pipeline.core.audit.findings import ERROR, Finding
from pipeline.core.errors import BadInputError, CorruptSegmentError
from pipeline.jobs.history.damage import damage_lines
from pipeline.jobs.history.figures import CHANGES_SHOWN, damaged_places
from pipeline.jobs.history.input import Marker, Transaction, transactions_of
from pipeline.jobs.history.page import damage_section
from tests.pipeline.history_runs import build, contents, position_of
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log
from tests.pipeline.segments import batch, write_partition
from tests.selection import thinned

SNAPSHOTS = Path(__file__).parent.parent / "golden" / "metadata" / "static-4.3.1"
SEED = "00000000000000000209-0000000001.checkpoint"
BEGIN, END, ABORT = 23, 24, 25


@pytest.fixture(scope="module")
def log():
    return RandomLog(21, 60)


@pytest.fixture(scope="module")
def offsets(log, tmp_path_factory):
    """Those of the records of the sound log."""
    folder = tmp_path_factory.mktemp("sound")
    build(write_metadata_log(folder / "in", log.content), folder / "out")
    return archived(folder / "out")


def damaged(log, *offsets):
    """The log with the checksums of some batches spoilt, and the positions of these."""
    content = bytearray(log.content)
    places = [position_of(log.content, offset) for offset in offsets]
    for position in places:
        content[position + 62] ^= 1
    return bytes(content), places


def a_batch(log):
    """A batch of the middle that holds no marker of a transaction."""
    batches = [one for one in committed_batches(log.content) if one.records]
    plain = [
        one for one in batches
        if not any("Transaction" in type(record).__name__ for record in one.records)
    ]  # fmt: skip
    return plain[len(plain) // 2]


def archived(out):
    return sorted(pq.read_table(out / "records").column("offset").to_pylist())


def run_of(out):
    return json.loads((out / "run.json").read_text())


def test_failfast_is_the_default_and_ends_the_run(log, tmp_path):
    content, (position,) = damaged(log, a_batch(log).base_offset)
    root = write_metadata_log(tmp_path / "in", content)
    for flags in ((), ("--mode", "FAILFAST")):
        with pytest.raises(CorruptSegmentError, match=f"log:{position} .*bad_crc"):
            build(root, tmp_path / "out", *flags)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "dropmalformed"])
def test_other_modes_go_on_without_the_batch(log, offsets, tmp_path, capsys, mode):
    lost = a_batch(log)
    content, (position,) = damaged(log, lost.base_offset)
    root, out = write_metadata_log(tmp_path / "in", content), tmp_path / "out"
    command = ["history", "--input", str(root), "--output", str(out), "--mode", mode]
    assert main(command) == 1
    path = root / "__cluster_metadata-0" / f"{0:020d}.log"
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "bad_crc" in one]
    assert line.startswith(f"error {path}:{position} bad_crc __cluster_metadata-0 offset")
    assert line.endswith(": left out")
    run = run_of(out)
    assert (run["bypassed"], run["counters"]["damaged"], run["findings"]) == ([line], 1, 1)
    gone = set(range(lost.base_offset, lost.end_offset))
    assert archived(out) == [one for one in offsets if one not in gone]
    if mode != "PERMISSIVE":
        assert not (out / "damage").exists()
        return
    assert pq.read_table(out / "damage").to_pylist() == [
        {"path": str(path), "position": position, "length": len_of(log, position),
         "offset": lost.base_offset, "reason": "bad_crc",
         "detail": "the checksum in the header is not that of the bytes"}
    ]  # fmt: skip


def len_of(log, position):
    return 12 + int.from_bytes(log.content[position + 8 : position + 12], "big")


def test_an_append_keeps_what_earlier_runs_have_lost(log, tmp_path):
    first, second = (a_batch(log), list(committed_batches(log.content))[-2])
    root, out = tmp_path / "in", tmp_path / "out"
    content, _ = damaged(log, first.base_offset)
    write_metadata_log(root, content[: position_of(content, second.base_offset)])
    flags = ("--append", "--mode", "PERMISSIVE")
    assert build(root, out, *flags, run_id="r0").findings == 1
    content, _ = damaged(log, first.base_offset, second.base_offset)
    write_metadata_log(root, content)
    result = build(root, out, *flags, run_id="r1")
    assert (result.findings, result.counters["damaged"]) == (1, 2)
    rows = pq.read_table(out / "damage").to_pylist()
    assert sorted(row["offset"] for row in rows) == [first.base_offset, second.base_offset]
    assert len(result.bypassed) == 1


def test_damage_behind_an_open_transaction_is_of_the_next_append(tmp_path):
    """The archive ends where the transaction begins, so that damage is not lost in it yet."""
    begin, end, topic = (record_codec.encode(one, 0) for one in (
        m.BeginTransactionRecord(name="t"), m.EndTransactionRecord(),
        m.TopicRecord(name="a", topic_id=bytes(range(16))),
    ))  # fmt: skip
    lost, kept = bytearray(batch(2, [topic])), batch(3, [topic])
    lost[62] ^= 1
    parts = [batch(0, [topic]), batch(1, [begin]), bytes(lost), kept]
    write_partition(tmp_path / "in", parts, name="__cluster_metadata-0")
    flags = ("--append", "--mode", "PERMISSIVE")
    first = build(tmp_path / "in", tmp_path / "out", *flags, run_id="r0")
    assert (first.counters["end_offset"], first.counters["damaged"], first.findings) == (1, 0, 1)
    assert not (tmp_path / "out" / "damage").exists()
    write_partition(tmp_path / "in", [*parts, batch(4, [end])], name="__cluster_metadata-0")
    second = build(tmp_path / "in", tmp_path / "out", *flags, run_id="r1")
    assert (second.counters["end_offset"], second.counters["damaged"]) == (5, 1)
    assert archived(tmp_path / "out") == [0, 1, 3, 4]


@pytest.mark.parametrize("number", thinned(range(60), every=12))
def test_any_batch_may_be_lost(log, tmp_path, number):
    """Topics without their record, transactions without a begin or an end."""
    starts = [int.from_bytes(log.content[at : at + 8], "big") for at in positions(log.content)]
    content, _ = damaged(log, starts[number % len(starts)], starts[(number * 7 + 3) % len(starts)])
    root = write_metadata_log(tmp_path / "in", content)
    result = build(root, tmp_path / "out", "--mode", "DROPMALFORMED")
    assert result.counters["damaged"] in (1, 2)
    assert result.counters["end_offset"] > 0
    assert contents(tmp_path / "out")["records"]


def test_the_last_batch_may_be_lost_and_proves_nothing_then(log, tmp_path):
    starts = [int.from_bytes(log.content[at : at + 8], "big") for at in positions(log.content)]
    content, _ = damaged(log, starts[-1])
    root = write_metadata_log(tmp_path / "in", content)
    flags = ("--mode", "DROPMALFORMED", "--append")
    first = build(root, tmp_path / "out", *flags, run_id="r0")
    assert first.counters["damaged"] == 1
    assert first.counters["end_offset"] > starts[-1]
    with pytest.raises(BadInputError, match="neither a cluster id nor a snapshot says"):
        build(root, tmp_path / "out", *flags, run_id="r1")


def positions(content):
    found, position = [], 0
    while position < len(content):
        found.append(position)
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return found


def test_a_record_without_a_value_is_damage(tmp_path):
    write_partition(tmp_path / "in", [batch(0, [None, b"\1\x14\0\0"])], name="__cluster_metadata-0")
    with pytest.raises(CorruptSegmentError, match=r"offset 0.*a metadata record without a value"):
        build(tmp_path / "in", tmp_path / "out")
    result = build(tmp_path / "in", tmp_path / "out", "--mode", "DROPMALFORMED")
    assert (result.counters["damaged"], result.counters["no_ops"]) == (1, 1)


@pytest.mark.parametrize("size", [None, 0, 300])
def test_a_beginning_that_is_damaged_is_read_as_far_as_it_goes(tmp_path, size):
    home = tmp_path / "in" / "__cluster_metadata-0"
    home.mkdir(parents=True)
    for path in SNAPSHOTS.iterdir():
        if (
            path.name[0] == "0"
            and int(path.name[:20]) >= 182
            and not (path.name.endswith(".checkpoint") and path.name != SEED)
        ):
            shutil.copy(path, home)
    if size is not None:
        (home / SEED).write_bytes((home / SEED).read_bytes()[:size])
        with pytest.raises(BadInputError, match=SEED):
            build(home.parent, tmp_path / "out")
    result = build(home.parent, tmp_path / "out", "--mode", "DROPMALFORMED")
    assert result.counters["start_offset"] == 209
    assert result.counters["damaged"] == result.findings == (0 if size is None else 1)
    assert [SEED in line for line in result.bypassed] == [True] * result.findings


def test_of_two_damaged_copies_one_is_read_without_its_damage(log, tmp_path):
    one, other = (
        damaged(log, offset)[0]
        for offset in (
            a_batch(log).base_offset,
            list(committed_batches(log.content))[-3].base_offset,
        )
    )
    write_metadata_log(tmp_path / "in" / "a", one)
    write_metadata_log(tmp_path / "in" / "b", other)
    result = build(tmp_path / "in", tmp_path / "out", "--mode", "DROPMALFORMED")
    # the first is left out for the second, which has another damage and nothing in its place
    assert result.counters["damaged"] == 1
    assert "left out" in result.bypassed[0]


def marker(offset, kind):
    return Marker(offset, offset, kind, offset * 10)


def test_markers_that_are_lost():
    ended, begin = transactions_of(
        [marker(2, END), marker(3, BEGIN), marker(6, BEGIN), marker(9, END), marker(12, BEGIN)],
        has_gaps=True,
    )
    assert ended == [Transaction(3, 6, 6, 60, True), Transaction(6, 9, 9, 90, False)]
    assert begin == 12


def places(count):
    return [Finding(severity=ERROR, check="bad_crc", path="<p>", position=n) for n in range(count)]


def test_lines_name_the_first_places():
    assert damage_lines([]) == ()
    assert len(damage_lines(places(20))) == 20
    lines = damage_lines(places(23))
    assert (len(lines), lines[-1]) == (21, "and 3 more damaged places, left out")


def page_of(root, bypassed, damaged, rows=()):
    root.mkdir()
    (root / "run.json").write_text(json.dumps({"bypassed": bypassed}))
    if rows:
        (root / "damage").mkdir()
        from pipeline.jobs.history.damage import write_damage

        (root / "damage").rmdir()
        write_damage(root, "0", rows)
    return damage_section(str(root), damaged)


def test_the_page_says_what_was_read_around_and_what_is_lost(tmp_path):
    assert page_of(tmp_path / "sound", [], 0) == ""
    around = page_of(tmp_path / "around", ["a <b>"], 0)
    assert "Nothing is lost" in around
    assert "<li>a &lt;b&gt;</li>" in around
    assert "<table>" not in around
    lost = page_of(tmp_path / "lost", [], 250, places(250))
    assert "<p>250 damaged places of the log are in no other copy" in lost
    assert lost.count("<td>&lt;p&gt;</td>") == CHANGES_SHOWN == 200
    table = tmp_path / "lost" / "damage"
    shutil.copy(table / "damage-0.parquet", table / "damage-1.parquet")  # of an append
    assert [row["position"] for row in damaged_places(str(tmp_path / "lost"))] == list(range(200))
