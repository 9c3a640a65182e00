"""OffsetForLeaderEpoch: the end of a leader epoch, by which a reader finds what to truncate.

apache/kafka: core/.../server/KafkaApis.scala (handleOffsetForLeaderEpochRequest),
ReplicaManager.scala (lastOffsetForLeaderEpoch); KIP-101, KIP-320
"""

from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions, known_epoch
from broker.clients.call import PIECE_UNITS, Call
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from wire.api_keys import OFFSET_FOR_LEADER_EPOCH
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.steps import Steps
from wire.types import LeaderEpoch, OffsetAndEpoch

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

_TOPIC_UNITS: Final = 3
"""Cost of a topic of a request."""
_ROW_UNITS: Final = 6
"""Cost of a partition."""


class OffsetForLeaderEpoch:
    """Handler of OffsetForLeaderEpoch, versions 2 to 4.

    Args:
        partitions: of this broker.
        access: CLUSTER_ACTION is asked for, or DESCRIBE of each topic.
    """

    def __init__(self, partitions: NamedPartitions, access: Access) -> None:
        self._partitions = partitions
        self._access = access

    def serve(self, call: Call) -> None:
        """Answer a request, a large one over turns."""
        call.answer_from(self._answer(call, call.body()))

    def _answer(self, call: Call, body: "OffsetForLeaderEpochRequest") -> Steps[Entity]:
        new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "response")
        topics = []
        for topic in body.topics:
            name = str(topic.topic)
            if call.units >= PIECE_UNITS:
                yield call.take_units()
            is_allowed = self._is_allowed(call, name)
            call.units += _TOPIC_UNITS
            rows: list[Entity] = []
            for asked in topic.partitions:
                if call.units >= PIECE_UNITS:
                    yield call.take_units()
                    is_allowed = self._is_allowed(call, name)
                call.units += _ROW_UNITS
                found: OffsetAndEpoch | ErrorCode | None = ErrorCode.topic_authorization_failed
                if is_allowed:
                    found = self._end_of_epoch(name, asked)
                rows.append(_row(asked.partition, found))
            topics.append(new.OffsetForLeaderTopicResult(topic=name, partitions=tuple(rows)))
        return new.OffsetForLeaderEpochResponse(throttle_time=NO_TIME, topics=tuple(topics))

    def _is_allowed(self, call: Call, topic: str) -> bool:
        access, caller = self._access, call.caller
        return access.allows_cluster(caller, Operation.CLUSTER_ACTION) or access.allows_topic(
            caller, Operation.DESCRIBE, topic
        )

    def _end_of_epoch(
        self, topic: str, asked: "OffsetForLeaderPartition"
    ) -> OffsetAndEpoch | ErrorCode | None:
        partition = self._partitions.find(topic, asked.partition)
        if isinstance(partition, ErrorCode):
            return partition
        return partition.end_of_epoch(
            known_epoch(asked.current_leader_epoch),
            LeaderEpoch(asked.leader_epoch),
            is_leader_only=True,
        )


def _row(number: int, found: OffsetAndEpoch | ErrorCode | None) -> Entity:
    """The row of a partition; epoch and end are -1 beside an error, and if they are not known."""
    new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "response")
    if not isinstance(found, OffsetAndEpoch):
        return new.EpochEndOffset(partition=number, error_code=found or ErrorCode.none)
    return new.EpochEndOffset(
        partition=number,
        error_code=ErrorCode.none,
        leader_epoch=found.epoch,
        end_offset=found.offset,
    )
