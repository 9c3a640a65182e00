"""The files of a partition's log that a power failure leaves."""

from simulator.cluster.memory_vfs import MemoryVfs
from storage.producers.producer_state import Origin
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
        log.append_as_leader(marker(0), 1, NOW, Origin.COORDINATOR)

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
