"""The partitions of this broker, and the requests that wait for them: Kafka's ReplicaManager.

A request is answered through the function that comes with it: at once, by a step that changes one
of its partitions (`took`, `check`), or by its deadline (`tick`).

apache/kafka: core/.../server/ReplicaManager.scala
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import msgspec

from metadata.image import Image
from network.clock import Clock
from network.turn_budget import TurnBudget
from replication.counters import Counters
from replication.leader.alter_partition import AlterPartitions
from replication.leader.appends import Appends
from replication.leader.delayed import AwaitedOffset, DelayedDeleteRecords, DeletedRecords
from replication.leader.delayed_fetch import DelayedFetch
from replication.leader.fetches import Fetches
from replication.leader.fetching import ReadRules
from replication.leader.flush_gate import Flushed
from replication.leader.leadership import Changed, Leadership
from replication.leader.waiting import Waiting, Withdraw
from replication.partition import Partition
from wire.errors import ErrorCode
from wire.messages.codec import Entity
from wire.types import BrokerEpoch, Offset, TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.response import AlterPartitionResponse

DeletionResults = Mapping[TopicIdPartition, DeletedRecords]
AnswerDeletion = Callable[[DeletionResults], None]
SHRINKS_PER_TICK: Final = 50
"""Partitions whose ISR is looked at in one step, about a millisecond: others wait meanwhile."""
_NO_OFFSET: Final = Offset(-1)


def _unnoticed(_key: TopicIdPartition) -> None:
    """Note nothing of a partition."""


class ReplicaListener(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that are told of what happens to partitions."""

    failed: Callable[[TopicIdPartition, Exception], None]
    """The log directory of a partition has failed, with this error; not called while partitions are
    worked on, so that they may be marked offline."""
    appended: Callable[[TopicIdPartition, Callable[[], Flushed]], None]
    """Something was appended, which may be due for a flush; the answer of the append waits for that
    if the function is called."""
    checked: Callable[[TopicIdPartition], None] = _unnoticed
    """A partition has another role, epoch or high watermark, maybe inside an append."""


def _end_deletion(deletion: DelayedDeleteRecords[AnswerDeletion]) -> None:
    deletion.request(deletion.results)


class ReplicaManager:
    """The hosted partitions, with their requests that wait.

    Args:
        clock: of the broker.
        budget: of the turn.
        proposals: of ISRs.
        image: the newest.
        lag_ms_max: `replica.lag.time.max.ms`; ISRs are shrunk at every half of it.
        listener: told of what happens to partitions.
        counters: raised here.
        rules: of reads.
    """

    def __init__(
        self,
        clock: Clock,
        budget: TurnBudget,
        proposals: AlterPartitions,
        *,
        image: Callable[[], Image],
        lag_ms_max: int,
        listener: ReplicaListener,
        counters: Counters,
        rules: ReadRules,
    ) -> None:
        assert lag_ms_max > 1, f"{lag_ms_max=}"
        self._clock = clock
        self._budget = budget
        self._proposals = proposals
        self._image = image
        self._on_checked = listener.checked
        self._counters = counters
        self._shrink_interval_ms = lag_ms_max // 2
        self._next_shrink_ms = clock.now_ms + self._shrink_interval_ms
        self._to_shrink: deque[TopicIdPartition] = deque()
        """Partitions that the running check of ISRs has not seen."""
        appends = Appends(
            clock,
            self.partition_of,
            self._leader,
            self._appended,
            on_failure=listener.failed,
            on_appended=listener.appended,
            counters=counters,
        )
        self._produces = appends.waiting
        self.append_at_once = appends.append_at_once
        self.append = appends.append
        """Appends batches to partitions, or parks a Produce."""
        self.takes_pieces = appends.takes_pieces
        self.append_in_steps = appends.append_in_steps
        fetches = Fetches(
            clock,
            budget,
            self.partition_of,
            self.took,
            on_failure=listener.failed,
            counters=counters,
            rules=rules,
        )
        self._answers = fetches
        self._committed: dict[TopicIdPartition, None] = {}
        """Partitions of which produces are to be tried."""
        self._has_put_off = False
        """True if they were to be answered in the half of the step before."""
        self._fetches = fetches.waiting
        self.fetch = fetches.fetch
        """Reads partitions, or parks a Fetch."""
        self.fetch_in_steps = fetches.fetch_in_steps
        self.is_throttled = fetches.is_throttled
        self._deletions = Waiting(clock, _end_deletion)
        self.partitions: dict[TopicIdPartition, Partition] = {}
        """The hosted partitions, also those whose log is offline or not open yet."""

    @property
    def is_busy(self) -> bool:
        """True if fetches or produces whose wait is over are not answered."""
        return self._answers.is_busy or bool(self._committed)

    def go_on(self) -> None:
        """Answer some of the fetches, then the produces that have let them go first.

        What fetches are answered leaves before the produces are; these are put off only once.
        """
        if self._answers.is_busy:
            self._answers.go_on()
            if self._committed and not self._has_put_off:
                self._has_put_off = True
                self._budget.pause()
                if not self._budget.has_room:
                    return
        self._answer_committed()

    def _answer_committed(self) -> None:
        self._has_put_off = False
        committed, self._committed = self._committed, {}
        for key in committed:
            self._produces.check(key)

    @property
    def waiting_counts(self) -> tuple[int, int, int]:
        """Number of Produce, Fetch and DeleteRecords requests that wait."""
        return (
            self._produces.delayed_count,
            self._fetches.delayed_count,
            self._deletions.delayed_count,
        )

    @property
    def watched_counts(self) -> tuple[int, int, int]:
        """Number of their partitions for which they wait, one for each request and partition."""
        return (
            self._produces.watched_count,
            self._fetches.watched_count,
            self._deletions.watched_count,
        )

    def late_transaction_count(self, timeout_ms_max: int) -> int:
        """Number of partitions led here that have a late transaction.

        Args:
            timeout_ms_max: `transaction.max.timeout.ms`.
        """
        wall_ms = self._clock.wall_ms
        return sum(
            isinstance(each.role, Leadership) and each.has_late_transaction(wall_ms, timeout_ms_max)
            for each in self.partitions.values()
        )

    # -- partitions -----------------------------------------------------------------------------

    def host(self, key: TopicIdPartition, partition: Partition) -> None:
        """Take a partition of which this broker becomes a replica."""
        assert key not in self.partitions, f"{key=} is hosted"
        self.partitions[key] = partition

    def drop(self, key: TopicIdPartition) -> None:
        """Let a partition go; who waits for it is answered as the image says."""
        del self.partitions[key]
        self.check(key)

    def hosted(self, key: TopicIdPartition) -> Partition | None:
        """The hosted partition."""
        return self.partitions.get(key)

    def partition_of(self, key: TopicIdPartition) -> Partition | ErrorCode:
        """The hosted partition; NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION otherwise."""
        partition = self.partitions.get(key)
        if partition is not None:
            return partition
        if self._image().partition(*key) is None:
            return ErrorCode.unknown_topic_or_partition
        return ErrorCode.not_leader_or_follower

    def _leader(self, key: TopicIdPartition) -> Leadership | ErrorCode:
        partition = self.partition_of(key)
        return partition if isinstance(partition, ErrorCode) else partition.leadership

    def took(self, key: TopicIdPartition, changed: Changed) -> None:
        """Follow a step of a hosted partition: answer who waits for it, submit its proposal."""
        if changed.proposal is not None and not self._proposals.submit(key, changed.proposal):
            code = ErrorCode.operation_not_attempted
            self.partitions[key].on_answer(changed.proposal, code, self._clock.now_ms)
        if changed.low_watermark_raised:
            self.check(key)
        elif changed.high_watermark_raised:
            self._answers.check(key, partial(DelayedFetch.committed, key=key))
            self._check_produces(key)
            self._deletions.check(key)
            self._on_checked(key)

    def _appended(self, key: TopicIdPartition, changed: Changed) -> None:
        """Follow an append of this leader, which those may read who wait for records."""
        self.took(key, changed)
        self._answers.check(key, partial(DelayedFetch.appended, key=key))

    def _check_produces(self, key: TopicIdPartition) -> None:
        """Try the produces that wait for a partition, behind fetches that are to be answered.

        Kafka completes them in this order, too (DelayedOperations.checkAndCompleteAll).
        """
        if not self._produces.is_watched(key):
            return
        if self._answers.is_busy:
            self._committed[key] = None
        else:
            self._produces.check(key)

    def check(self, key: TopicIdPartition) -> None:
        """Try all requests that wait for a partition: it has another role, epoch or end."""
        self._answers.check(key)
        self._check_produces(key)
        self._deletions.check(key)
        self._on_checked(key)

    def check_all(self, keys: Sequence[TopicIdPartition]) -> None:
        """As `check`, of the partitions of one image: each request is tried once."""
        self._answers.check_all(keys)
        if self._answers.is_busy:
            self._committed.update(dict.fromkeys(keys))
        else:
            self._produces.check_all(keys)
        self._deletions.check_all(keys)
        for key in keys:
            self._on_checked(key)

    # -- DeleteRecords --------------------------------------------------------------------------

    def delete_records(
        self,
        offsets: Mapping[TopicIdPartition, int],
        *,
        timeout_ms: int,
        answer: AnswerDeletion,
    ) -> Withdraw | None:
        """Raise log starts of partitions that this broker leads; answer when live replicas have.

        None if that is answered.

        Args:
            offsets: first offset to keep, -1 for the high watermark.
            timeout_ms: after which the rest is answered with REQUEST_TIMED_OUT.
            answer: called once.
        """
        statuses = {}
        for key, offset in offsets.items():
            partition = self.partition_of(key)
            deletion = (
                partition
                if isinstance(partition, ErrorCode)
                else partition.delete_records_on_leader(offset)
            )
            if isinstance(deletion, ErrorCode):
                statuses[key] = AwaitedOffset(_NO_OFFSET, deletion)
            else:
                statuses[key] = AwaitedOffset(deletion.requested_offset)
                self._answers.check(key)  # followers learn the log start, and confirm it
        delayed = DelayedDeleteRecords(answer, statuses, self._leader)
        return self._deletions.add(delayed, statuses, timeout_ms)

    # -- ISR ------------------------------------------------------------------------------------

    def next_proposal(self, broker_epoch: BrokerEpoch) -> Entity | None:
        """The AlterPartition to send now, which is in flight from here on; None if none is due."""
        return self._proposals.take_request(broker_epoch, self._clock.now_ms)

    def on_proposal_answer(self, answer: object | None) -> None:
        """Take the response to the AlterPartition in flight; None if there is none."""
        now_ms = self._clock.now_ms
        if answer is None:
            self._proposals.on_failure(now_ms)
            return
        response = cast("AlterPartitionResponse", answer)
        for answered in self._proposals.on_response(response, now_ms):
            partition = self.partitions.get(answered.partition)
            if partition is not None:
                leader = partition.leadership
                before = None if isinstance(leader, ErrorCode) else leader.state
                result = partition.on_answer(answered.proposed, answered.answer, now_ms)
                if before is not None:
                    self._counters.proposed(before, result.outcome)
                self.took(answered.partition, result.changed)

    # -- time -----------------------------------------------------------------------------------

    def next_ms(self) -> int:
        """Instant of the next `tick`, or of the next AlterPartition."""
        others = (
            self._produces.next_deadline_ms(),
            self._fetches.next_deadline_ms(),
            self._deletions.next_deadline_ms(),
            self._proposals.next_request_ms(),
        )
        if self._to_shrink:
            return self._clock.now_ms
        return min((self._next_shrink_ms, *(each for each in others if each is not None)))

    def tick(self) -> None:
        """Answer the requests whose deadline has come; shrink ISRs if it is time."""
        now_ms = self._clock.now_ms
        if self._committed and (self._produces.next_deadline_ms() or now_ms) <= now_ms:
            self._answer_committed()  # what is committed does not time out
        for produce in self._produces.expire():
            self._counters.expired_produces += len(produce.pending)
        for fetch in self._fetches.expire():
            self._counters.expired(is_follower=fetch.params.replica_id is not None)
        self._deletions.expire()
        if now_ms >= self._next_shrink_ms:
            self._next_shrink_ms = now_ms + self._shrink_interval_ms
            self._to_shrink = deque(self.partitions)
        self._shrink_some(now_ms)

    def _shrink_some(self, now_ms: int) -> None:
        for _ in range(min(SHRINKS_PER_TICK, len(self._to_shrink))):
            key = self._to_shrink.popleft()
            partition = self.partitions.get(key)
            if partition is not None:
                self.took(key, partition.maybe_shrink_isr(now_ms))
