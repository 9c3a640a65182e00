"""Raft's view of the log: offsets, epoch starts, snapshots, truncation generation, and voters.

INV-LOG-1: log_start_offset <= flushed_end_offset <= written_end_offset <= end_offset.
INV-VOTERS-1: the voters are those of the last VotersRecord in the log, committed or not.
INV-LOG-2: epochs and their start offsets strictly increase; no start is above the log end.
Source: apache/kafka: raft/.../ReplicatedLog.java, storage/.../LeaderEpochFileCache.java.
"""

from enum import Enum

from raft.events import EpochStart
from raft.membership.voter_history import Membership, VoterHistory, VoterRecord
from raft.membership.voters import VoterSet
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

NO_EPOCH = LeaderEpoch(0)


class Validity(Enum):
    """Validity of a fetch position (offset and epoch) in the leader's log."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class LogView:
    """Offsets and epochs of the local log, updated by events; no bytes are read."""

    def __init__(
        self,
        *,
        start_offset: Offset,
        end_offset: Offset,
        epochs: tuple[EpochStart, ...] = (),
        earliest_snapshot: OffsetAndEpoch | None = None,
        latest_snapshot: OffsetAndEpoch | None = None,
        voter_history: VoterHistory,
    ) -> None:
        """Start with everything below `end_offset` durable: the driver flushed the recovery."""
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.written_end_offset = end_offset
        self.flushed_end_offset = end_offset
        self.earliest_snapshot = earliest_snapshot
        self.latest_snapshot = latest_snapshot
        self.generation = 0
        self._set_voters(voter_history)
        self._epochs = list(epochs)
        self.last_epoch = NO_EPOCH
        """Epoch of the last record; of the snapshot if the log is empty at its end; else 0."""
        self._note_last_epoch()
        self.check()

    def _set_voters(self, history: VoterHistory) -> None:
        """Take another history; its last values are kept beside it: every step asks for them."""
        self.voter_history = history
        self.voters: VoterSet = history.latest
        self.kraft_version = history.kraft_version

    def check(self) -> None:
        """Assert INV-LOG-1 and INV-LOG-2."""
        flushed, written = self.flushed_end_offset, self.written_end_offset
        assert 0 <= self.start_offset <= flushed <= written <= self.end_offset, self.describe()
        if self._epochs:
            assert self._epochs[-1].start_offset <= self.end_offset, self.describe()
        if self.start_offset > 0:
            assert self.latest_snapshot is not None, self.describe()

    def describe(self) -> str:
        """Format the offsets and epochs for assertion messages."""
        return (
            f"LogView(start={self.start_offset} flushed={self.flushed_end_offset} "
            f"written={self.written_end_offset} end={self.end_offset} "
            f"epochs={[(e.epoch, e.start_offset) for e in self._epochs]})"
        )

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Epoch starts, ascending."""
        return tuple(self._epochs)

    @property
    def last_position(self) -> OffsetAndEpoch:
        """End offset and last epoch, compared when a vote is requested."""
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def is_settled(self) -> bool:
        """True if all assigned offsets are written."""
        return self.written_end_offset == self.end_offset

    @property
    def is_durable(self) -> bool:
        """True if all assigned offsets are flushed."""
        return self.flushed_end_offset == self.end_offset

    def assign_epoch(self, start: EpochStart) -> None:
        """Add the start of an epoch, unless it is the last one known."""
        if self._epochs and start.epoch == self._epochs[-1].epoch:
            return
        assert start.epoch > NO_EPOCH, f"{start=}"
        if self._epochs:
            assert start.epoch > self._epochs[-1].epoch, f"{start=} {self.describe()}"
            if start.start_offset == self._epochs[-1].start_offset:
                self._epochs.pop()  # an epoch without records
            else:
                assert start.start_offset > self._epochs[-1].start_offset, (
                    f"{start=} {self.describe()}"
                )
        self._epochs.append(start)
        self.last_epoch = start.epoch

    def extend(self, end_offset: Offset) -> None:
        """Assign offsets up to `end_offset` (exclusive), for an append not yet written."""
        assert end_offset > self.end_offset, f"{end_offset=} {self.describe()}"
        self._move_end(end_offset)

    def wrote(self, end_offset: Offset) -> None:
        """Advance the written end to `end_offset`, and the log end if it is lower."""
        assert end_offset >= self.written_end_offset, f"{end_offset=} {self.describe()}"
        self.written_end_offset = end_offset
        if end_offset > self.end_offset:
            self._move_end(end_offset)
        self.check()

    def add_voters(self, record: VoterRecord) -> None:
        """Note a written VotersRecord or KRaftVersionRecord: it holds at once (KIP-853)."""
        assert record.offset < self.written_end_offset, f"{record=} {self.describe()}"
        self._set_voters(self.voter_history.after(record))

    def flushed(self, end_offset: Offset) -> None:
        """Advance the flushed end to `end_offset`; a lower one changes nothing."""
        assert end_offset <= self.written_end_offset, f"{end_offset=} {self.describe()}"
        self.flushed_end_offset = max(self.flushed_end_offset, end_offset)
        self.check()

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        """Return the end offset of the largest known epoch that is not above `epoch`."""
        if not self._epochs or epoch >= self._epochs[-1].epoch:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        previous: EpochStart | None = None
        for entry in self._epochs:
            if entry.epoch > epoch:
                break
            previous = entry
        else:  # pragma: no cover - the last entry is above `epoch`, tested first
            raise AssertionError(f"{epoch=} {self.describe()}")
        if previous is not None:
            return OffsetAndEpoch(entry.start_offset, previous.epoch)
        snapshot = self.earliest_snapshot
        if snapshot is not None and snapshot.offset == entry.start_offset:
            return OffsetAndEpoch(entry.start_offset, snapshot.epoch)
        return OffsetAndEpoch(entry.start_offset, NO_EPOCH)

    def validate(
        self, offset: Offset, epoch: LeaderEpoch
    ) -> tuple[Validity, OffsetAndEpoch | None]:
        """Validate a fetch position; with it the diverging epoch's end or the snapshot id."""
        if self.start_offset == 0 and offset == 0:
            return Validity.VALID, None
        earliest = self.earliest_snapshot
        if earliest is not None and (
            offset < self.start_offset
            or (offset == self.start_offset and epoch != earliest.epoch)
            or epoch < earliest.epoch
        ):
            assert self.latest_snapshot is not None, self.describe()
            return Validity.SNAPSHOT, self.latest_snapshot
        if epoch == self.last_epoch and offset <= self.end_offset:  # the common case
            return Validity.VALID, None
        end = self.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validity.DIVERGING, end
        return Validity.VALID, None

    def truncation_point(self, diverging: OffsetAndEpoch) -> Offset:
        """Return the truncation offset for a diverging epoch (several rounds may be needed)."""
        if diverging.epoch == NO_EPOCH:
            return min(diverging.offset, self.end_offset)
        local = self.end_offset_for_epoch(diverging.epoch)
        if local.epoch == diverging.epoch:
            return min(local.offset, diverging.offset)
        return local.offset

    def truncate(self, end_offset: Offset) -> None:
        """Truncate to `end_offset` (exclusive) and begin a new generation."""
        assert self.start_offset <= end_offset <= self.end_offset, (
            f"{end_offset=} {self.describe()}"
        )
        self.end_offset = end_offset
        self.written_end_offset = min(self.written_end_offset, end_offset)
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
        self._epochs = [entry for entry in self._epochs if entry.start_offset < end_offset]
        self._set_voters(self.voter_history.truncated(end_offset))
        self.generation += 1
        self._note_last_epoch()
        self.check()

    def drop_unwritten(self) -> None:
        """Drop offsets that a leader assigned and the disk refused: they were never sent.

        The generation stays: the written log is unchanged, so its pending flushes remain valid.
        """
        end_offset = self.end_offset = self.written_end_offset
        self._epochs = [entry for entry in self._epochs if entry.start_offset < end_offset]
        self._note_last_epoch()
        self.check()

    def restart_at(self, snapshot_id: OffsetAndEpoch, membership: Membership) -> None:
        """Become empty at the end of a fetched snapshot, which has these voters."""
        self._set_voters(self.voter_history.restarted(snapshot_id.offset, membership))
        self.start_offset = snapshot_id.offset
        self.end_offset = snapshot_id.offset
        self.written_end_offset = snapshot_id.offset
        self.flushed_end_offset = snapshot_id.offset
        self.earliest_snapshot = snapshot_id
        self.latest_snapshot = snapshot_id
        self._epochs = []
        self._note_last_epoch()
        self.check()

    def snapshot_added(self, snapshot_id: OffsetAndEpoch, start_offset: Offset) -> None:
        """Add a frozen local snapshot; the log now starts at `start_offset`."""
        assert snapshot_id.offset <= self.end_offset, f"{snapshot_id=} {self.describe()}"
        assert self.start_offset <= start_offset <= self.flushed_end_offset, (
            f"{start_offset=} {self.describe()}"
        )
        if self.latest_snapshot is None or self.latest_snapshot.is_before(snapshot_id):
            self.latest_snapshot = snapshot_id
        if start_offset > self.start_offset or self.earliest_snapshot is None:
            self._move_start(start_offset, snapshot_id)
        self._note_last_epoch()
        self.check()

    def _move_end(self, end_offset: Offset) -> None:
        self.end_offset = end_offset
        if not self._epochs:
            self._note_last_epoch()

    def _note_last_epoch(self) -> None:
        """Recompute `last_epoch`, which is kept because every step reads it."""
        snapshot = self.latest_snapshot
        if self._epochs:
            self.last_epoch = self._epochs[-1].epoch
        elif snapshot is not None and snapshot.offset == self.start_offset == self.end_offset:
            self.last_epoch = snapshot.epoch
        else:
            self.last_epoch = NO_EPOCH

    def _move_start(self, start_offset: Offset, snapshot_id: OffsetAndEpoch) -> None:
        """Drop epochs that ended at or below the new start; keep the one that spans it."""
        epoch_at_start = NO_EPOCH
        for entry in self._epochs:
            if entry.start_offset < start_offset:
                epoch_at_start = entry.epoch
        if snapshot_id.offset == start_offset:
            self.earliest_snapshot = snapshot_id
        elif start_offset > self.start_offset:
            self.earliest_snapshot = OffsetAndEpoch(start_offset, epoch_at_start)
        elif self.earliest_snapshot is None:
            self.earliest_snapshot = snapshot_id
        kept = [entry for entry in self._epochs if entry.start_offset >= start_offset]
        spans = epoch_at_start > NO_EPOCH and start_offset > 0
        if spans and not (kept and kept[0].start_offset == start_offset):
            kept.insert(0, EpochStart(epoch_at_start, start_offset))
        self._epochs = kept
        self._set_voters(self.voter_history.trimmed(start_offset))
        self.start_offset = start_offset
