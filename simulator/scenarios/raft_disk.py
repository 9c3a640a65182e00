"""The disk of one replica in a scenario: quorum-state, log and snapshots as plain values."""

from raft import effects as fx
from raft import events as ev
from simulator.scenarios.raft_text import DAMAGED, Record, decode_records
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey

Append = fx.AppendLeaderChange | fx.AppendVoters | fx.AppendBatch | fx.AppendFetched
"""An effect that appends to the log."""


class ScenarioDisk:
    """Durable state of a replica; a crash loses an unflushed end of the log.

    `records[i]` has offset `start_offset + i`.
    """

    def __init__(self) -> None:
        self.election: tuple[LeaderEpoch, NodeId | None, ReplicaKey | None]
        self.election = (LeaderEpoch(0), None, None)
        self.start_offset = 0
        self.records: list[Record] = []
        self.flushed_end_offset = 0
        self.snapshots: list[OffsetAndEpoch] = []
        """Ascending."""
        self.snapshot_sizes: dict[OffsetAndEpoch, int] = {}
        self.partial_bytes = 0
        self.is_unproven = False
        """True while the mark of an unproven voter stands."""
        self.is_full = False
        """True while appends are refused; quorum-state is written all the same."""
        self.stalled: list[fx.AppendLeaderChange | fx.AppendVoters | fx.AppendBatch] = []
        """Appends that a sole voter on a full disk makes later, in order."""

    def stall(self, effect: fx.AppendLeaderChange | fx.AppendVoters | fx.AppendBatch) -> None:
        """Keep an append for later."""
        self.stalled.append(effect)

    @property
    def end_offset(self) -> int:
        """End of the log, exclusive."""
        return self.start_offset + len(self.records)

    def epoch_entries(self, start: int, end: int) -> tuple[ev.EpochStart, ...]:
        """Epochs that begin in [start, end)."""
        found: list[ev.EpochStart] = []
        last = self.record_epoch(start - 1)
        for offset in range(start, end):
            epoch = self.record_epoch(offset)
            assert epoch is not None, f"{offset=} is not in the log"
            if epoch != last:
                found.append(ev.EpochStart(LeaderEpoch(epoch), Offset(offset)))
            last = epoch
        return tuple(found)

    def record_epoch(self, offset: int) -> int | None:
        """Epoch of a record; None outside the log."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self.records[offset - self.start_offset][0]

    def read(self, offset: int, count_max: int) -> list[Record]:
        """Records from `offset`, at most `count_max`."""
        assert self.start_offset <= offset < self.end_offset, f"{offset=} is not in the log"
        position = offset - self.start_offset
        return self.records[position : position + count_max]

    def append(self, effect: Append) -> ev.Appended:
        """Write a batch at the log end; the caller fills in the generation of the event."""
        base = self.end_offset
        assert effect.base_offset == base, f"{effect=} {base=}"
        match effect:
            case fx.AppendLeaderChange():
                self.records.append((effect.epoch, f"LeaderChange({effect.leader_id})"))
            case fx.AppendVoters():
                self.records.append((effect.epoch, f"Voters{effect.voters.ids}"))
            case fx.AppendBatch():
                self.records += [(effect.epoch, value.decode()) for value in effect.values]
            case fx.AppendFetched():
                for record in decode_records(effect.records):
                    if record[0] > effect.epoch or record[1] == DAMAGED:
                        break
                    self.records.append(record)
        last_epoch = self.record_epoch(self.end_offset - 1) or 0
        return ev.Appended(
            end_offset=Offset(self.end_offset),
            last_epoch=LeaderEpoch(last_epoch),
            generation=0,
            epochs=self.epoch_entries(base, self.end_offset),
        )

    def truncate(self, end_offset: int) -> None:
        """Drop everything at or above `end_offset`."""
        self.stalled = []
        del self.records[end_offset - self.start_offset :]
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)

    def write_chunk(self, effect: fx.WriteSnapshotChunk) -> bool:
        """Store a chunk of a snapshot; True when the snapshot replaced the log."""
        if effect.position_bytes == 0:
            self.partial_bytes = 0
        assert effect.position_bytes == self.partial_bytes, f"{effect=} {self.partial_bytes=}"
        self.partial_bytes += len(effect.chunk)
        if not effect.done:
            return False
        self.snapshots = [effect.snapshot_id]
        self.snapshot_sizes[effect.snapshot_id] = self.partial_bytes
        self.records = []
        self.start_offset = self.flushed_end_offset = effect.snapshot_id.offset
        return True

    def add_snapshot(self, snapshot_id: OffsetAndEpoch, size_bytes: int, start_offset: int) -> None:
        """Freeze a snapshot and let the log begin at `start_offset`."""
        self.snapshots.append(snapshot_id)
        self.snapshot_sizes[snapshot_id] = size_bytes
        self.move_start(start_offset)

    def move_start(self, start_offset: int) -> None:
        """Drop records and snapshots below `start_offset`."""
        del self.records[: start_offset - self.start_offset]
        self.start_offset = start_offset
        self.snapshots = [found for found in self.snapshots if found.offset >= start_offset]

    def crash(self) -> None:
        """Lose what was not flushed, and what was not written."""
        self.truncate(max(self.flushed_end_offset, self.start_offset))
