"""The Produce requests of a broker: appended, and parked for replicas or flushes; large in pieces.

apache/kafka: core/.../server/ReplicaManager.scala (appendRecords)
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from network.clock import Clock
from replication.counters import Counters
from replication.leader.appending import AppendResult, AppendStep, append_batch
from replication.leader.delayed import AwaitedOffset, DelayedProduce, LeaderOf
from replication.leader.fetching import PartitionOf
from replication.leader.flush_gate import AppendResults, Flushed, FlushGate
from replication.leader.leadership import ALL_IN_SYNC, Changed
from replication.leader.waiting import Waiting, Withdraw
from storage.logs.log_validator import Checked, is_small
from storage.producers.append_source import AppendSource
from storage.producers.producer_state import Origin
from storage.producers.verification import VerificationGuard
from wire.batches.batch import Batch
from wire.errors import ErrorCode
from wire.steps import Steps
from wire.types import Offset, TopicIdPartition

PIECE_UNITS: Final = 300
"""Cost of batches above which they are appended in more than one piece."""
PARTITION_UNITS: Final = 30
"""Cost of a partition that is appended to, beside that of the bytes."""
BYTES_PER_UNIT: Final = 2048
"""Bytes of a batch that cost a unit: they are checked and written."""
LEADER_ALONE: Final = 1
"""Required acks of an append that waits for no replica and asks for no minimum in sync."""
_REQUIRED_ACKS: Final = (ALL_IN_SYNC, 0, LEADER_ALONE)
NO_GUARDS: Final[Mapping[TopicIdPartition, VerificationGuard]] = {}
"""Of batches of which none needs one."""

AnswerAppend = Callable[[AppendResults], None]
Batches = Mapping[TopicIdPartition, Batch]


class _Produce(msgspec.Struct, frozen=True):
    results: AppendResults
    answer: AnswerAppend


class _Ended:
    """The end of a Produce in pieces: kept while the pieces run, then told.

    Args:
        resume: told the results once nothing runs.
    """

    __slots__ = ("_resume", "is_parked", "results")

    def __init__(self, resume: AnswerAppend) -> None:
        self._resume = resume
        self.is_parked = False
        self.results: AppendResults | None = None

    def __call__(self, results: AppendResults) -> None:
        if self.is_parked:
            self._resume(results)
        else:
            self.results = results


class Appends:
    """The appends of producers, those that wait among them.

    Args:
        clock: of the broker.
        partition_of: a partition of this broker, or why there is none.
        leader_of: the same, led by this broker.
        followed: called with what an append did to a partition.
        on_failure: called with the partition at which a log directory failed, and the error.
        on_appended: called with a partition behind an append, which may be due for a flush, and
            with what to call for a wait of the answer for that flush.
        counters: raised here.
    """

    def __init__(
        self,
        clock: Clock,
        partition_of: PartitionOf,
        leader_of: LeaderOf,
        followed: Callable[[TopicIdPartition, Changed], None],
        *,
        on_failure: Callable[[TopicIdPartition, Exception], None],
        on_appended: Callable[[TopicIdPartition, Callable[[], Flushed]], None],
        counters: Counters,
    ) -> None:
        self._clock = clock
        self._partition_of = partition_of
        self._leader_of = leader_of
        self._followed = followed
        self._on_failure = on_failure
        self._on_appended = on_appended
        self._counters = counters
        self.waiting = Waiting(clock, _end)

    def append(
        self,
        batches: Batches,
        *,
        required_acks: int,
        timeout_ms: int,
        answer: AnswerAppend,
        origin: Origin = Origin.CLIENT,
        guards: Mapping[TopicIdPartition, VerificationGuard] = NO_GUARDS,
        transaction_version: int = 0,
    ) -> Withdraw | None:
        """Append batches to the partitions that this broker leads; None if that is answered.

        Args:
            batches: as `Partition.append_as_leader` takes them.
            required_acks: 0 or 1 to answer at once, -1 when all replicas in sync have them.
            timeout_ms: after which the rest is answered with REQUEST_TIMED_OUT.
            answer: called once.
            origin: of the batches.
            guards: of the transactional batches whose partitions were verified.
            transaction_version: of the client whose transactions the batches end.
        """
        if not has_valid_acks(required_acks):
            answer(_refused(batches))
            return None
        steps = {
            key: append_batch(
                self._partition_of(key),
                batch,
                required_acks,
                self._clock,
                AppendSource(origin, guards.get(key), transaction_version),
            )
            for key, batch in batches.items()
        }
        results = {key: step.result for key, step in steps.items()}
        gate, withdraw = FlushGate(answer), None
        for key, batch in batches.items():
            self._counters.appended(results[key], len(batch.buffer), key[0])
        for key, step in steps.items():
            self._flush(key, step, gate)
        gate.open()
        if required_acks == ALL_IN_SYNC:
            withdraw = self._answer_when_committed(_Produce(results, gate.take), timeout_ms)
        else:
            gate.take(results)
        for key, step in steps.items():
            self._follow(key, step)
        return None if gate.is_done else partial(_withdrawn, gate, withdraw)

    def append_at_once(
        self,
        key: TopicIdPartition,
        batch: Batch,
        source: AppendSource,
        wait: Callable[[], Flushed],
        *,
        required_acks: int = LEADER_ALONE,
    ) -> AppendResult:
        """Append a batch of a coordinator, without waiting for a replica.

        Nobody is answered in it but those who wait for records of the partition.

        Args:
            key: of the partition.
            batch: as `Partition.append_as_leader` takes it.
            source: of the batch.
            wait: called if `flush.messages` asks for a flush; what it returns is called at its end.
            required_acks: -1 to append nothing while fewer replicas than the minimum are in sync.
        """
        partition = self._partition_of(key)
        step = append_batch(partition, batch, required_acks, self._clock, source)
        self._counters.appended(step.result, len(batch.buffer), key[0])
        if step.changed is not None:
            self._on_appended(key, wait)
        self._follow(key, step)
        return step.result

    def takes_pieces(self, batches: Batches) -> bool:
        """True if other requests must not wait for all of these appends."""
        units = 0
        for key, batch in batches.items():
            units += _units(batch)
            if self._checks(key, batch) is not None:
                return True
        return len(batches) > 1 and units > PIECE_UNITS

    def append_in_steps(
        self,
        batches: Batches,
        *,
        required_acks: int,
        timeout_ms: int,
        park: Callable[[Withdraw], None],
        resume: AnswerAppend,
        guards: Mapping[TopicIdPartition, VerificationGuard] = NO_GUARDS,
    ) -> Steps[AppendResults | None]:
        """As `append`, in pieces: the results to answer with; None for a request that waits.

        Each partition is asked for when its batch is checked, of which others are done by then, and
        followed at once. The time that it waits counts from the last piece.

        Args:
            batches: of clients.
            required_acks: as above.
            timeout_ms: as above.
            park: called with what ends the wait.
            resume: called once behind a wait, with the results.
            guards: as above.
        """
        if not has_valid_acks(required_acks):
            return _refused(batches)
        ended = _Ended(resume)
        gate, units = FlushGate(ended), 0
        results: dict[TopicIdPartition, AppendResult] = {}
        produce = DelayedProduce(_Produce(results, gate.take), {}, self._leader_of)
        watched = self.waiting.open(produce) if required_acks == ALL_IN_SYNC else None
        for key, batch in batches.items():
            checks = self._checks(key, batch)
            checked = batch if checks is None else (yield from checks)
            partition = self._partition_of(key)
            source = AppendSource(guard=guards.get(key))
            step = append_batch(partition, checked, required_acks, self._clock, source)
            results[key] = step.result
            self._counters.appended(step.result, len(batch.buffer), key[0])
            self._flush(key, step, gate)
            if watched is not None:
                produce.add({key: _awaited(step.result)})
                self.waiting.watch(watched, (key,))
            self._follow(key, step)
            units += _units(batch)
            if units >= PIECE_UNITS:
                yield units
                units = 0
        gate.open()
        withdraw = None
        if watched is not None:
            withdraw = self.waiting.close(watched, timeout_ms)
        else:
            gate.take(results)
        if ended.results is None:
            ended.is_parked = True
            park(partial(_withdrawn, gate, withdraw))
        return ended.results

    def _checks(self, key: TopicIdPartition, batch: Batch) -> Steps[Checked] | None:
        """The checks of a batch whose records take pieces; None for any other."""
        if is_small(batch):
            return None
        partition = self._partition_of(key)
        validator = None if isinstance(partition, ErrorCode) else partition.validator
        wall_ms = self._clock.wall_ms
        if validator is None or not validator.needs_records(batch.header, wall_ms):
            return None
        return validator.check_in_steps(batch, wall_ms)

    def _flush(self, key: TopicIdPartition, step: AppendStep, gate: FlushGate) -> None:
        """Hand out the flush that an append asks for, if it does."""
        if step.changed is not None:
            self._on_appended(key, partial(gate.wait, key))

    def _follow(self, key: TopicIdPartition, step: AppendStep) -> None:
        """Tell what an append did to its partition, or to its log directory."""
        if step.failure is not None:
            self._on_failure(key, step.failure)
        if step.changed is not None:
            self._followed(key, step.changed)

    def _answer_when_committed(self, request: _Produce, timeout_ms: int) -> Withdraw | None:
        statuses = {key: _awaited(result) for key, result in request.results.items()}
        produce = DelayedProduce(request, statuses, self._leader_of)
        return self.waiting.add(produce, statuses, timeout_ms)


def has_valid_acks(required_acks: int) -> bool:
    """True for the required acks of a Produce that are not INVALID_REQUIRED_ACKS."""
    return required_acks in _REQUIRED_ACKS


def _units(batch: Batch) -> int:
    """Cost of the append of a batch that is checked."""
    return PARTITION_UNITS + len(batch.buffer) // BYTES_PER_UNIT


def _refused(batches: Batches) -> AppendResults:
    return dict.fromkeys(batches, AppendResult(code=ErrorCode.invalid_required_acks))


def _awaited(result: AppendResult) -> AwaitedOffset:
    return AwaitedOffset(Offset(result.end_offset), result.code)


def _end(produce: DelayedProduce[_Produce]) -> None:
    produce.request.answer(_with_codes(produce.request.results, produce.results))


def _with_codes(
    results: AppendResults, codes: Mapping[TopicIdPartition, ErrorCode]
) -> AppendResults:
    return {
        key: msgspec.structs.replace(result, code=codes[key]) for key, result in results.items()
    }


def _withdrawn(gate: FlushGate, withdraw: Withdraw | None) -> None:
    gate.cancel()
    if withdraw is not None:
        withdraw()
