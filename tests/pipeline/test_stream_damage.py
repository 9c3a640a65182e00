"""A stream over damage, gaps, deleted and cleaned records: what a batch read tells, it tells."""

import random
from pathlib import Path

import pytest

from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import read_splits, read_table
from pipeline.core.reading.stream import Limit, initial_offset, latest_offset, plan_batch
from storage.segments.index import OffsetIndex
from tests.pipeline.segments import batch, write_high_watermark, write_partition
from tests.pipeline.test_stream import drain, options, point, rows
from tests.selection import thinned

Row = tuple[int | None, int | None]


def spoilt(offset: int, at: int, value: int) -> bytes:
    """A batch of one record with one byte set: 16 is the magic, 70 inside the record."""
    content = bytearray(batch(offset))
    assert content[at] != value
    content[at] = value
    return bytes(content)


def log_start(root: Path, offset: int) -> None:
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Offset 3 has magic 9, a segment follows."""
    write_partition(tmp_path, [*map(batch, range(3)), spoilt(3, 16, 9), *map(batch, range(4, 6))])
    write_partition(tmp_path, map(batch, range(6, 8)), base_offset=6)
    return tmp_path


@pytest.mark.parametrize("limit", [Limit(), Limit(rows=1), Limit(rows=2)])
def test_damage_is_met_in_every_mode(damaged: Path, limit: Limit) -> None:
    with pytest.raises(CorruptSegmentError, match=r"base offset 3\): bad_magic"):
        drain(options(damaged), limit)
    found = drain(options(damaged, mode="PERMISSIVE"), limit)
    assert [x for part in found for x in part] == [0, 1, 2, None, 4, 5, 6, 7]
    found = drain(options(damaged, mode="DROPMALFORMED"), limit)
    assert [x for part in found for x in part] == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("at", [16, 70], ids=["header", "checksum"])
def test_damage_at_the_end_of_what_is_committed_is_not_waited_for(tmp_path: Path, at: int) -> None:
    path = write_partition(tmp_path, [batch(0), batch(1), spoilt(2, at, 9)])
    write_high_watermark(tmp_path, 3)
    with pytest.raises(CorruptSegmentError, match="base offset 2"):
        initial_offset(options(tmp_path, upTo="hw"))
    permissive = options(tmp_path, upTo="hw", mode="PERMISSIVE")
    assert drain(permissive, Limit()) == [[0, 1]]
    with path.open("ab") as file:
        file.write(batch(3))
    write_high_watermark(tmp_path, 4)  # the row comes with the next sound batch
    assert drain(permissive, Limit()) == [[0, 1, None, 3]]


def test_damage_above_what_is_committed_is_not_looked_at(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0), batch(1), spoilt(2, 16, 9)])
    write_high_watermark(tmp_path, 2)
    assert drain(options(tmp_path, upTo="hw"), Limit()) == [[0, 1]]


def test_the_last_batch_of_a_closed_segment_is_damaged(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0), spoilt(1, 16, 9)])
    write_partition(tmp_path, [], base_offset=2)
    permissive = options(tmp_path, mode="PERMISSIVE")
    assert drain(permissive, Limit()) == [[0, None]]
    assert read_table(permissive)["offset"].to_pylist() == [0, None]
    with pytest.raises(CorruptSegmentError, match="bad_magic"):
        drain(options(tmp_path), Limit())


def all_rows(chosen: Options, limits: list[Limit]) -> list[Row]:
    """Offset, and where damage was met, of every row of a stream with these limits in turn."""
    start, found, number = initial_offset(chosen), [], 0
    while (end := latest_offset(start, chosen, limits[number % len(limits)])[0]) != start:
        for pack in plan_batch(start, end, chosen)[0]:
            for part in read_splits(pack, chosen):
                found += map(of_row, part.to_pylist())
        start, number = end, number + 1
    return found


def of_row(row: dict) -> Row:
    damage = row["_corrupt_batch"]
    return row["offset"], None if damage is None else damage["position"]


def with_damage(content: bytes, rng: random.Random, starts: list[int]) -> bytes:
    """Up to two places changed, cut out or filled in, before the last batch starts.

    What no checksum covers (base offset, epoch) is left alone: nobody can see that it is wrong.
    """
    for _ in range(rng.randint(0, 2)):
        start = rng.choice(starts[:-1])
        at = rng.choice([start + 8, start + 11, start + 16, start + 19, start + 30, start + 63])
        kind = rng.random()
        if kind < 0.5:
            content = (
                content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
            )
        elif kind < 0.75:
            content = content[:at] + rng.randbytes(rng.randint(1, 90)) + content[at:]
        else:
            content = content[:at] + content[at + rng.randint(1, 20) :]
    return content


@pytest.mark.parametrize("seed", thinned(range(24), every=4))
def test_any_damage_gives_the_rows_of_a_batch_read(tmp_path: Path, seed: int) -> None:
    """With and without an index, tasks and micro-batches cut anywhere."""
    rng = random.Random(seed)
    offset = 0
    for _ in range(3):
        base, content = offset, b""
        starts, index = [], OffsetIndex(base)
        for _ in range(rng.randint(2, 6)):
            count = rng.randint(1, 5)
            if content:
                index.append(offset + count - 1, len(content))
            starts.append(len(content))
            content += batch(offset, [b"v" * rng.randint(1, 9)] * count)
            offset += count
        content = with_damage(content, rng, starts)
        path = write_partition(tmp_path, [content], base_offset=base)
        if rng.random() < 0.5:
            path.with_suffix(".index").write_bytes(index.encode())
    chosen = options(tmp_path, mode="PERMISSIVE", columns="offset", maxSplitBytes="150")
    limits = [rng.choice([Limit(rows=1), Limit(rows=7), Limit(size_bytes=200)]) for _ in range(4)]
    expected = [of_row(row) for row in read_table(chosen).to_pylist()]
    assert all_rows(chosen, limits) == all_rows(chosen, [Limit()]) == expected


def test_what_deleterecords_left_in_a_file_is_not_read(tmp_path: Path) -> None:
    path = write_partition(tmp_path, [batch(10 * i, [b"v"] * 10) for i in range(3)])
    log_start(tmp_path, 15)
    chosen = options(tmp_path)
    assert point(initial_offset(chosen)) == (15, -1)
    assert drain(chosen, Limit()) == [list(range(15, 30))]
    assert read_table(chosen)["offset"].to_pylist() == list(range(15, 30))
    named = options(path)  # a file that is named itself is read whole
    assert read_table(named)["offset"].to_pylist() == list(range(30))
    whole = options(tmp_path, startingOffsets='{"orders":{"0":0}}', failOnDataLoss="false")
    assert read_table(whole)["offset"].to_pylist() == list(range(30))


def test_a_start_below_the_logs_start_is_data_loss(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(5), batch(6)], base_offset=5)
    given = {"startingOffsets": '{"orders":{"0":2}}'}
    with pytest.raises(DataLossError, match="offset 2 is below the log's start 5"):
        drain(options(tmp_path, **given), Limit())
    lenient = options(tmp_path, **given, failOnDataLoss="false")
    start = initial_offset(lenient)
    end, (problem,) = latest_offset(start, lenient, Limit())
    assert (problem.reason, problem.resume.offset) == ("retention", 5)
    assert rows(start, end, lenient) == [5, 6]


def test_a_segment_that_is_missing_is_data_loss(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0), batch(1)])
    chosen = options(tmp_path)
    standing, _ = latest_offset(initial_offset(chosen), chosen, Limit())
    write_partition(tmp_path, [batch(4), batch(5)], base_offset=4)
    for start in (initial_offset(chosen), standing):
        end, _ = latest_offset(start, chosen, Limit())
        with pytest.raises(DataLossError, match="ends at 2, the next segment begins at 4"):
            plan_batch(start, end, chosen)
        lenient = options(tmp_path, failOnDataLoss="false")
        _, (problem,) = plan_batch(start, end, lenient)
        assert (problem.reason, problem.resume.offset) == ("gap", 4)
    assert drain(lenient, Limit()) == [[0, 1, 4, 5]]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    assert drain(chosen, Limit()) == [[0, 1, 4, 5]]  # the cleaner may take whole segments


@pytest.mark.parametrize("rolls", [True, False])
def test_the_cleaner_takes_the_batch_before_the_point(tmp_path: Path, rolls: bool) -> None:
    write_partition(tmp_path, [batch(0, epoch=1), batch(1, epoch=2)])
    chosen = options(tmp_path)
    start, _ = latest_offset(initial_offset(chosen), chosen, Limit())
    assert point(start) == (2, 2)
    write_partition(tmp_path, [batch(0, epoch=1), *([] if rolls else [batch(2, epoch=3)])])
    if rolls:
        write_partition(tmp_path, [batch(2, epoch=3)], base_offset=2)
    with pytest.raises(DataLossError, match="has leader epoch 1, not 2"):
        latest_offset(start, chosen, Limit())
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    end, _ = latest_offset(start, chosen, Limit())
    assert rows(start, end, chosen) == [2]
    write_partition(tmp_path, [batch(0, epoch=4), *([] if rolls else [batch(2, epoch=4)])])
    with pytest.raises(DataLossError, match="has leader epoch 4, not 2"):
        latest_offset(start, chosen, Limit())


def test_the_cleaner_takes_all_between_the_point_and_an_empty_segment(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0), batch(1)])
    chosen = options(tmp_path)
    start, _ = latest_offset(initial_offset(chosen), chosen, Limit())
    write_partition(tmp_path, [batch(0)])
    write_partition(tmp_path, [], base_offset=2)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert latest_offset(start, chosen, Limit()) == (start, [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "orders,nosuch,more"}, "no partition of more, nosuch$"),
        ({"assign": '{"orders":[0,7]}'}, "no partition orders-7, which assign names"),
        ({"startingOffsets": '{"nosuch":{"0":1}}'}, "of nosuch, which startingOffsets names"),
        ({"startingOffsetsByTimestamp": '{"orders":{"3":1}}'}, "orders-3, which startingOffsetsB"),
        ({"endingOffsets": '{"orders":{"1":1}}'}, "orders-1, which endingOffsets names"),
    ],
)
def test_a_name_of_nothing_is_refused(tmp_path: Path, given: dict[str, str], message: str) -> None:
    write_partition(tmp_path, [batch(0)])
    for read in (read_table, initial_offset):
        with pytest.raises(BadInputError, match=message):
            read(options(tmp_path, **given))
