"""DeleteRecords: raises log starts, and answers when every live replica has.

apache/kafka: core/.../server/KafkaApis.scala (handleDeleteRecordsRequest), ReplicaManager.scala
(deleteRecords)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.clients.call import Call
from broker_publisher.partition_view import INTERNAL_TOPICS
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from replication.leader.delayed import DeletedRecords
from replication.replica_manager import ReplicaManager
from wire.api_keys import DELETE_RECORDS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import TopicIdPartition, milliseconds

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest

NO_LOW_WATERMARK: Final = -1
_ROW_UNITS: Final = 7
"""Cost of a partition."""

Rows = dict[str, dict[int, TopicIdPartition | DeletedRecords]]
"""By topic name and partition: the key of one whose records are to be deleted, or its result."""


class DeleteRecords:
    """Handler of DeleteRecords, versions 0 to 2.

    Args:
        partitions: of this broker.
        access: DELETE of each topic is asked for.
        manager: of the partitions.
    """

    def __init__(
        self, partitions: NamedPartitions, access: Access, manager: ReplicaManager
    ) -> None:
        self._partitions = partitions
        self._access = access
        self._manager = manager

    def serve(self, call: Call) -> None:
        """Answer a request, maybe later."""
        body: DeleteRecordsRequest = call.body()
        rows: Rows = {}
        offsets: dict[TopicIdPartition, int] = {}
        for topic in body.topics:
            name = str(topic.name)
            found = rows.setdefault(name, {})
            is_allowed = self._access.allows_topic(call.caller, Operation.DELETE, name)
            for asked in topic.partitions:
                row = self._row(name, asked.partition_index, is_allowed=is_allowed)
                found[asked.partition_index] = row
                if not isinstance(row, DeletedRecords):
                    offsets[row] = asked.offset
            call.units += len(topic.partitions) * _ROW_UNITS
        withdraw = self._manager.delete_records(
            offsets,
            timeout_ms=milliseconds(body.timeout),
            answer=lambda results: _answer(call, rows, results),
        )
        call.park(withdraw)

    def _row(
        self, topic: str, number: int, *, is_allowed: bool
    ) -> TopicIdPartition | DeletedRecords:
        if not is_allowed:
            return DeletedRecords(ErrorCode.topic_authorization_failed)
        key = self._partitions.key_of(topic, number)
        if key is None:
            return DeletedRecords(ErrorCode.unknown_topic_or_partition)
        if topic in INTERNAL_TOPICS:
            return DeletedRecords(ErrorCode.invalid_topic_exception)
        return key


def _answer(call: Call, rows: Rows, results: Mapping[TopicIdPartition, DeletedRecords]) -> None:
    new = codec.newest(DELETE_RECORDS, "response")
    topics = []
    for name, found in rows.items():
        partitions = []
        for number, row in found.items():
            result = row if isinstance(row, DeletedRecords) else results[row]
            low_watermark = result.low_watermark
            partitions.append(
                new.DeleteRecordsPartitionResult(
                    partition_index=number,
                    low_watermark=NO_LOW_WATERMARK if low_watermark is None else low_watermark,
                    error_code=result.code,
                )
            )
        topics.append(new.DeleteRecordsTopicResult(name=name, partitions=tuple(partitions)))
    call.answer(new.DeleteRecordsResponse(throttle_time=NO_TIME, topics=tuple(topics)))
