"""Power loss at every single operation: what was acknowledged as flushed is there afterwards."""

import random

import pytest

from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import SegmentsDropped, TailCut
from tests.selection import thinned
from tests.storage.segments import segment_bases
from wire.batches.batch import encode_batch
from wire.types import LeaderEpoch, NodeId, Offset

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, recovery_point_bytes=400)
Acknowledged = dict[int, bytes]


def batch(offset: int, epoch: int, size: int = 40) -> bytes:
    value = bytes([offset % 256]) * size
    return encode_batch([value], Offset(offset), LeaderEpoch(epoch), 1000 + offset)


def append(log: Log, offset: int, epoch: int, written: Acknowledged) -> None:
    data = batch(offset, epoch)
    log.append(data, offset)
    written[offset] = data


class Life:
    """Runs a script of log operations and keeps what must survive."""

    def __init__(self, vfs: MemoryVfs) -> None:
        self.vfs = vfs
        self.written: Acknowledged = {}
        self.acknowledged: Acknowledged = {}
        self.log: Log | None = None

    def run(self) -> None:
        self.log = log = open_metadata_log(self.vfs, "/d", CONFIG)
        for offset in range(30):
            append(log, offset, 1, self.written)
            if offset % 3 == 2:
                self.flush()
        self.truncate(17)
        for offset in range(17, 25):
            append(log, offset, 3, self.written)
            if offset % 2:
                self.flush()
        log.raise_log_start_to(10)
        self.truncate(segment_bases(self.vfs, log)[-2])
        append(log, log.end_offset, 4, self.written)
        self.flush()
        log.close()
        self.acknowledged = dict(self.written)

    def flush(self) -> None:
        assert self.log is not None
        self.log.flush()
        self.acknowledged = dict(self.written)

    def truncate(self, end_offset: int) -> None:
        """From the call on, what is cut need not survive."""
        assert self.log is not None
        self.acknowledged = {o: data for o, data in self.acknowledged.items() if o < end_offset}
        self.written = {o: data for o, data in self.written.items() if o < end_offset}
        self.log.truncate_to(end_offset)


def after_crash(vfs: MemoryVfs, seed: int | None, crash_at: int) -> MemoryVfs:
    """Without a seed nothing unsynced is kept; the run is the same for the same numbers."""
    return vfs.crash(None if seed is None else random.Random(seed * 1_000_003 + crash_at))


def operations_of_a_life() -> int:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    Life(vfs).run()
    return vfs.operations


@pytest.mark.parametrize("seed", thinned([None, 1, 2, 3, 4], every=4))
def test_acknowledged_data_survives_a_crash_at_every_operation(seed: int | None) -> None:
    total = operations_of_a_life()
    assert total > 150
    for crash_at in range(1, total):
        vfs = MemoryVfs()
        vfs.make_directory("/d")
        vfs.sync_directory("/")
        vfs.crash_at = crash_at + 1
        life = Life(vfs)
        with pytest.raises(SimulatedCrashError):
            life.run()
        log = open_metadata_log(after_crash(vfs, seed, crash_at), "/d", CONFIG)
        assert {type(event) for event in log.recovery_report} <= {TailCut, SegmentsDropped}
        for offset, data in life.acknowledged.items():
            if offset >= log.log_start_offset:
                assert log.read(offset, 1) == data, (crash_at, offset)
        assert log.log_start_offset <= 10
        assert log.end_offset > max(life.acknowledged, default=-1)


def test_quorum_state_is_old_or_new_after_a_crash_at_every_operation() -> None:
    states = [ElectionState(LeaderEpoch(n), NodeId(n % 3)) for n in range(1, 4)]
    for crash_at in range(1, 14):
        vfs = MemoryVfs()
        vfs.make_directory("/d")
        vfs.sync_directory("/")
        file = QuorumStateFile(vfs, "/d", (NodeId(1),))
        vfs.crash_at = vfs.operations + crash_at
        durable: ElectionState | None = None
        trying: ElectionState | None = None
        try:
            for state in states:
                trying = state
                file.write(state)
                durable = state
        except SimulatedCrashError:
            pass
        assert QuorumStateFile(vfs.crash(), "/d").read() in (durable, trying)
        if durable is not None:
            assert QuorumStateFile(vfs.crash(), "/d").read() is not None
