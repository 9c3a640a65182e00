"""The producers of a log: their state, the files that it is loaded from, and aborted transactions.

After a truncation the state is that of the newest snapshot at or below the end, until the batches
behind it were replayed, in pieces.

apache/kafka: storage/.../log/UnifiedLog.java (`rebuildProducerState`)
"""

from collections.abc import Sequence

from storage.logs.ended_transactions import ended_transactions, has_marker
from storage.logs.log import Log
from storage.logs.recovery import RecoveryEvent
from storage.producers.producer_entry import NONE
from storage.producers.producer_replay import replay
from storage.producers.producer_snapshot_files import ProducerSnapshotFiles
from storage.producers.producer_state import CompletedTransaction, ProducerStates
from storage.segments.aborted_transactions import AbortedTransactions
from storage.segments.transaction_index import AbortedTransaction
from storage.vfs import Vfs
from wire.batches.legacy_batch import iterate_any


class LogProducers:
    """The producers of one open log.

    Args:
        vfs: of the log.
        log: opened.
        states: empty; `load` feeds them.
    """

    def __init__(self, vfs: Vfs, log: Log, states: ProducerStates) -> None:
        self._log = log
        self.states = states
        """Those below the end of the log, unless `is_behind`."""
        self._snapshots = ProducerSnapshotFiles(vfs, log.directory, log.wrote_beside)
        self._aborted = AbortedTransactions(vfs, log.directory, log.wrote_beside)
        self.is_behind = False
        """True after a truncation until the last batch was replayed."""
        self._loaded_below = 0
        """Offset from which a replay that is under way has to know all transactions."""

    @property
    def has_unwritten_aborts(self) -> bool:
        """True while a full disk keeps aborted transactions out of their files."""
        return self._aborted.has_unwritten

    def load(self, wall_ms: int, high_watermark: int) -> Sequence[RecoveryEvent]:
        """Load the state of a log that was opened, `replay_some` ends it; the damaged files.

        Unlike in Kafka, with the transactions that ended at or above the high watermark and below
        the snapshot: a reader of what is committed would get a part of them.
        """
        log = self._log
        self._aborted.truncate_to(log.segments, log.end_offset)
        # Above the flushed end a power failure may have kept a snapshot without the transactions
        # that it leaves behind.
        end = log.flushed_end_offset
        damage = self._load(end, end, wall_ms, is_needed=True)
        self._load_ended(max(high_watermark, log.log_start_offset))
        return damage

    def _load_ended(self, high_watermark: int) -> None:
        """Take in the transactions that ended at or above the high watermark, below the snapshot.

        Nothing is read where no producer of the snapshot ever had a marker, and only what is above
        the high watermark where no marker is there.
        """
        log, end = self._log, self.states.end_offset
        segments, start = log.segments, log.log_start_offset
        if high_watermark >= end:
            return
        _, entries = self._snapshots.newest(start, end)
        had_marker = any(entry.coordinator_epoch != NONE for entry in entries)
        if not had_marker or not has_marker(segments, high_watermark, end):
            return
        start, before = self._snapshots.newest(start, high_watermark)
        for each in ended_transactions(segments, before, start, end, high_watermark):
            self.states.note_ended(each.producer_id, each.first_offset, each.last_offset)
        log.close_unused()

    def reload(self, wall_ms: int) -> None:
        """Begin with the state at the end of a log that was truncated; `replay_some` ends it.

        Without a producer before, and in the snapshot, none wrote between them that is still known.
        A snapshot does not tell of transactions that have ended. Those whose end may not be below
        the high watermark are replayed from their begin, or a reader of what is committed would get
        a part of one: unlike Kafka, which takes a truncation to be at the high watermark.
        """
        log, first = self._log, self.states.first_unreplicated_offset
        self._aborted.truncate_to(log.segments, log.end_offset)
        is_needed = self.is_behind or not self.states.is_empty
        before = self._loaded_below if self.is_behind else log.end_offset
        self._loaded_below = min(log.end_offset, before, before if first is None else first)
        self._load(log.end_offset, self._loaded_below, wall_ms, is_needed=is_needed)

    def _load(
        self, end: int, newest: int, wall_ms: int, *, is_needed: bool
    ) -> Sequence[RecoveryEvent]:
        """Load the last snapshot up to `newest`, behind which batches are replayed if needed.

        Snapshots above `end` are removed.
        """
        log, states = self._log, self.states
        start = log.log_start_offset
        end, newest = max(end, start), max(newest, start)
        assert newest <= end <= log.end_offset, f"{newest=} {end=} {log.end_offset=}"
        damage = self._snapshots.load(states, start, end, wall_ms, newest)
        assert log.log_start_offset <= states.end_offset <= newest, (
            f"{states.end_offset=} {newest=}"
        )
        # Unlike Kafka also for what the snapshot has: a transaction that was open there, and whose
        # producer ended it and expired since, would hold back the last stable offset for ever.
        is_needed = is_needed or not states.is_empty
        self.is_behind = is_needed and states.end_offset < log.end_offset
        if not self.is_behind:
            states.note_end(log.end_offset)
        return damage

    def replay_some(self, max_bytes: int) -> tuple[int, int]:
        """Replay batches of at most `max_bytes`, but at least one; their number and bytes."""
        assert self.is_behind, "the state is that of the end"
        assert max_bytes > 0, f"{max_bytes=}"
        log, states = self._log, self.states
        position = max(states.end_offset, log.log_start_offset)  # it may have been raised since
        content, count = log.read(position, max_bytes), 0
        for batch in iterate_any(content):
            count += 1
            ended = replay(states, batch)
            if ended is not None:
                self.note_aborted(*ended)
        if not content:  # an empty segment behind a gap
            states.note_end(log.end_offset)
        self.is_behind = states.end_offset < log.end_offset
        assert states.end_offset <= log.end_offset, f"INV-UL-2 {states.end_offset=}"
        return count, len(content)

    def write_snapshot(self) -> None:
        """Write the state, unless a start from there would miss an aborted transaction."""
        assert not self.is_behind, "it is not that of the end"
        if not self._aborted.has_unwritten:
            self._snapshots.write(self.states)

    def note_aborted(self, transaction: CompletedTransaction, last_stable_offset: int) -> None:
        """Note that a transaction has ended, if it was aborted."""
        if not transaction.is_aborted:
            return
        # Above the marker where the same fetch brought others, one of which begins a transaction.
        assert last_stable_offset <= self._log.end_offset, f"{last_stable_offset=}"
        entry = AbortedTransaction(
            0,
            transaction.producer_id,
            transaction.first_offset,
            transaction.last_offset,
            last_stable_offset,
        )
        self._aborted.add(self._log.segments, entry)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that concern `offset` to `upper_offset`, exclusive."""
        return self._aborted.collect(self._log.segments, offset, upper_offset)

    def renamed_to(self, directory: str) -> None:
        """Go on in a directory that was renamed."""
        self._snapshots.directory = self._aborted.directory = directory
