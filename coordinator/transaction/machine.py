"""One partition of `__transaction_state`: the ids of a shard, what is prepared, what times out.

Theory. A request becomes a decision on the latest image, which is written and answered when it is
committed. What has no record is here: the epochs by which a repeated InitProducerId is known again,
and the way of a transaction that has ended. Its markers leave when its end is committed, however
the request was answered; it is complete when they are written. A write whose answer is a time-out
may be committed later: the machine asks again until the shard has said so.

    INV-TM-1  markers are sent for ends that are committed, by the leader of the partition alone

apache/kafka: core/.../coordinator/transaction/TransactionCoordinator.scala,
TransactionStateManager.scala, 4.3
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from coordinator.records.kinds import TRANSACTION_KINDS, Kinds
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.census import Census
from coordinator.runtime.replay import decoded
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import Applied, Write
from coordinator.transaction import transitions
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.decisions import Change, Decision, fence, is_expired, is_timed_out
from coordinator.transaction.markers import Ending, Markers
from coordinator.transaction.metadata import (
    EMPTY,
    NONE,
    TransactionMetadata,
    TransactionsImage,
    apply,
    record_of,
    tombstone,
)
from coordinator.transaction.states import PREPARED, TransactionState
from network.clock import Clock
from wire.batches.batch import RecordView
from wire.errors import ApiError, ErrorCode

RETRY_MS: Final = 100
"""Pause before a write about an end of a transaction, which did not commit, is tried again."""
ABORTS_PER_TICK: Final = 200
"""Transactions that time out in one tick."""
EXPIRIES_PER_TICK: Final = 200
"""Ids that end in one tick."""
LOOKS_PER_TICK: Final = 2_000
"""Ids that one tick looks at for expiry, about a millisecond."""

Decide = Callable[[TransactionMetadata | None], Decision]
AnswerChange = Callable[[Change | ApiError], None]


class TransactionMachine:
    """The coordinator of the transactional ids of one partition, for one leadership.

    Args:
        partition: of `__transaction_state`.
        clock: of the broker.
        config: its settings.
        markers: of all partitions.
        transaction_version: returns the one of the cluster.
    """

    kinds: Kinds = TRANSACTION_KINDS
    empty: TransactionsImage = EMPTY

    def __init__(
        self,
        partition: int,
        clock: Clock,
        config: TransactionsConfig,
        markers: Markers,
        transaction_version: Callable[[], int],
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._config = config
        self._markers = markers
        self._transaction_version = transaction_version
        self._shard: Shard[TransactionsImage] | None = None
        self._last_epochs: dict[str, int] = {}
        self._unsure: dict[str, None] = {}
        """Ids of which an end may have been written; the shard is asked again."""
        self._unwritten: dict[str, Ending] = {}
        """Endings whose markers are written, and whose completion is not."""
        self._retry_ms: int | None = None
        self._abort_ms = self._expiry_ms = 0
        self._aborting: deque[str] = deque()
        self._looking: Iterator[tuple[str, TransactionMetadata]] | None = None
        """Ids that the running check for expiry has not looked at."""
        self._found: list[str] = []
        self._expired: deque[str] = deque()
        self._counted: TransactionsImage = EMPTY
        self._census: Census[str, TransactionState] = Census(self._state_of)

    # -- the shard ------------------------------------------------------------------------------

    def apply(
        self, image: TransactionsImage, records: Sequence[tuple[CoordinatorRecord, Applied]]
    ) -> TransactionsImage:
        """The image after records.

        Raises:
            CoordinatorRecordError: a state is not known.
        """
        for record, _ in records:
            image = apply(image, record)
        return image

    def replay(
        self, image: TransactionsImage, views: Sequence[RecordView], producer_id: int | None
    ) -> TransactionsImage:
        """The image after records of the log.

        Raises:
            CoordinatorRecordError: as `apply`, or a record cannot be read.
        """
        return self.apply(image, decoded(self.kinds, views, producer_id))

    def apply_marker(
        self, image: TransactionsImage, producer_id: int, *, is_commit: bool
    ) -> TransactionsImage:
        """The image; no transaction writes to this topic."""
        del producer_id, is_commit
        return image

    def activated(self, shard: Shard[TransactionsImage]) -> None:
        """Go on with the transactions that have ended, once that is committed."""
        assert self._shard is None, "a machine has one leadership"
        self._shard = shard
        self._abort_ms = self._clock.now_ms + self._config.abort_interval_ms
        self._expiry_ms = self._clock.now_ms + self._config.expiry_interval_ms
        transactions = shard.image.transactions
        prepared = [name for name in shard.image.open_ids if transactions[name].state in PREPARED]
        self._await_commit(sorted(prepared))

    def resigned(self) -> None:
        """Send no more markers."""
        self._shard = None
        self._markers.cancel(self._partition)
        self._last_epochs.clear()
        self._unsure.clear()
        self._unwritten.clear()
        self._aborting.clear()
        self._looking = None
        self._found.clear()
        self._expired.clear()

    # -- figures --------------------------------------------------------------------------------

    @property
    def unwritten_count(self) -> int:
        """Number of endings whose completion is to be written again."""
        return len(self._unwritten)

    @property
    def open_counts(self) -> Mapping[TransactionState, int]:
        """The committed ids with an open transaction by state, as last counted."""
        return self._census.counts

    def look(self, units: int) -> int:
        """Go on with the census; the units left. A unit is an id."""
        if self._shard is None:
            return units
        if not self._census.is_counting:
            self._counted = self._shard.committed
        return self._census.look(self._counted.open_ids, units)

    def _state_of(self, transactional_id: str) -> tuple[TransactionState, int]:
        return self._counted.transactions[transactional_id].state, 1

    # -- requests -------------------------------------------------------------------------------

    def last_epoch(self, transactional_id: str) -> int:
        """Epoch whose InitProducerId is a repetition; -1 for none."""
        return self._last_epochs.get(transactional_id, NONE)

    def change(self, transactional_id: str, decide: Decide, answer: AnswerChange) -> None:
        """Decide on an id, write it, and answer when that is committed, once."""
        shard = self._shard
        if shard is None:
            answer(ApiError(ErrorCode.not_coordinator))
            return
        decided: Change | None = None

        def write(image: TransactionsImage) -> Write[Change] | ApiError:
            nonlocal decided
            decision = decide(image.transactions.get(transactional_id))
            if isinstance(decision, ApiError) or decision.after is None:
                return decision if isinstance(decision, ApiError) else Write(response=decision)
            decided = decision
            if decision.last_epoch is not None:
                self._last_epochs[transactional_id] = decision.last_epoch
            record = record_of(transactional_id, decision.after, self._transaction_version())
            forget = partial(self._not_written, transactional_id)
            return Write(records=(record,), response=decision, on_failure=forget)

        def written(response: Change | ApiError) -> None:
            after = None if decided is None else decided.after
            if after is not None and after.state in PREPARED:
                self._prepared(transactional_id, is_committed=not isinstance(response, ApiError))
            answer(response)

        shard.write(write, written)

    def _not_written(self, transactional_id: str, code: ErrorCode) -> None:
        if code is not ErrorCode.request_timed_out:
            self._last_epochs.pop(transactional_id, None)

    # -- ends -----------------------------------------------------------------------------------

    def _prepared(self, transactional_id: str, *, is_committed: bool) -> None:
        if is_committed:
            self._send_markers(transactional_id)
        elif self._shard is not None:
            self._unsure[transactional_id] = None
            self._retry()

    def _retry(self) -> None:
        if self._retry_ms is None:
            self._retry_ms = self._clock.now_ms + RETRY_MS

    def _await_commit(self, names: Iterable[str]) -> None:
        """Send the markers of ids whose end may be pending, when what is pending is committed."""
        asked = list(names)
        shard = self._shard
        if not asked or shard is None:
            return

        def committed(response: ApiError | None) -> None:
            for name in asked:
                self._prepared(name, is_committed=response is None)

        shard.write(lambda _: Write(response=None), committed)

    def _send_markers(self, transactional_id: str) -> None:
        shard = self._shard
        if shard is None:
            return
        metadata = shard.committed.transactions.get(transactional_id)
        if metadata is None or metadata.state not in PREPARED:
            return
        ending = Ending(
            self._partition,
            transactional_id,
            metadata.producer,
            metadata.state is TransactionState.PREPARE_COMMIT,
            shard.epoch,
            metadata.client_version,
        )
        self._markers.begin(ending, metadata.partitions, self._complete)

    def _complete(self, ending: Ending) -> None:
        """Write that the markers of a transaction are written."""
        shard, name = self._shard, ending.transactional_id
        if shard is None:
            return

        def write(image: TransactionsImage) -> Write[None] | ApiError:
            before = image.transactions.get(name)
            if before is None or before.state not in PREPARED or before.producer != ending.producer:
                return Write(response=None)
            after = transitions.completed(before, self._clock.wall_ms)
            return Write(
                records=(record_of(name, after, self._transaction_version()),), response=None
            )

        def written(response: ApiError | None) -> None:
            if response is not None and self._shard is not None:
                self._unwritten[name] = ending
                self._retry()

        shard.write(write, written)

    # -- time -----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        if self._shard is None:
            return None
        if self._aborting or self._expired or self._looking is not None:
            return self._clock.now_ms
        due_ms = min(self._abort_ms, self._expiry_ms)
        return due_ms if self._retry_ms is None else min(due_ms, self._retry_ms)

    def tick(self) -> None:
        """Abort what has timed out, end ids that have expired, try again what did not commit."""
        shard, now_ms = self._shard, self._clock.now_ms
        if shard is None:
            return
        if self._retry_ms is not None and now_ms >= self._retry_ms:
            self._retry_ms = None
            unsure, self._unsure = self._unsure, {}
            unwritten, self._unwritten = self._unwritten, {}
            self._await_commit(unsure)
            for ending in unwritten.values():
                self._complete(ending)
        if now_ms >= self._abort_ms:
            self._abort_ms = now_ms + self._config.abort_interval_ms
            self._aborting.extend(self._timed_out(shard.image))
        for _ in range(min(ABORTS_PER_TICK, len(self._aborting))):
            self.change(self._aborting.popleft(), self._abort_if_late, _ignore)
        if now_ms >= self._expiry_ms:
            self._expiry_ms = now_ms + self._config.expiry_interval_ms
            self._looking = iter(shard.committed.transactions.items())
        if self._looking is not None:
            self._look_at_some(self._looking)
        for _ in range(min(EXPIRIES_PER_TICK, len(self._expired))):
            shard.write(partial(self._expire, self._expired.popleft()), _ignore_end)

    def _timed_out(self, image: TransactionsImage) -> list[str]:
        wall_ms = self._clock.wall_ms
        return sorted(
            name for name in image.open_ids if is_timed_out(image.transactions[name], wall_ms)
        )

    def _abort_if_late(self, before: TransactionMetadata | None) -> Decision:
        """Abort a transaction that has timed out, unless it has ended meanwhile."""
        wall_ms = self._clock.wall_ms
        if before is None or not is_timed_out(before, wall_ms):
            return Change()
        return fence(before, self._transaction_version(), wall_ms)

    def _look_at_some(self, looking: Iterator[tuple[str, TransactionMetadata]]) -> None:
        """Note expired ids; behind the last they are sorted, for a map has an order of its own."""
        wall_ms, expiration_ms = self._clock.wall_ms, self._config.id_expiration_ms
        looked = list(islice(looking, LOOKS_PER_TICK))
        self._found += [
            name for name, metadata in looked if is_expired(metadata, wall_ms, expiration_ms)
        ]
        if len(looked) < LOOKS_PER_TICK:
            self._looking = None
            self._expired.extend(sorted(self._found))
            self._found.clear()

    def _expire(self, name: str, image: TransactionsImage) -> Write[None] | ApiError:
        metadata = image.transactions.get(name)
        wall_ms, expiration_ms = self._clock.wall_ms, self._config.id_expiration_ms
        if metadata is None or not is_expired(metadata, wall_ms, expiration_ms):
            return Write(response=None)
        self._last_epochs.pop(name, None)
        return Write(records=(tombstone(name),), response=None)


def _ignore(_: Change | ApiError) -> None:
    """Ignore the outcome of an abort, which is tried again at the next interval."""


def _ignore_end(_: ApiError | None) -> None:
    """Ignore the outcome of an expiry, likewise."""
