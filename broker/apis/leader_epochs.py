"""OffsetForLeaderEpoch: the end of a leader epoch, by which a reader finds what to truncate.

apache/kafka: core/.../server/KafkaApis.scala (handleOffsetForLeaderEpochRequest),
ReplicaManager.scala (lastOffsetForLeaderEpoch); KIP-101, KIP-320
"""

from typing import TYPE_CHECKING

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions, known_epoch
from broker.clients.call import Call
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from wire.api_keys import OFFSET_FOR_LEADER_EPOCH
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import LeaderEpoch, OffsetAndEpoch

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


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
        """Answer a request."""
        call.answer(self._answer(call, call.body()))

    def _answer(self, call: Call, body: "OffsetForLeaderEpochRequest") -> Entity:
        new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "response")
        is_broker = self._access.allows_cluster(call.caller, Operation.CLUSTER_ACTION)
        topics = []
        for topic in body.topics:
            name = str(topic.topic)
            is_allowed = is_broker or self._access.allows_topic(
                call.caller, Operation.DESCRIBE, name
            )
            rows = tuple(
                _row(
                    asked.partition,
                    self._end_of_epoch(name, asked)
                    if is_allowed
                    else ErrorCode.topic_authorization_failed,
                )
                for asked in topic.partitions
            )
            topics.append(new.OffsetForLeaderTopicResult(topic=name, partitions=rows))
        return new.OffsetForLeaderEpochResponse(throttle_time=NO_TIME, topics=tuple(topics))

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
