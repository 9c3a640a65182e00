"""The log of a partition: as leader and follower, its readers, its producers, its offsets."""

from pathlib import Path
from typing import Any

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError, OffsetOutOfRangeError, OutOfSpaceError
from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.log import Log, LogConfig
from storage.logs.log_validator import AppendRules, RejectedError, TimestampType
from storage.logs.produced_records import parse_produced
from storage.logs.recovery import FileRebuilt
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers.append_source import COORDINATOR
from storage.producers.producer_snapshot import decode_producer_snapshot
from storage.producers.producer_snapshot_files import ProducerSnapshotFiles
from storage.producers.producer_state import ProducerStateError, ProducerStates
from storage.segments.timestamp_lookup import TimestampAndOffset
from tests.storage.golden import put
from wire.batches.batch import BatchHeader, encode_batch, encode_records, iterate_batches
from wire.batches.records import RecordView
from wire.batches.transaction_markers import marker_batch
from wire.errors import ErrorCode
from wire.types import LeaderEpoch, Offset

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
NOW = 5_000_000
LOG_END, WATERMARK, STABLE = FetchIsolation
WITHOUT_COORDINATOR = AppendRules(verifies_transactions=False)


def opened(
    vfs: MemoryVfs,
    rules: AppendRules | None = None,
    *,
    start: int = 0,
    is_clean: bool = False,
    high_watermark: int = 0,
    **settings: Any,
) -> UnifiedLog:
    vfs.make_directory("/d/p-0")
    fixed: dict[str, Any] = {"contiguous": False, "verify_from_start": False}
    config = LogConfig(**(fixed | {"syncs_at_open": False, "grows_index_files": True} | settings))
    log = Log.open(vfs, "/d/p-0", config, None, start, wall_ms=NOW, is_clean=is_clean)
    return UnifiedLog(
        vfs,
        "p-0",
        log,
        ProducerStates("p-0", 86_400_000),
        rules or WITHOUT_COORDINATOR,
        wall_ms=NOW,
        high_watermark=high_watermark,
    )


def produced(
    *timestamps_ms: int,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    attributes: int = 0,
    value: bytes = b"v",
) -> Any:
    """The batch of a Produce request."""
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=attributes,
        last_offset_delta=len(timestamps_ms) - 1,
        base_timestamp_ms=timestamps_ms[0],
        max_timestamp_ms=max(timestamps_ms),
        producer_id=producer,
        producer_epoch=epoch if producer >= 0 else -1,
        base_sequence=sequence if producer >= 0 else -1,
        records_count=len(timestamps_ms),
    )
    records = [
        RecordView(Offset(number), at, None, value) for number, at in enumerate(timestamps_ms)
    ]
    return parse_produced(memoryview(bytearray(encode_records(header, records))), 9)


def content(log: UnifiedLog, offset: int, isolation: FetchIsolation = LOG_END) -> bytes:
    found = log.slice(offset, 1 << 20, isolation, at_least_one=True)
    return b"" if found is None else found.read()


def replicated(log: UnifiedLog, data: bytes, epoch_max: int = 100) -> int:
    return log.append_as_follower(memoryview(data), epoch_max, NOW).end_offset


# ---- leader ------------------------------------------------------------------------------------


def test_a_leader_stamps_what_it_appends() -> None:
    log = opened(MemoryVfs())
    first = log.append_as_leader(produced(NOW, NOW + 1), 3, NOW)
    second = log.append_as_leader(produced(NOW + 2), 4, NOW)
    assert (first.base_offset, first.end_offset, first.append_time_ms) == (0, 2, -1)
    assert (second.base_offset, second.end_offset) == (2, 3)
    headers = [batch.header for batch in iterate_batches(content(log, 0))]
    assert [(h.base_offset, h.leader_epoch) for h in headers] == [(0, 3), (2, 4)]
    assert all(batch.crc_is_valid for batch in iterate_batches(content(log, 0)))
    assert log.end_offset_for_epoch(3) == (3, 2)


def test_log_append_time_is_answered() -> None:
    log = opened(MemoryVfs(), AppendRules(timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert log.append_as_leader(produced(5), 1, NOW).append_time_ms == NOW
    (batch,) = iterate_batches(content(log, 0))
    assert batch.header.max_timestamp_ms == NOW


def test_a_refused_batch_leaves_nothing() -> None:
    log = opened(MemoryVfs(), AppendRules(batch_bytes_max=70))
    with pytest.raises(RejectedError) as refused:
        log.append_as_leader(produced(NOW, NOW), 1, NOW)
    assert refused.value.code is ErrorCode.message_too_large
    assert (log.end_offset, content(log, 0)) == (0, b"")


def test_a_batch_above_the_segment_size_is_refused() -> None:
    size = len(produced(NOW).buffer)
    log = opened(MemoryVfs(), segment_bytes=size)
    assert log.append_as_leader(produced(NOW), 1, NOW).end_offset == 1
    text = f"maximum configured segment size of {size}"
    with pytest.raises(RejectedError, match=text) as refused:
        log.append_as_leader(produced(NOW, NOW), 1, NOW)
    code = ErrorCode.record_list_too_large
    assert (refused.value.code, refused.value.message) == (code, None)


def test_a_duplicate_is_answered_with_its_first_offset() -> None:
    log = opened(MemoryVfs())
    for sequence in (0, 2):
        log.append_as_leader(produced(NOW + sequence, NOW, producer=7, sequence=sequence), 1, NOW)
    again = log.append_as_leader(produced(NOW, NOW, producer=7, sequence=0), 1, NOW + 9)
    assert (again.base_offset, again.end_offset, again.append_time_ms) == (0, 2, NOW)
    assert again.is_duplicate
    assert log.end_offset == 4
    with pytest.raises(ProducerStateError) as refused:
        log.append_as_leader(produced(NOW, producer=7, sequence=5), 1, NOW)
    assert refused.value.code is ErrorCode.out_of_order_sequence_number
    assert log.end_offset == 4
    assert log.append_as_leader(produced(NOW, producer=7, sequence=4), 1, NOW).base_offset == 4


def test_a_full_disk_leaves_sequences_as_they_were() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    vfs.bytes_max = vfs.used_bytes() + 10
    with pytest.raises(OutOfSpaceError):
        log.append_as_leader(produced(NOW, producer=7), 1, NOW)
    vfs.bytes_max = None
    found = log.append_as_leader(produced(NOW, producer=7), 1, NOW)
    assert (found.base_offset, found.is_duplicate) == (0, False)


def marker(kind: int) -> Any:
    """An end of the transaction of producer 7, as a coordinator writes it."""
    return marker_batch(7, 0, is_commit=kind == 1, coordinator_epoch=1, timestamp_ms=NOW)


def test_a_transaction_holds_the_last_stable_offset_back_until_its_marker_is_replicated() -> None:
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW), 1, NOW)
    log.append_as_leader(produced(NOW, NOW, producer=7, attributes=0x10), 1, NOW)
    assert log.last_stable_offset == 0
    log.set_high_watermark(3)
    assert log.last_stable_offset == 1
    with pytest.raises(RejectedError, match="control records"):
        log.append_as_leader(marker(0), 1, NOW)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    assert (log.end_offset, log.last_stable_offset) == (4, 1)
    (aborted,) = log.aborted_transactions(0, 4)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 1, 3)
    assert aborted.last_stable_offset == 4
    log.set_high_watermark(4)
    assert log.last_stable_offset == 4


def test_an_aborted_transaction_behind_one_that_is_open_is_unstable() -> None:
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW, producer=8, attributes=0x10), 1, NOW)
    log.append_as_leader(produced(NOW, producer=7, attributes=0x10), 1, NOW)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    log.set_high_watermark(3)
    (aborted,) = log.aborted_transactions(0, 3)
    assert (aborted.first_offset, aborted.last_stable_offset) == (1, 0)
    assert log.last_stable_offset == 0


def test_transactions_of_one_fetch_are_in_the_order_of_the_log() -> None:
    leader, follower = opened(MemoryVfs()), opened(MemoryVfs())
    begin = [produced(NOW, producer=each, attributes=0x10) for each in (7, 8)]
    for batch in (*begin, marker(0), produced(NOW, producer=7, sequence=1, attributes=0x10)):
        leader.append_as_leader(batch, 1, NOW, COORDINATOR)
    replicated(follower, content(leader, 0))
    assert follower.aborted_transactions(0, 4) == leader.aborted_transactions(0, 4)
    follower.set_high_watermark(4)
    assert follower.last_stable_offset == 1, "the transaction of producer 8 is open"


def test_the_last_stable_offset_is_never_below_the_log_start() -> None:
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW, NOW, producer=7, attributes=0x10), 1, NOW)
    log.append_as_leader(produced(NOW), 1, NOW)
    log.set_high_watermark(3)
    log.raise_log_start_to(2)
    assert log.last_stable_offset == 2


def test_a_coordinator_may_repeat_sequences() -> None:
    log = opened(MemoryVfs())
    batch = produced(NOW, producer=7, sequence=0)
    assert log.append_as_leader(batch, 1, NOW, COORDINATOR).base_offset == 0
    batch = produced(NOW, producer=7, sequence=0)
    assert log.append_as_leader(batch, 1, NOW, COORDINATOR).base_offset == 1


# ---- follower, against what Kafka wrote --------------------------------------------------------

PARTITIONS = {"idem-0": 4096, "txn-0": 3000, "comp-0": 2400, "rd-none-0": 1 << 30}
"""`segment.bytes` that give the segments of the golden partition."""


def golden(name: str) -> dict[str, bytes]:
    folder = GOLDEN / "cli" / "data-log" / name
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def log_bytes(files: dict[str, bytes]) -> bytes:
    return b"".join(files[name] for name in sorted(files) if name.endswith(".log"))


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("fetched_bytes", [1, 700])
def test_a_follower_of_kafka_writes_kafkas_files(name: str, fetched_bytes: int) -> None:
    """Logs, both indexes, aborted transactions, byte for byte; fetched in small responses."""
    files, vfs = golden(name), MemoryVfs()
    interval = 4096 if name == "rd-none-0" else 256
    log = opened(vfs, segment_bytes=PARTITIONS[name], index_interval_bytes=interval)
    part = b""
    for batch in iterate_batches(log_bytes(files)):
        part += bytes(batch.buffer)
        if len(part) >= fetched_bytes:
            replicated(log, part)
            part = b""
    replicated(log, part)
    log.close()
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        expected = {each: files[each] for each in files if each.endswith(suffix)}
        found = {e: vfs.read(f"/d/p-0/{e}") for e in vfs.list("/d/p-0") if e.endswith(suffix)}
        assert found == expected, suffix


@pytest.mark.parametrize("name", ["idem-0", "comp-0"])
def test_producer_snapshots_are_those_of_kafka(name: str) -> None:
    """At each roll and at the end; Kafka's order of producers is that of a hash map."""
    folder = GOLDEN / "storage" / "data" / name
    vfs, config = MemoryVfs(), {"segment_bytes": PARTITIONS[name], "index_interval_bytes": 256}
    log = opened(vfs, **config)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for batch in iterate_batches(log_bytes(files)):
        replicated(log, bytes(batch.buffer))
    log.close()
    snapshots = [each for each in sorted(files) if each.endswith(".snapshot")]
    assert [each for each in vfs.list("/d/p-0") if each.endswith(".snapshot")] == snapshots
    for each in snapshots:
        entries = decode_producer_snapshot(vfs.read(f"/d/p-0/{each}"), each)
        expected = decode_producer_snapshot(files[each], each)
        assert sorted(entries, key=lambda e: e.producer_id) == sorted(
            expected, key=lambda e: e.producer_id
        )


def test_a_follower_takes_what_follows_and_says_why_it_stops() -> None:
    log = opened(MemoryVfs())
    data = [encode_batch([b"v"], offset, 1 + offset // 10, NOW) for offset in (0, 5, 20)]
    found = log.append_as_follower(memoryview(b"".join(data)), 2, NOW)
    assert (found.end_offset, found.stopped) == (6, "leader epoch 3 is above 2")
    with pytest.raises(UnexpectedOffsetError) as refused:
        replicated(log, data[1])
    assert (refused.value.first_offset, refused.value.end_offset) == (5, 6)
    assert replicated(log, b"") == 6
    assert content(log, 0) == data[0] + data[1]


def test_a_snapshot_at_a_roll_behind_a_gap_is_named_by_the_new_segment() -> None:
    vfs, far = MemoryVfs(), 1 << 31
    log = opened(vfs)
    replicated(log, encode_batch([b"v"], 0, 1, NOW) + encode_batch([b"v"], far + 5, 1, NOW))
    assert vfs.exists(f"/d/p-0/{far + 5:020d}.snapshot")
    assert not vfs.exists(f"/d/p-0/{1:020d}.snapshot")
    log.truncate_to(far + 5, NOW)
    assert log.end_offset == log.producers.end_offset == far + 5


def test_batches_without_an_epoch_leave_the_earliest_epoch_open() -> None:
    log = opened(MemoryVfs())
    replicated(log, encode_batch([b"v"], 0, -1, NOW) + encode_batch([b"v"], 1, 2, NOW))
    assert log.earliest() == TimestampAndOffset(-1, 0, -1)
    assert log.latest(LOG_END) == TimestampAndOffset(-1, 2, 2)


# ---- readers -----------------------------------------------------------------------------------


def transactional(log: UnifiedLog) -> None:
    """The golden transactions: two producers, commits, aborts, one left open."""
    for batch in iterate_batches(log_bytes(golden("txn-0"))):
        replicated(log, bytes(batch.buffer))


def test_a_reader_is_bound_by_its_isolation() -> None:
    log = opened(MemoryVfs())
    transactional(log)
    assert log.last_stable_offset == log.high_watermark == 0
    assert content(log, 0, WATERMARK) == b""
    log.set_high_watermark(20)
    assert log.last_stable_offset < 20
    log.set_high_watermark(1000)
    first_open = log.producers.first_undecided_offset
    assert first_open is not None
    assert log.high_watermark == log.end_offset == 85
    assert log.last_stable_offset == first_open < 85
    (*_, last) = iterate_batches(content(log, 0, STABLE))
    assert last.header.end_offset == first_open
    assert [log.latest(each).offset for each in FetchIsolation] == [85, 85, first_open]


def test_aborted_transactions_of_a_range_are_those_of_its_markers() -> None:
    log = opened(MemoryVfs(), segment_bytes=3000)
    transactional(log)
    every = log.aborted_transactions(0, 85)
    assert len(every) > 1
    one = every[1]
    assert one in log.aborted_transactions(one.last_offset, 85)
    assert one not in log.aborted_transactions(one.last_offset + 1, 85)
    assert one in log.aborted_transactions(0, one.first_offset + 1)
    assert one not in log.aborted_transactions(0, one.first_offset)


def test_offsets_by_time() -> None:
    log = opened(MemoryVfs(), segment_bytes=160, index_interval_bytes=0, open_segments_max=1)
    assert log.with_max_timestamp() is None
    assert log.at_timestamp(0) is None
    for times in ((100, 300), (200, 250), (900, 400), (500, 500), (900,), (600,)):
        log.append_as_leader(produced(*times), 2, NOW)
    assert len(log.log.segments) > 2
    expected = {0: (100, 0), 100: (100, 0), 101: (300, 1), 300: (300, 1), 301: (900, 4)}
    expected |= {401: (900, 4), 900: (900, 4)}
    for timestamp_ms, (found_ms, offset) in expected.items():
        assert log.at_timestamp(timestamp_ms) == TimestampAndOffset(found_ms, offset, 2)
    assert log.at_timestamp(901) is None
    assert log.with_max_timestamp() == TimestampAndOffset(900, 4, 2)
    assert log.earliest() == TimestampAndOffset(-1, 0, 2)
    log.set_high_watermark(100)
    assert log.raise_log_start_to(1)
    assert log.at_timestamp(0) == TimestampAndOffset(300, 1, 2)
    assert log.earliest() == TimestampAndOffset(-1, 1, 2)
    assert sum(segment.is_open for segment in log.log.segments[:-1]) <= 1


def test_records_without_timestamps_are_the_largest_of_their_kind() -> None:
    """As in Kafka, which answers -1 with the first offset."""
    log = opened(MemoryVfs())
    log.append_as_leader(produced(-1, -1), 2, NOW)
    assert log.with_max_timestamp() == TimestampAndOffset(-1, 0, 2)
    assert log.at_timestamp(0) is None


def test_a_damaged_batch_has_no_timestamp() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.append_as_leader(produced(NOW), 2, NOW)
    vfs.damage(f"/d/p-0/{0:020d}.log", 66, b"x")
    with pytest.raises(CorruptLogError, match="CRC"):
        log.at_timestamp(NOW)


# ---- offsets -----------------------------------------------------------------------------------


def test_the_log_start_stays_below_the_high_watermark() -> None:
    log = opened(MemoryVfs())
    for _ in range(5):
        log.append_as_leader(produced(NOW, NOW), 1, NOW)
    log.set_high_watermark(4)
    with pytest.raises(OffsetOutOfRangeError):
        log.raise_log_start_to(5)
    assert log.raise_log_start_to(4)
    assert not log.raise_log_start_to(4)
    with pytest.raises(OffsetOutOfRangeError):
        content(log, 3)
    log.set_high_watermark(0)
    assert log.high_watermark == log.last_stable_offset == 4


def test_deleted_segments_are_renamed_and_may_be_read_on() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=300)
    for _ in range(20):
        log.append_as_leader(produced(NOW, producer=1, sequence=log.end_offset), 1, NOW)
    log.set_high_watermark(20)
    bases = [segment.base_offset for segment in log.log.segments]
    reader = log.slice(0, 1 << 20, LOG_END, at_least_one=True)
    assert reader is not None
    before = reader.read()
    renamed = log.delete_first(2)
    assert [segment.base_offset for segment in log.log.segments] == bases[2:]
    assert log.log_start_offset == bases[2]
    assert f"/d/p-0/{0:020d}.log.deleted" in renamed
    assert f"/d/p-0/{bases[1]:020d}.snapshot.deleted" in renamed
    assert all(vfs.exists(path) for path in renamed)
    assert reader.read() == before != b""
    assert vfs.exists(f"/d/p-0/{bases[2]:020d}.snapshot")
    again = opened(vfs, start=bases[2])
    assert not vfs.exists(f"/d/p-0/{bases[2]:020d}.snapshot")
    assert (again.log_start_offset, again.end_offset) == (bases[2], 20)
    assert not any(vfs.exists(path) for path in renamed)


@pytest.mark.parametrize("behind", [-1, 0, 1])
@pytest.mark.parametrize("number", range(4))
def test_truncation_takes_producers_and_transactions_back(number: int, behind: int) -> None:
    """To the marker of each aborted transaction, or before or behind it."""
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=3000)
    transactional(log)
    log.set_high_watermark(85)
    every = log.aborted_transactions(0, 85)
    assert not log.truncate_to(85, NOW)
    assert log.truncate_to(every[number % len(every)].last_offset + behind, NOW)
    names = [name[:20] for name in vfs.list("/d/p-0") if name.endswith(".snapshot")]
    assert all(int(name) <= log.end_offset for name in names)
    fresh = opened(MemoryVfs(), segment_bytes=3000)
    data = log_bytes(golden("txn-0"))
    for batch in iterate_batches(data):
        if batch.header.end_offset <= log.end_offset:
            replicated(fresh, bytes(batch.buffer))
    assert log.end_offset == fresh.end_offset == log.high_watermark < 85
    assert log.producers.snapshot_entries() == fresh.producers.snapshot_entries()
    kept = [entry for entry in every if entry.last_offset < log.end_offset]
    assert log.aborted_transactions(0, 85) == kept
    log.truncate_fully_and_start_at(500, NOW)
    assert (log.log_start_offset, log.end_offset, log.high_watermark) == (500, 500, 500)
    assert len(log.producers) == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_opened_log_knows_its_producers(is_clean: bool) -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=300)
    for sequence in range(9):
        log.append_as_leader(produced(NOW, producer=7, sequence=sequence), 1, NOW)
    if is_clean:
        log.close()
        vfs.damage(log.log.segments[1].path, 66, b"x")  # the newest snapshot lies behind it
    again = opened(vfs, is_clean=is_clean, segment_bytes=300)
    found = again.append_as_leader(produced(NOW, producer=7, sequence=8), 1, NOW)
    assert (found.is_duplicate, found.base_offset) == (True, 8)
    assert again.append_as_leader(produced(NOW, producer=7, sequence=9), 1, NOW).base_offset == 9


def test_a_damaged_snapshot_is_removed_and_an_older_one_is_taken() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=300)
    for sequence in range(9):
        log.append_as_leader(produced(NOW, producer=7, sequence=sequence), 1, NOW)
    log.close()
    put(vfs, f"/d/p-0/{9:020d}.snapshot", b"no snapshot")
    again = opened(vfs, segment_bytes=300, is_clean=True)
    (event,) = again.recovery_report
    assert isinstance(event, FileRebuilt)
    assert not vfs.exists(event.path)
    assert again.append_as_leader(produced(NOW, producer=7, sequence=9), 1, NOW).base_offset == 9


def test_a_snapshot_that_finds_the_disk_full_leaves_no_file() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    states = ProducerStates("p-0", 1)
    files = ProducerSnapshotFiles(vfs, "/d", lambda *_: None)
    vfs.bytes_max = vfs.used_bytes() + 5
    files.write(states)
    assert files.offsets() == []
    vfs.bytes_max = None
    files.write(states)
    assert files.offsets() == [0]
