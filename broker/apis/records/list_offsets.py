"""ListOffsets: offsets of partitions by time, and of their ends.

apache/kafka: core/.../server/KafkaApis.scala (handleListOffsetRequest), ReplicaManager.scala
(fetchOffset)
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions, known_epoch
from broker.clients.call import PIECE_UNITS, Call
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from replication.reading import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from storage.errors import CorruptLogError
from storage.logs.unified_log import FetchIsolation
from storage.segments.timestamp_lookup import TimestampAndOffset
from wire.api_keys import LIST_OFFSETS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.steps import Steps
from wire.types import TopicIdPartition

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest

LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
VERSION_MIN_BY_TIMESTAMP: Final = {
    EARLIEST: 1,
    LATEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The last two name offsets of remote storage; without it there are none, which is no error."""
OFFSET_NOT_AVAILABLE_VERSION_MIN: Final = 5
"""Older clients get LEADER_NOT_AVAILABLE."""
CONSUMER: Final = -1
DEBUGGING: Final = -2
"""Replica id of a reader that a follower may answer too."""
_TOPIC_UNITS: Final = 2
"""Cost of a topic of a request."""
_ROW_UNITS: Final = 6
"""Cost of a partition whose log is not read."""
_COUNTED: Final = 128
"""Partitions that are counted before the units are asked again."""
_COUNTED_PER_UNIT: Final = 2
_ISOLATIONS: Final = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}


class ListOffsets:
    """Handler of ListOffsets, versions 1 to 11.

    Args:
        partitions: of this broker.
        access: DESCRIBE of each topic is asked for.
        on_failure: called with a partition whose log directory failed, and the error.
    """

    def __init__(
        self,
        partitions: NamedPartitions,
        access: Access,
        on_failure: Callable[[TopicIdPartition, Exception], None],
    ) -> None:
        self._partitions = partitions
        self._access = access
        self._on_failure = on_failure

    def serve(self, call: Call) -> None:
        """Answer a request, a large one over turns."""
        call.answer_from(self._answer(call, call.body()))

    def _answer(self, call: Call, body: "ListOffsetsRequest") -> Steps[Entity]:
        counts = yield from self._counts(call, body)
        isolation, is_leader_only = _isolation(body), body.replica_id != DEBUGGING
        rows: dict[str, dict[int, Entity]] = {}
        for topic in body.topics:
            name = str(topic.name)
            found_of_topic = rows.setdefault(name, {})
            if call.units >= PIECE_UNITS:
                yield call.take_units()
            is_allowed = self._access.allows_topic(call.caller, Operation.DESCRIBE, name)
            call.units += _TOPIC_UNITS
            for asked in topic.partitions:
                if call.units >= PIECE_UNITS:
                    yield call.take_units()
                    is_allowed = self._access.allows_topic(call.caller, Operation.DESCRIBE, name)
                call.units += _ROW_UNITS
                number = asked.partition_index
                found: TimestampAndOffset | ErrorCode | None
                if not is_allowed:
                    found = ErrorCode.topic_authorization_failed
                elif counts[name, number] > 1:
                    found = ErrorCode.invalid_request
                elif isolation is None:
                    found = ErrorCode.unknown_server_error
                else:
                    found = self._find(call, name, asked, isolation, is_leader_only=is_leader_only)
                found_of_topic[number] = _row(number, found)
        new = codec.newest(LIST_OFFSETS, "response")
        return new.ListOffsetsResponse(
            throttle_time=NO_TIME,
            topics=tuple(
                new.ListOffsetsTopicResponse(name=name, partitions=tuple(found.values()))
                for name, found in rows.items()
                if found
            ),
        )

    def _counts(self, call: Call, body: "ListOffsetsRequest") -> Steps[Counter[tuple[str, int]]]:
        """Count how often each partition is asked for."""
        counts = Counter[tuple[str, int]]()
        for topic in body.topics:
            name, partitions = str(topic.name), topic.partitions
            for start in range(0, len(partitions), _COUNTED):
                some = partitions[start : start + _COUNTED]
                counts.update((name, asked.partition_index) for asked in some)
                call.units += -(-len(some) // _COUNTED_PER_UNIT)
                if call.units >= PIECE_UNITS:
                    yield call.take_units()
        return counts

    def _find(
        self,
        call: Call,
        topic: str,
        asked: "ListOffsetsPartition",
        isolation: FetchIsolation,
        *,
        is_leader_only: bool,
    ) -> TimestampAndOffset | ErrorCode | None:
        version = call.header.api_version
        timestamp_ms, number = int(asked.timestamp), int(asked.partition_index)
        version_min = VERSION_MIN_BY_TIMESTAMP.get(timestamp_ms)
        if timestamp_ms < 0 and (version_min is None or version < version_min):
            return ErrorCode.unsupported_version
        partition = self._partitions.find(topic, number)
        if isinstance(partition, ErrorCode):
            return partition
        epoch = known_epoch(asked.current_leader_epoch)
        try:
            found = partition.offset_for_timestamp(
                timestamp_ms, isolation, epoch, is_leader_only=is_leader_only, spend=call.spend
            )
        except CorruptLogError:
            return ErrorCode.corrupt_message
        except OSError as error:
            key = self._partitions.key_of(topic, number)
            assert key is not None, "the partition was found"
            self._on_failure(key, error)
            return ErrorCode.kafka_storage_error
        is_old = version < OFFSET_NOT_AVAILABLE_VERSION_MIN
        if found is ErrorCode.offset_not_available and is_old:
            return ErrorCode.leader_not_available
        return found


def _isolation(body: "ListOffsetsRequest") -> FetchIsolation | None:
    """Isolation of the reader, all for replicas; None for a level that does not exist."""
    if body.replica_id != CONSUMER:
        return FetchIsolation.LOG_END
    return _ISOLATIONS.get(body.isolation_level)


def _row(number: int, found: TimestampAndOffset | ErrorCode | None) -> Entity:
    """The row of a partition; -1 in all fields where nothing was found."""
    new = codec.newest(LIST_OFFSETS, "response")
    if not isinstance(found, TimestampAndOffset):
        return new.ListOffsetsPartitionResponse(
            partition_index=number, error_code=found or ErrorCode.none
        )
    return new.ListOffsetsPartitionResponse(
        partition_index=number,
        error_code=ErrorCode.none,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )
