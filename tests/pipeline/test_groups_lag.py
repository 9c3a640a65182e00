"""Lag of groups: the end of a log in the past by the stamps of its batches, and its bounds."""

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest

from pipeline.core.groups.commits import NO_OFFSET, Timeline
from pipeline.core.groups.data_log import DataLog, Stamps, newest_stamp_ms, read_data_log
from pipeline.core.groups.lag import lag_table, sample_times
from pipeline.core.groups.tables import LAG
from pipeline.core.reading.discovery import PartitionFiles, discover
from tests.pipeline.segments import TIME_MS, batch, marker, write_partition

APPEND_TIME = 0x08
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"
NO_SAMPLES = np.zeros(0, np.int64)
GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def stamps(*rows: tuple[int, int, int, bool]) -> Stamps:
    """Batches as (first offset, exclusive end, stamp in ms after TIME_MS, the leader's)."""
    bases, ends, times, leaders = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Stamps(
        bases=np.array(bases, np.int64), ends=np.array(ends, np.int64),
        stamps_ms=np.array(times, np.int64) + TIME_MS * (np.array(times, np.int64) >= 0),
        is_leaders=np.array(leaders, np.bool_), log_end=max(ends, default=0),
    )  # fmt: skip


def ends(found: Stamps, *instants: int) -> list[tuple[int, int]]:
    low, high = found.ends_at(np.array(instants, np.int64) + TIME_MS)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def timeline(*offsets: tuple[int, int], group: str = "g", topic_id: str | None = None) -> Timeline:
    """Commits as (ms after TIME_MS, offset)."""
    return Timeline(
        group_id=group, topic="orders", partition=0,
        offsets=[(TIME_MS + time, offset, topic_id) for time, offset in offsets],
    )  # fmt: skip


def lag(
    timelines: list[Timeline], found: Stamps, samples: list[int] | None = None,
    topic_id: str | None = None,
) -> list[tuple]:  # fmt: skip
    instants = np.array(samples or [], np.int64) + TIME_MS
    table = lag_table("orders", 0, topic_id, timelines, found, samples_ms=instants)
    assert table.schema == LAG
    return [
        (row["point"], round(row["ts"].timestamp() * 1000) - TIME_MS, row["committed_offset"],
         row["lag_min"], row["lag_max"], row["is_exact"])
        for row in table.to_pylist()
    ]  # fmt: skip


def test_stamps_of_leaders_tell_the_end_but_for_the_millisecond_of_an_append() -> None:
    found = stamps((0, 10, 100, True), (10, 30, 200, True), (30, 35, 300, True))
    assert ends(found, 99, 101, 199, 201, 301) == [(0, 0), (10, 10), (10, 10), (30, 30), (35, 35)]
    assert ends(found, 100, 200, 300) == [(0, 10), (10, 30), (30, 35)]


def test_stamps_of_producers_only_bound_the_end_from_above() -> None:
    found = stamps((0, 10, 100, False), (10, 30, 200, False))
    assert ends(found, 99, 150, 250) == [(0, 0), (0, 10), (0, 30)]
    mixed = stamps((0, 10, 100, False), (10, 30, 200, True), (30, 40, 300, False))
    assert ends(mixed, 150, 250, 350) == [(0, 10), (30, 30), (30, 40)]


def test_a_batch_that_is_stamped_late_was_there_before_all_that_follow() -> None:
    found = stamps((0, 10, 300, True), (10, 20, 100, True), (20, 30, 400, True))
    # the clock went back: which stamp is true is not known, so the bounds contradict each other
    assert ends(found, 50, 200, 350) == [(0, 0), (20, 0), (20, 20)]


def test_a_batch_was_there_when_one_behind_it_was() -> None:
    found = stamps((0, 10, 500, False), (10, 20, 100, True), (20, 30, 600, False))
    assert ends(found, 150, 550, 650) == [(20, 0), (20, 20), (20, 30)]


def test_a_batch_is_there_after_the_longest_that_a_producer_tries() -> None:
    found = stamps((0, 10, 100, False), (10, 20, -1, False), (20, 30, 200, False))
    instants = np.array([119, 120, 121, 219, 220, 221], np.int64) + TIME_MS
    low, high = found.ends_at(instants, 20)
    assert low.tolist() == [0, 0, 10, 10, 10, 30]
    assert high.tolist() == [20, 20, 20, 30, 30, 30]
    table = lag_table("orders", 0, None, [timeline((150, 5))], found,
                      samples_ms=NO_SAMPLES, delivery_ms=20)  # fmt: skip
    assert table.column("lag_min").to_pylist() == [5]
    assert lag([timeline((150, 5))], found) == [("commit", 150, 5, 0, 15, False)]


def test_between_batches_that_were_cleaned_the_end_is_between() -> None:
    found = stamps((0, 10, 100, True), (50, 60, 200, True))
    assert ends(found, 150) == [(10, 50)]
    begun = stamps((50, 60, 200, True))  # retention deleted what was before
    assert ends(begun, 100) == [(0, 50)]


def test_a_batch_without_a_stamp_and_an_empty_log() -> None:
    found = stamps((0, 10, -1, False), (10, 20, 100, True))
    assert ends(found, 50, 150) == [(0, 10), (20, 20)]
    assert ends(stamps(), 50) == [(0, 0)]


def test_lag_at_commits_is_exact_with_stamps_of_leaders() -> None:
    found = stamps((0, 10, 100, True), (10, 30, 200, True))
    assert lag([timeline((150, 4), (250, 30))], found) == [
        ("commit", 150, 4, 6, 6, True), ("commit", 250, 30, 0, 0, True)]  # fmt: skip


def test_what_any_group_committed_was_in_the_log() -> None:
    found = stamps((0, 10, 100, False), (10, 30, 200, False))
    ahead, behind = timeline((220, 30), group="a"), timeline((210, 2), (230, 3), group="b")
    assert lag([ahead, behind], found) == [
        ("commit", 220, 30, 0, 0, True), ("commit", 210, 2, 0, 28, False),
        ("commit", 230, 3, 27, 27, True)]  # fmt: skip


def test_samples_between_commits_show_a_group_that_stands_still() -> None:
    found = stamps((0, 10, 100, True), (10, 30, 200, True), (30, 90, 300, True))
    rows = lag([timeline((150, 10))], found, [140, 150, 250, 350])
    assert rows == [
        ("commit", 150, 10, 0, 0, True), ("sample", 150, 10, 0, 0, True),
        ("sample", 250, 10, 20, 20, True), ("sample", 350, 10, 80, 80, True)]  # fmt: skip


def test_a_removed_offset_has_no_lag_until_the_next_commit() -> None:
    found = stamps((0, 10, 100, True))
    rows = lag([timeline((150, 4), (200, NO_OFFSET), (300, 6))], found, [160, 250, 350])
    assert rows == [
        ("commit", 150, 4, 6, 6, True), ("sample", 160, 4, 6, 6, True),
        ("commit", 300, 6, 4, 4, True), ("sample", 350, 6, 4, 4, True)]  # fmt: skip


def test_what_was_committed_for_another_topic_of_the_name_has_no_lag() -> None:
    found = stamps((0, 10, 100, True))
    old, new = timeline((150, 500), topic_id="old"), timeline((160, 4), topic_id="new", group="h")
    assert lag([old, new], found, topic_id="new") == [("commit", 160, 4, 6, 6, True)]
    # an id that is not known on either side is no other topic
    assert len(lag([old, new], found, topic_id=None)) == 2
    assert len(lag([timeline((150, 4))], found, topic_id="new")) == 1


def test_stamps_that_contradict_a_commit_leave_the_end_of_the_log() -> None:
    ahead = stamps((0, 10, 900, False), (10, 30, 950, False))  # by the stamps nothing was there
    assert lag([timeline((150, 4))], ahead) == [("commit", 150, 4, 0, 26, False)]
    assert lag([timeline((150, 99))], ahead) == [("commit", 150, 99, 0, 0, True)]


def test_commits_whose_times_go_back_keep_their_order() -> None:
    found = stamps((0, 10, 100, True))
    rows = lag([timeline((200, 4), (150, 6))], found, [210])
    assert rows == [
        ("commit", 200, 4, 6, 6, True), ("commit", 200, 6, 4, 4, True),
        ("sample", 210, 6, 4, 4, True)]  # fmt: skip


def test_nobody_reads_the_partition() -> None:
    assert lag([], stamps((0, 10, 100, True)), [5]) == []


@pytest.mark.parametrize(
    ("begin", "end", "count", "first", "step", "number"),
    [
        (1_000, 201_000, 200, 1_000, 1_000, 201),
        (1_001, 201_000, 200, 2_000, 1_000, 200),
        (1_000, 201_001, 200, 2_000, 2_000, 100),
        (0, 3_600_000 * 24 * 3, 200, 0, 1_800_000, 145),
        (500, 400, 200, 1_000, 1_000, 0),
        (0, 1_999, 200, 0, 1_000, 2),
        (0, 86_400_000 * 365 * 9, 4, 0, 86_400_000 * 365, 10),
    ],
)
def test_samples_are_whole_multiples_of_a_step(
    begin: int, end: int, count: int, first: int, step: int, number: int
) -> None:
    found = sample_times(begin, end, count).tolist()
    assert found == [first + step * index for index in range(number)]


def test_steps_are_those_of_a_clock() -> None:
    minute, day = 60_000, 86_400_000
    steps = [1000 * one for one in (1, 2, 5, 10, 15, 30)]
    steps += [minute * one for one in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)]
    steps += [day * one for one in (1, 2, 7, 14, 30, 90, 365)]
    for step, longer in itertools.pairwise(steps):
        assert np.diff(sample_times(0, step * 10, 10)).tolist() == [step] * 10
        assert int(np.diff(sample_times(0, step * 10 + 1, 10)).max(initial=longer)) == longer
        assert len(sample_times(0, step * 10 + 1, 10)) == (step * 10 + 1) // longer + 1


def partition_of(root: Path) -> PartitionFiles:
    (found,) = discover([str(root)]).partitions
    return found


def read(root: Path, end: int | None = None) -> DataLog:
    return read_data_log(partition_of(root), end)


def test_headers_of_a_partition(tmp_path: Path) -> None:
    write_partition(
        tmp_path,
        [batch(0, [b"a", b"b"], attributes=APPEND_TIME), batch(2, time_ms=TIME_MS + 50)],
    )
    write_partition(tmp_path, [batch(3, time_ms=TIME_MS + 90)], base_offset=3)
    found = read(tmp_path).stamps
    assert found.bases.tolist() == [0, 2, 3]
    assert found.ends.tolist() == [2, 3, 4]
    assert (found.stamps_ms - TIME_MS).tolist() == [1, 50, 90]
    assert found.is_leaders.tolist() == [True, False, False]
    assert found.log_end == 4
    below = read(tmp_path, 3).stamps
    assert (below.ends.tolist(), below.log_end) == ([2, 3], 3)
    assert newest_stamp_ms(partition_of(tmp_path)) == TIME_MS + 90


def test_a_segment_above_the_end_is_not_opened(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0), batch(1), batch(2)])
    gone = write_partition(tmp_path, [batch(3)], base_offset=3)
    partition = partition_of(tmp_path)
    gone.unlink()
    assert read_data_log(partition, 3).stamps.log_end == 3
    with pytest.raises(FileNotFoundError):
        read_data_log(partition, 4)


def test_the_newest_stamp_is_looked_for_behind_the_last_entry_of_the_index(tmp_path: Path) -> None:
    first, second = batch(0, time_ms=TIME_MS + 9), batch(1, time_ms=0)
    path = write_partition(tmp_path, [first, second])
    assert newest_stamp_ms(partition_of(tmp_path)) == TIME_MS + 9
    path.with_suffix(".index").write_bytes(struct.pack(">ii", 1, len(first)))
    assert newest_stamp_ms(partition_of(tmp_path)) == 0


def test_old_messages_have_stamps_too() -> None:
    folder = GOLDEN / "storage" / "legacy-log" / "mixed-v0-v1-v2-0"
    (partition,) = discover([str(folder)]).partitions
    found = read_data_log(partition, None)
    assert found.damage == ()
    assert (np.diff(found.stamps.ends) > 0).all()
    assert found.stamps.stamps_ms.min() == -1  # of magic 0
    assert found.stamps.stamps_ms.max() > 0


def test_what_is_below_the_start_of_the_log_does_not_count(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0), batch(1), batch(2)])
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert read(tmp_path).stamps.bases.tolist() == [2]
    assert read(tmp_path, 2).stamps.log_end == 2


def test_an_empty_segment_at_the_end_has_no_newest_stamp(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0, time_ms=TIME_MS + 7)])
    write_partition(tmp_path, [], base_offset=1)
    assert newest_stamp_ms(partition_of(tmp_path)) == TIME_MS + 7
    write_partition(tmp_path, [], name="empty-0")
    (empty,) = discover([str(tmp_path / "empty-0")]).partitions
    assert newest_stamp_ms(empty) is None
    assert read_data_log(empty, None).stamps.log_end == 0


def test_damaged_headers_are_named_and_passed_over(tmp_path: Path) -> None:
    path = write_partition(tmp_path, [batch(0), batch(1), batch(2)])
    content = bytearray(path.read_bytes())
    size = len(content) // 3
    content[size + 16] = 9  # the magic of the second batch
    path.write_bytes(content)
    found = read(tmp_path)
    assert found.stamps.bases.tolist() == [0, 2]
    (line,) = found.damage
    assert line.startswith(f"{path}:{size} bad_magic: ")
    path.write_bytes(bytes(content) + bytes(100))  # zeros behind the log are cut by a node
    assert len(read(tmp_path).damage) == 1


def test_a_stamp_of_1970_is_one() -> None:
    found = Stamps(
        bases=np.array([0]), ends=np.array([10]), stamps_ms=np.array([0]),
        is_leaders=np.array([True]), log_end=10,
    )  # fmt: skip
    low, high = found.ends_at(np.array([0, 1]))
    assert (low.tolist(), high.tolist()) == ([0, 10], [10, 10])


@pytest.mark.parametrize("attributes", [0x10, 0x30])
def test_what_is_no_marker_ends_no_transaction(tmp_path: Path, attributes: int) -> None:
    """Data with the key of a marker, and a control record that is none."""
    key = b"\0\0\0\1" if attributes == 0x10 else b"\0\0\0\6"
    first = batch(0, attributes=0x10, producer=(7, 0, 0))
    other = batch(1, [b"\0" * 6], keys=[key], attributes=attributes, producer=(7, 0, 1))
    write_partition(tmp_path, [first, other])
    assert [one.first_offset for one in read(tmp_path).opened] == [0]


def test_open_transactions_of_a_log(tmp_path: Path) -> None:
    def data(offset: int, producer: int, epoch: int, time: int) -> bytes:
        return batch(offset, attributes=0x10, producer=(producer, epoch, 0), time_ms=TIME_MS + time)

    write_partition(
        tmp_path,
        [data(0, 7, 0, 10), data(1, 8, 3, 20), data(2, 7, 1, 30), marker(3, 8, commit=True),
         data(4, 9, 0, 40), batch(5)],
    )  # fmt: skip
    opened = [
        (one.producer_id, one.producer_epoch, one.first_offset, one.first_ms - TIME_MS,
         one.last_ms - TIME_MS)
        for one in read(tmp_path).opened
    ]  # fmt: skip
    assert opened == [(7, 1, 0, 10, 30), (9, 0, 4, 40, 40)]
    assert [one.producer_id for one in read(tmp_path, 3).opened] == [7, 8]
