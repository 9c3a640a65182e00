"""Leader elections by request (ElectLeaders) and periodic ones of the controller.

The controller elects preferred leaders (`auto.leader.rebalance.enable`) and, for topics that allow
it, unclean leaders of partitions without one. Both start one interval after the first partition
needs it and work in turns of at most RECORDS_PER_SLICE_MAX records. As in Kafka with KRaft,
`leader.imbalance.per.broker.percentage` has no effect.
Source: apache/kafka: metadata/.../controller/ReplicationControlManager.java (electLeaders,
maybeBalancePartitionLeaders, maybeElectUncleanLeaders), QuorumController.java.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from metadata.image import Image, sorted_items
from quorum_controller.bodies import NO_TIME
from quorum_controller.config import ElectionIntervals
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.electorate import ElectionPolicy, unclean_election
from quorum_controller.partitions.partition_change import Election, Target, change_record
from quorum_controller.partitions.partition_index import Electorate, PartitionIndex
from quorum_controller.result import RECORDS_PER_BATCH_MAX, RECORDS_PER_SLICE_MAX, Draft
from quorum_controller.services import Services
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from wire.api_keys import ELECT_LEADERS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
"""Elections by the election type of the request."""
_UNAVAILABLE: Final = {
    Election.PREFERRED: ApiError(
        ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
    ),
    Election.UNCLEAN: ApiError(
        ErrorCode.eligible_leaders_not_available,
        "Eligible topic partition leaders are not available.",
    ),
}
_NOT_NEEDED: Final = ApiError(
    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
)
CANDIDATES_PER_SLICE_MAX: Final = 4_000
"""Partitions examined in one turn, whether a leader is elected or not."""


# --- ElectLeaders -------------------------------------------------------------------------------


def elect_leaders(
    draft: Draft, request: "ElectLeadersRequest", services: Services
) -> HandlerResult | ApiError:
    """Elect leaders of the requested partitions; a null list means every partition that needs one.

    Returns:
        An ElectLeadersResponse; ApiError INVALID_REQUEST for an unknown election type,
        POLICY_VIOLATION for more changes than one request may make.
    """
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        text = f"Unknown election type {request.election_type}"
        return ApiError(ErrorCode.invalid_request, text)
    is_everything = request.topic_partitions is None
    policy = services.electorate.policy()
    new = codec.newest(ELECT_LEADERS, "response")
    results = []
    for name, numbers in _asked(draft.image, request.topic_partitions):
        rows = []
        for number in numbers:
            error = _elect(draft, name, number, election, policy)
            if not is_everything or error is not _NOT_NEEDED:
                rows.append(_row(number, error))
            if len(draft.records) > RECORDS_PER_BATCH_MAX:
                return RECORDS_EXCEEDED
        results.append(new.ReplicaElectionResult(topic=name, partition_result=tuple(rows)))
    return HandlerResult(
        new.ElectLeadersResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            replica_election_results=tuple(results),
        )
    )


def elect_leaders_error(request: "ElectLeadersRequest", error: ApiError) -> Entity:
    """The response with the error at the top and for every partition of the request."""
    new = codec.newest(ELECT_LEADERS, "response")
    results = tuple(
        new.ReplicaElectionResult(
            topic=row.topic,
            partition_result=tuple(_row(number, error) for number in row.partitions),
        )
        for row in request.topic_partitions or ()
    )
    return new.ElectLeadersResponse(
        throttle_time=NO_TIME, error_code=error.code, replica_election_results=results
    )


def _asked(
    image: Image, wanted: "tuple[TopicPartitions, ...] | None"
) -> Iterable[tuple[str, Iterable[int]]]:
    if wanted is not None:
        for row in wanted:
            yield row.topic, row.partitions
        return
    for name, topic_id in sorted_items(image.topic_id_by_name):
        yield name, range(len(image.topics[topic_id].partitions))


def _elect(
    draft: Draft, name: str, number: int, election: Election, policy: ElectionPolicy
) -> ApiError | None:
    topic = draft.image.topic_named(name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        text = f"No such partition as {name}-{number}"
        return ApiError(ErrorCode.unknown_topic_or_partition, text)
    is_preferred = election is Election.PREFERRED
    if partition.has_preferred_leader if is_preferred else partition.has_leader:
        return _NOT_NEEDED
    key = (topic.topic_id, number)
    record = change_record(draft.image, key, Target(election=election), policy)
    if record is None:
        return _UNAVAILABLE[election]
    draft.emit(record)
    return None


def _row(number: int, error: ApiError | None) -> Entity:
    new = codec.newest(ELECT_LEADERS, "response")
    return new.PartitionResult(
        partition_id=number,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )


# --- periodic elections -------------------------------------------------------------------------


class _Round:
    """One kind of periodic election: its deadline and the partitions left in the current round."""

    __slots__ = ("deadline_ms", "election", "interval_ms", "remaining")

    def __init__(self, election: Election, interval_ms: int | None) -> None:
        self.election = election
        self.interval_ms = interval_ms
        self.deadline_ms: int | None = None
        self.remaining: deque[TopicIdPartition] = deque()


class ElectionTimer:
    """Timer of periodic elections, which runs them in turns."""

    def __init__(self, intervals: ElectionIntervals) -> None:
        self._rounds = (
            _Round(Election.PREFERRED, intervals.preferred_ms),
            _Round(Election.UNCLEAN, intervals.unclean_ms),
        )
        self.deadline_ms: int | None = None
        """Time to call `run`, None if no partition needs an election."""

    def observe(self, index: PartitionIndex, now_ms: int) -> None:
        """Start the timer of rounds that partitions need; to be called after every batch."""
        for round_ in self._rounds:
            needs = _waiting(index, round_.election)
            if needs and round_.deadline_ms is None and round_.interval_ms is not None:
                round_.deadline_ms = now_ms + round_.interval_ms
                self._note_deadline()

    def run(self, draft: Draft, electorate: Electorate, now_ms: int) -> None:
        """Run one turn of the first round that is due; its remainder is due at once."""
        for round_ in self._rounds:
            if round_.deadline_ms is None or round_.deadline_ms > now_ms:
                continue
            if not round_.remaining:
                round_.remaining = deque(sorted(_waiting(electorate.index, round_.election)))
            _elect_slice(draft, round_, electorate.policy())
            round_.deadline_ms = now_ms if round_.remaining else None
            self._note_deadline()
            return

    def _note_deadline(self) -> None:
        due_ms = [round_.deadline_ms for round_ in self._rounds if round_.deadline_ms is not None]
        self.deadline_ms = min(due_ms, default=None)


def _waiting(index: PartitionIndex, election: Election) -> set[TopicIdPartition]:
    return index.imbalanced if election is Election.PREFERRED else index.leaderless


def _elect_slice(draft: Draft, round_: _Round, policy: ElectionPolicy) -> None:
    remaining = round_.remaining
    for _ in range(min(len(remaining), CANDIDATES_PER_SLICE_MAX)):
        if len(draft.records) >= RECORDS_PER_SLICE_MAX:
            return
        candidate = remaining.popleft()
        topic_id, number = candidate
        partition = draft.image.partition(topic_id, number)
        if partition is None or partition.has_preferred_leader:
            continue
        if round_.election is Election.UNCLEAN:
            name = draft.image.topics[topic_id].name
            if partition.has_leader or not unclean_election(draft.image, name, policy):
                continue
        record = change_record(draft.image, candidate, Target(election=round_.election), policy)
        if record is not None:
            draft.emit(record)
