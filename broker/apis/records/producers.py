"""DescribeProducers: the producers whose state a replica keeps, with their open transactions.

A follower answers too, with what it has: a tool that names a broker compares replicas.

apache/kafka: core/.../server/KafkaApis.scala (handleDescribeProducersRequest),
core/.../cluster/Partition.scala (activeProducerState); KIP-664
"""

from typing import TYPE_CHECKING, Final

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.clients.call import PIECE_UNITS, Call
from metadata.topic_names import illegal_topic_name
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from storage.logs.unified_log import UnifiedLog
from storage.producers.producer_entry import ProducerStateEntry
from wire.api_keys import DESCRIBE_PRODUCERS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.steps import Steps

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest

_TOPIC_UNITS: Final = 4
"""Cost of a topic of a request."""
_ROW_UNITS: Final = 6
"""Cost of a partition without its producers."""
_PRODUCERS: Final = 32
"""Producers whose rows are made before the units are asked again."""
_PRODUCER_UNITS: Final = 2
_LISTED_PER_UNIT: Final = 50


class DescribeProducers:
    """Handler of DescribeProducers.

    Args:
        partitions: of this broker.
        access: READ of each topic is asked for.
    """

    def __init__(self, partitions: NamedPartitions, access: Access) -> None:
        self._partitions = partitions
        self._access = access

    def serve(self, call: Call) -> None:
        """Answer a request, a large one over turns."""
        call.answer_from(self._answer(call, call.body()))

    def _answer(self, call: Call, body: "DescribeProducersRequest") -> Steps[Entity]:
        new = codec.newest(DESCRIBE_PRODUCERS, "response")
        topics = []
        for topic in body.topics:
            name = str(topic.name)
            if call.units >= PIECE_UNITS:
                yield call.take_units()
            error = self._topic_error(call, name)
            call.units += _TOPIC_UNITS
            rows: list[Entity] = []
            for number in topic.partition_indexes:
                if call.units >= PIECE_UNITS:
                    yield call.take_units()
                    error = self._topic_error(call, name)
                call.units += _ROW_UNITS
                row = yield from self._row(call, name, number, error)
                rows.append(row)
            topics.append(new.TopicResponse(name=name, partitions=tuple(rows)))
        return new.DescribeProducersResponse(throttle_time=NO_TIME, topics=tuple(topics))

    def _topic_error(self, call: Call, name: str) -> ApiError | None:
        text = illegal_topic_name(name)
        if text is not None:
            return ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {text}")
        if not self._access.allows_topic(call.caller, Operation.READ, name):
            return ApiError(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
        if not self._partitions.has_topic(name):
            return ApiError(
                ErrorCode.unknown_topic_or_partition,
                "This server does not host this topic-partition.",
            )
        return None

    def _row(self, call: Call, topic: str, number: int, error: ApiError | None) -> Steps[Entity]:
        """The row of a partition; of many producers it is made in pieces, each asks for it anew."""
        log = self._log(topic, number) if error is None else error
        if isinstance(log, ApiError):
            return _error_row(number, log)
        entries = list(log.producers.entries())
        call.units += len(entries) // _LISTED_PER_UNIT
        states: list[Entity] = []
        for start in range(0, len(entries), _PRODUCERS):
            if call.units >= PIECE_UNITS:
                yield call.take_units()
                now = self._topic_error(call, topic) or self._log(topic, number)
                if isinstance(now, ApiError):
                    return _error_row(number, now)
            some = entries[start : start + _PRODUCERS]
            states += map(_state, some)
            call.units += len(some) * _PRODUCER_UNITS
        new = codec.newest(DESCRIBE_PRODUCERS, "response")
        return new.PartitionResponse(
            partition_index=number, error_code=ErrorCode.none, active_producers=tuple(states)
        )

    def _log(self, topic: str, number: int) -> UnifiedLog | ApiError:
        partition = self._partitions.find(topic, number)
        if isinstance(partition, ErrorCode):
            return ApiError(partition)
        log = partition.local_log(None, is_leader_only=False)
        return ApiError(log) if isinstance(log, ErrorCode) else log


def _error_row(number: int, error: ApiError) -> Entity:
    new = codec.newest(DESCRIBE_PRODUCERS, "response")
    return new.PartitionResponse(
        partition_index=number,
        error_code=error.code,
        error_message=error.message,
        active_producers=(),
    )


def _state(entry: ProducerStateEntry) -> Entity:
    new = codec.newest(DESCRIBE_PRODUCERS, "response")
    return new.ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_transaction_first_offset,
    )
