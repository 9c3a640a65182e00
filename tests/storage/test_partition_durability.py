"""The files of a partition's log that a power failure leaves."""

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers.append_source import COORDINATOR
from tests.storage.test_unified_log import NOW, marker, opened, produced

SNAPSHOT_BYTES = 2 + 4 + 4 + 46
"""Version, checksum, number of producers, one producer."""


def test_a_flush_makes_aborted_transactions_and_snapshots_durable() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d/p-0")
    vfs.sync_directory("/")
    vfs.sync_directory("/d")
    log = opened(vfs, segment_bytes=400)
    log.log.flush()

    def abort() -> None:
        records = produced(NOW, producer=7, sequence=log.end_offset // 2, attributes=0x10)
        log.append_as_leader(records, 1, NOW)
        log.append_as_leader(marker(0), 1, NOW, COORDINATOR)

    def durable(suffix: str) -> dict[str, int]:
        disk = vfs.crash()
        names = [name for name in disk.list("/d/p-0") if name.endswith(suffix)]
        return {name: disk.size(f"/d/p-0/{name}") for name in names}

    abort()
    assert durable(".txnindex") == {}
    log.log.flush()
    assert durable(".txnindex") == {"00000000000000000000.txnindex": 34}
    while len(log.log.segments) == 1:
        abort()
    log.log.flush()
    assert sum(durable(".txnindex").values()) == 34 * log.end_offset // 2
    assert list(durable(".snapshot").values()) == [SNAPSHOT_BYTES]
    log.truncate_to(2, NOW)
    abort()
    log.log.flush()
    assert durable(".txnindex") == {"00000000000000000000.txnindex": 2 * 34}


def test_a_snapshot_that_is_written_again_under_its_name_is_durable() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d/p-0")
    vfs.sync_directory("/")
    vfs.sync_directory("/d")
    log = opened(vfs, segment_bytes=200)
    for _ in range(2):
        log.truncate_to(0, NOW)
        for sequence in range(3):
            log.append_as_leader(produced(NOW, producer=7, sequence=sequence), 1, NOW)
        assert vfs.size("/d/p-0/00000000000000000002.snapshot") == SNAPSHOT_BYTES
    log.log.flush()
    assert vfs.crash().size("/d/p-0/00000000000000000002.snapshot") == SNAPSHOT_BYTES


# ---- aborted transactions ----------------------------------------------------------------------


def aborted(log: UnifiedLog, sequence: int) -> None:
    """A record of a transaction and the marker that aborts it."""
    records = produced(NOW, producer=7, sequence=sequence, attributes=0x10)
    log.append_as_leader(records, 1, NOW)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)


def markers(log: UnifiedLog) -> list[int]:
    return [each.last_offset for each in log.aborted_transactions(0, log.end_offset)]


def test_a_fetch_may_hold_a_marker_and_the_begin_of_the_next_transaction() -> None:
    """The marker's entry has the last stable offset behind all that was fetched with it."""
    leader, follower = opened(MemoryVfs()), opened(MemoryVfs())
    aborted(leader, 0)
    leader.append_as_leader(produced(NOW), 1, NOW)
    leader.append_as_leader(produced(NOW, producer=8, attributes=0x10), 1, NOW)
    data = leader.slice(0, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
    assert data is not None
    assert follower.append_as_follower(memoryview(data.read()), 1, NOW).end_offset == 4
    (entry,) = follower.aborted_transactions(0, 4)
    assert (entry.first_offset, entry.last_offset, entry.last_stable_offset) == (0, 1, 3)
    assert follower.last_stable_offset == leader.last_stable_offset == 0
    for log in (leader, follower):
        log.set_high_watermark(4)
        assert log.last_stable_offset == 3


def test_an_aborted_transaction_whose_entry_finds_no_room_is_known_and_written_later() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    records = produced(NOW, producer=7, attributes=0x10)
    log.append_as_leader(records, 1, NOW)
    vfs.bytes_max = vfs.used_bytes() + len(marker(0).buffer)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    log.set_high_watermark(2)
    assert (log.end_offset, log.producers.end_offset, log.last_stable_offset) == (2, 2, 2)
    assert markers(log) == [1]
    assert log.aborted_transactions(2, 2) == []
    vfs.bytes_max = None
    again = opened(vfs)
    assert markers(again) == [1], "the log is replayed"
    assert vfs.size("/d/p-0/00000000000000000000.txnindex") == 34
    aborted(log, 1)
    assert vfs.size("/d/p-0/00000000000000000000.txnindex") == 2 * 34, "with the next one"
    assert markers(log) == [1, 3]


def test_no_snapshot_is_written_behind_an_entry_that_found_no_room() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.append_as_leader(produced(NOW, producer=7, attributes=0x10), 1, NOW)
    vfs.bytes_max = vfs.used_bytes() + len(marker(0).buffer)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    vfs.bytes_max = None
    log.close()
    assert not [name for name in vfs.list("/d/p-0") if name.endswith(".snapshot")]
    assert markers(opened(vfs, is_clean=True)) == [1]


def test_a_truncation_keeps_the_aborted_transactions_below_it() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    aborted(log, 0)
    log.append_as_leader(produced(NOW), 1, NOW)
    log.close()
    log = opened(vfs, is_clean=True)
    aborted(log, 1)
    aborted(log, 2)
    assert markers(log) == [1, 4, 6]
    log.truncate_to(5, NOW)
    assert markers(log) == [1, 4]
    log.truncate_to(4, NOW)
    assert markers(log) == [1]
    log.truncate_fully_and_start_at(9, NOW)
    assert markers(log) == []


def test_an_entry_without_room_goes_with_what_is_truncated() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.append_as_leader(produced(NOW, producer=7, attributes=0x10), 1, NOW)
    vfs.bytes_max = vfs.used_bytes() + len(marker(0).buffer)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    vfs.bytes_max = None
    log.truncate_to(1, NOW)
    assert markers(log) == []
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    assert markers(log) == [1]


def without_room(log: UnifiedLog, vfs: MemoryVfs) -> None:
    """The first transaction is aborted, and its entry stays in memory."""
    log.append_as_leader(produced(NOW, producer=7, attributes=0x10), 1, NOW)
    vfs.bytes_max = vfs.used_bytes() + len(marker(0).buffer)
    log.append_as_leader(marker(0), 1, NOW, COORDINATOR)
    vfs.bytes_max = None


def test_an_entry_without_room_goes_with_a_log_that_begins_anew() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    without_room(log, vfs)
    log.truncate_fully_and_start_at(9, NOW)
    assert log.aborted_transactions(0, 9) == []


def test_an_entry_without_room_goes_with_its_segment() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=160)
    without_room(log, vfs)
    log.append_as_leader(produced(NOW), 1, NOW)
    log.set_high_watermark(3)
    log.delete_first(1)
    aborted(log, 1)
    entries = [entry.last_offset for entry in log.aborted_transactions(2, log.end_offset)]
    assert entries == [4]
    sizes = [vfs.size(f"/d/p-0/{name}") for name in vfs.list("/d/p-0") if name.endswith("txnindex")]
    assert sizes == [34]


def test_a_snapshot_above_the_flushed_end_is_not_trusted() -> None:
    """A power failure may keep it and lose the aborted transactions before it."""
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=300)
    for sequence in range(3):
        aborted(log, sequence)
    assert vfs.exists("/d/p-0/00000000000000000004.snapshot") or log.log.segments[1:]
    for name in vfs.list("/d/p-0"):
        if name.endswith(".txnindex"):
            vfs.unlink(f"/d/p-0/{name}")
    assert markers(opened(vfs, segment_bytes=300)) == [1, 3, 5]


def test_an_entry_above_the_end_of_a_recovered_log_is_dropped() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    aborted(log, 0)
    aborted(log, 1)
    position = log.log.segments[0].find(3)
    vfs.damage("/d/p-0/00000000000000000000.log", position + 40, b"\xff")
    again = opened(vfs)
    assert again.end_offset == 3
    assert vfs.size("/d/p-0/00000000000000000000.txnindex") == 34


def test_a_snapshot_of_what_was_truncated_is_not_taken() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    for sequence in range(9):
        log.append_as_leader(produced(NOW, producer=7, sequence=sequence), 1, NOW)
    log.close()
    again = opened(vfs)
    again.truncate_to(8, NOW)
    assert not vfs.exists(f"/d/p-0/{9:020d}.snapshot")
    assert again.append_as_leader(produced(NOW, producer=7, sequence=8), 1, NOW).base_offset == 8
