"""Transactions that ended above the recorded high watermark, of which no snapshot tells."""

from collections.abc import Callable

import msgspec
import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.ended_transactions import EndedTransaction, ended_transactions, has_marker
from storage.logs.log_directory import TopicSettings
from storage.logs.unified_log import UnifiedLog
from storage.producers.append_source import COORDINATOR
from tests.storage.log_brokers import Broker
from tests.storage.test_unified_log import NOW, WITHOUT_COORDINATOR, opened, produced
from wire.batches.transaction_markers import marker_batch

TRANSACTIONAL = 1 << 4
SIZE = len(produced(NOW).buffer)
TWO = 2 * SIZE + 20  # bytes of a segment of two batches, markers are larger


def written(log: UnifiedLog, history: str) -> None:
    """Append a batch for each letter: a record of no producer, of one, in its transaction, an end.

    `-` no producer; `i` producer 5, idempotent; `a` and `b` in a transaction of producer 7 or 8,
    `A` and `B` its end.
    """
    for letter in history:
        producer = {"-": -1, "i": 5, "a": 7, "b": 8}[letter.lower()]
        if letter.isupper():
            marker = marker_batch(
                producer, 0, is_commit=True, coordinator_epoch=0, timestamp_ms=NOW
            )
            log.append_as_leader(marker, 1, NOW, COORDINATOR)
            continue
        entry = log.producers.entry(producer)
        log.append_as_leader(
            produced(
                NOW,
                producer=producer,
                sequence=0 if entry is None else entry.last_sequence + 1,
                attributes=TRANSACTIONAL if letter in "ab" else 0,
            ),
            1,
            NOW,
        )


def stopped(history: str, segment_bytes: int = TWO) -> MemoryVfs:
    """The disk of a log that was closed in order: with a snapshot at its end."""
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=segment_bytes)
    written(log, history)
    log.close()
    return vfs


def started(vfs: MemoryVfs, high_watermark: int, start: int = 0) -> UnifiedLog:
    log = opened(vfs, is_clean=True, high_watermark=high_watermark, start=start, segment_bytes=TWO)
    log.set_high_watermark(high_watermark)
    return log


def stables(log: UnifiedLog) -> list[int]:
    """The last stable offsets while the high watermark rises to the end."""
    found = []
    for high_watermark in range(log.high_watermark, log.end_offset + 1):
        log.set_high_watermark(high_watermark)
        found.append(log.last_stable_offset)
    return found


def files_read(vfs: MemoryVfs, high_watermark: int) -> set[int]:
    """Base offsets of the segments that a clean start reads batches of."""
    return files_read_by(vfs, lambda: started(vfs, high_watermark))


def files_read_by(vfs: MemoryVfs, start: Callable[[], object]) -> set[int]:
    found = set()

    def note(kind: str, path: str) -> None:
        if kind == "read" and path.endswith(".log"):
            found.add(int(path[-24:-4]))

    vfs.failing = note
    start()
    vfs.failing = None
    return found


@pytest.mark.parametrize(
    ("history", "high_watermark", "expected"),
    [
        ("-aaA--", 2, [1, 1, 4, 5, 6]),
        ("-aaA--", 3, [1, 4, 5, 6]),
        ("-aaA--", 4, [4, 5, 6]),
        ("abaAbB", 1, [0, 0, 0, 1, 1, 6]),
        ("ab-A-B", 3, [0, 1, 1, 6]),
        ("aAbBaA", 2, [2, 2, 4, 4, 6]),
        ("aAaAaA", 0, [0, 0, 2, 2, 4, 4, 6]),
        ("-aA-b-", 1, [1, 1, 3, 4, 4, 4]),
        ("--A--a", 1, [1, 2, 3, 4, 5, 5]),
    ],
)
@pytest.mark.parametrize("segment_bytes", [SIZE + 20, TWO, 1 << 20])
def test_a_transaction_whose_marker_is_not_replicated_is_unstable_from_the_start_on(
    history: str, high_watermark: int, expected: list[int], segment_bytes: int
) -> None:
    assert stables(started(stopped(history, segment_bytes), high_watermark)) == expected


def killed(history: str, high_watermark: int) -> Broker:
    """A broker whose log was flushed, and its offsets recorded."""
    broker = Broker()
    config = msgspec.structs.replace(TopicSettings().log, segment_bytes=TWO)
    broker.set("a", log=config, append=WITHOUT_COORDINATOR)
    log = broker.create()
    written(log, history)
    log.log.flush()
    log.set_high_watermark(high_watermark)
    broker.manager.directories["/d"].record_offsets()
    return broker


def test_a_broker_that_was_killed_knows_them_too() -> None:
    """The snapshot of a roll is above the high watermark that was recorded seconds ago."""
    again = Broker(killed("-aaA---", 2).vfs).log()
    assert (again.end_offset, again.high_watermark) == (7, 2)
    assert stables(again) == [1, 1, 4, 5, 6, 7]


def test_a_snapshot_at_the_high_watermark_tells_of_the_transactions_before_it() -> None:
    """Of those that are open in it, and no batch before it is read."""
    vfs = stopped("aab-A---")
    assert stables(started(vfs, 4)) == [0, 2, 2, 2, 2]
    assert files_read(vfs, 4) == {4, 6}
    vfs.unlink(f"/d/p-0/{4:020d}.snapshot")
    assert stables(started(vfs, 4)) == [0, 2, 2, 2, 2]
    vfs.damage(f"/d/p-0/{2:020d}.snapshot", 10, b"\xff")
    assert stables(started(vfs, 4)) == [0, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("history", "high_watermark", "expected"),
    [
        ("--------", 0, {6}),
        ("iiiiiiii", 0, {6}),
        ("aaaaaaaa", 0, {6}),
        ("aaAiiiii", 3, {2, 4, 6}),
        ("aaAiiiii", 2, {2, 4, 6}),
        ("aaiAiiii", 3, {2, 4, 6}),
        ("aaAiiiii", 1, {0, 2, 4, 6}),
        ("aaAiiiii", 8, {6}),
        ("iiiiiiaA", 8, {6}),
    ],
)
def test_no_batch_is_read_without_need(
    history: str, high_watermark: int, expected: set[int]
) -> None:
    """The last segment is read behind its last indexed batch by each start."""
    assert files_read(stopped(history), high_watermark) == expected


def test_no_batch_below_the_high_watermark_is_read_without_a_marker_above_it() -> None:
    vfs = stopped("aaA-iiii")
    vfs.unlink(f"/d/p-0/{2:020d}.snapshot")
    assert files_read(vfs, 3) == {2, 4, 6}
    assert files_read(vfs, 2) == {0, 2, 4, 6}


def test_a_broker_reads_nothing_where_its_high_watermark_is_at_the_snapshot() -> None:
    broker = killed("aaA----", 7)
    assert files_read_by(broker.vfs, lambda: Broker(broker.vfs)) == {6}


def test_few_files_stay_open() -> None:
    log = started(stopped("a-----------------A-"), 0)
    assert (
        sum(segment.is_open for segment in log.log.segments) == log.log.config.open_segments_max + 1
    )


def test_below_the_log_start_nothing_is_looked_for() -> None:
    vfs = stopped("aa-A----")
    assert stables(started(vfs, 0, start=1)) == [1, 1, 1, 4, 5, 6, 7, 8]
    assert stables(started(vfs, 1, start=2)) == [2, 3, 4, 5, 6, 7, 8]


def test_a_marker_whose_record_was_cleaned_ended_its_transaction_long_ago() -> None:
    """Kafka leaves an empty batch of the last marker of a producer; what follows is another one."""
    vfs = stopped("-aA-A---")
    vfs.damage(f"/d/p-0/{2:020d}.log", 57, bytes(4))  # the number of its records
    assert stables(started(vfs, 2)) == [2, 3, 4, 5, 6, 7, 8]
    vfs = stopped("aAaA----", 1 << 20)
    vfs.damage(f"/d/p-0/{0:020d}.log", SIZE + 57, bytes(4))
    log = opened(vfs, is_clean=True, high_watermark=1, segment_bytes=1 << 20)
    log.set_high_watermark(1)
    assert stables(log) == [1, 2, 2, 4, 5, 6, 7, 8], "the next one begins behind it"
    vfs = stopped("--A-A---")
    vfs.damage(f"/d/p-0/{2:020d}.log", 57, bytes(4))
    assert stables(started(vfs, 2)) == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("offset", "position", "content", "expected"),
    [
        (0, 16, b"\x09", [2, 4, 5, 5, 5, 8, 9]),  # its magic; a snapshot is behind it
        (2, 16, b"\x09", [2, 2, 2, 2, 2, 2, 9]),
        (2, 7, b"\x01", [2, 2, 2, 2, 2, 2, 9]),
        (3, 16, b"\x09", [2, 2, 2, 2, 2, 2, 9]),
        (4, 16, b"\x09", [2, 4, 4, 4, 4, 4, 9]),
        (6, 16, b"\x09", [2, 4, 5, 5, 5, 5, 9]),
        (6, 8, b"\x7f", [2, 4, 5, 5, 5, 5, 9]),  # its length
        (6, 7, b"\x05", [2, 4, 5, 5, 5, 5, 9]),  # its base offset
        (6, 26, b"\xff", [2, 4, 5, 5, 5, 5, 9]),  # its last offset
        (6, 23, b"\xff", [2, 4, 5, 5, 5, 5, 9]),
        (7, 7, b"\x06", [2, 4, 5, 5, 5, 5, 9]),
    ],
)
def test_behind_a_damaged_header_all_is_unstable_until_the_snapshot_is_replicated(
    offset: int, position: int, content: bytes, expected: list[int]
) -> None:
    vfs = stopped("--aA-b-Bi")
    assert stables(started(vfs, 3)) == [2, 4, 5, 5, 5, 8, 9]
    batch = (offset % 2) * SIZE
    vfs.damage(f"/d/p-0/{offset - offset % 2:020d}.log", batch + position, content)
    assert stables(started(vfs, 3)) == expected


def test_only_what_is_behind_the_bounds_is_looked_for() -> None:
    segments = started(stopped("aA-aAaA-"), 8).log.segments
    assert [has_marker(segments, *bounds) for bounds in ((0, 1), (1, 2), (2, 4), (7, 8))] == [
        False, True, False, False
    ]  # fmt: skip
    assert ended_transactions(segments, [], 0, 6, 2) == [EndedTransaction(7, 3, 4)]
    assert ended_transactions(segments, [], 3, 7, 5) == [EndedTransaction(7, 5, 6)]


def test_damage_behind_the_snapshot_is_no_matter() -> None:
    vfs = stopped("aAa-")
    segments = started(vfs, 4).log.segments
    vfs.damage(f"/d/p-0/{2:020d}.log", 7, b"\x00")
    assert ended_transactions(segments, [], 0, 2, 1) == [EndedTransaction(7, 0, 1)]
    vfs.damage(f"/d/p-0/{0:020d}.log", SIZE + 26, b"\x09")  # the last offset of a marker
    assert ended_transactions(segments, [], 0, 2, 1) == [EndedTransaction(-1, 0, 1)]


def test_a_transaction_that_goes_on_behind_the_damage_ends_with_its_marker() -> None:
    vfs = stopped("-Aa-----")
    vfs.damage(f"/d/p-0/{4:020d}.log", 16, b"\x09")
    log = started(vfs, 1)
    log.set_high_watermark(8)
    assert log.last_stable_offset == 2
    written(log, "A-")
    log.set_high_watermark(8)
    assert log.last_stable_offset == 2
    log.set_high_watermark(9)
    assert log.last_stable_offset == 9


def test_a_cut_behind_the_start_replays_them_from_their_begin() -> None:
    log = started(stopped("-aaA-----"), 2)
    log.truncate_to(7, NOW)
    assert stables(log) == [1, 1, 4, 5, 6, 7]
