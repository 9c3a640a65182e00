"""Produce: appends to the partitions that this broker leads, and answers by `acks`.

There is no transaction coordinator yet, so that no transactional batch can be verified: it is
answered with NOT_ENOUGH_REPLICAS, as Kafka does while it cannot reach the coordinator.

apache/kafka: core/.../server/KafkaApis.scala (handleProduceRequest), ReplicaManager.scala
(handleProduceAppend)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from broker.apis.access import Access
from broker.apis.current_leaders import CurrentLeaders
from broker.apis.named_partitions import key_of, name_of
from broker.clients.call import Call
from broker_publisher.partition_view import INTERNAL_TOPICS
from metadata.image import Image
from quorum_controller.security.authorization import Operation, ResourceType
from replication.leader.appending import AppendResult
from replication.leader.flush_gate import AppendResults
from replication.replica_manager import ReplicaManager, has_valid_acks
from storage.logs.log_validator import RejectedError, parse_produced
from wire.batches.batch import Batch
from wire.errors import ErrorCode
from wire.messages.produce import PartitionAnswer, decode_produce_request, encode_produce_response
from wire.types import TopicIdPartition

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Client that may write to internal topics."""
_LEADER_VERSION: Final = 10
_NO_ACKS: Final = 0

_Name = tuple[str | bytes, int]
"""Topic as the request names it, and number of a partition."""


class _Appended(msgspec.Struct, frozen=True):
    """A partition to which a batch was given."""

    key: TopicIdPartition


class _Append(msgspec.Struct, frozen=True):
    """A batch for a partition that exists."""

    key: TopicIdPartition
    batch: Batch


_Parsed = Mapping[_Name, Batch | AppendResult]
_Rows = dict[_Name, _Append | AppendResult]
"""By partition of the request: what to append, or the refusal."""

_UNAUTHORIZED_ID: Final = AppendResult(
    code=ErrorCode.transactional_id_authorization_failed,
    message="Transactional Id authorization failed.",
)
_SEVERAL_PRODUCERS: Final = AppendResult(
    code=ErrorCode.invalid_producer_id_mapping,
    message="Transactional records contained more than one producer ID",
)
_UNVERIFIED: Final = AppendResult(
    code=ErrorCode.not_enough_replicas,
    message=(
        "Unable to verify the partition has been added to the transaction."
        " Underlying error: COORDINATOR_NOT_AVAILABLE"
    ),
)


class Produce:
    """Handler of Produce, versions 3 to 13.

    Args:
        manager: of the partitions.
        access: WRITE of each topic is asked for, and of the id of a transaction.
        image: returns the newest image.
    """

    def __init__(self, manager: ReplicaManager, access: Access, image: Callable[[], Image]) -> None:
        self._manager = manager
        self._access = access
        self._image = image

    def serve(self, call: Call) -> None:
        """Append; the answer waits for what the request asks for.

        Raises:
            RemoteProtocolError: the frame is no Produce request.
        """
        version, size_bytes = call.header.api_version, len(call.frame)
        request = decode_produce_request(version, call.frame, call.position)
        parsed = {
            (each.topic, each.partition): _parsed(each.records, version)
            for each in request.partitions
        }
        call.partition_count = len(parsed)
        if self._may_write(call, request.transactional_id, parsed):
            rows = _verified(self._rows(call, parsed, required_acks=request.acks))
        else:
            rows = dict.fromkeys(parsed, _UNAUTHORIZED_ID)
        appends = [row for row in rows.values() if isinstance(row, _Append)]
        known = {
            name: row if isinstance(row, AppendResult) else _Appended(row.key)
            for name, row in rows.items()
        }
        if not appends:
            self._answer(call, size_bytes, request.acks, known, {})
            return
        acks = request.acks  # the answer must not hold the request, whose records are in the frame
        withdraw = self._manager.append(
            {row.key: row.batch for row in appends},
            required_acks=acks,
            timeout_ms=request.timeout_ms,
            answer=lambda results: self._answer(call, size_bytes, acks, known, results),
        )
        call.park(withdraw)

    # -- the request ----------------------------------------------------------------------------

    def _may_write(self, call: Call, transactional_id: str | None, parsed: _Parsed) -> bool:
        """False for transactional batches without an id that the caller may write with."""
        if not any(
            isinstance(batch, Batch) and batch.header.is_transactional for batch in parsed.values()
        ):
            return True
        return transactional_id is not None and self._access.allows(
            call.caller, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )

    def _rows(self, call: Call, parsed: _Parsed, *, required_acks: int) -> _Rows:
        """The batches to append, and the refusals of the others."""
        image = self._image()
        allowed: dict[str, bool] = {}
        may_be_internal = call.header.client_id == ADMIN_CLIENT_ID
        rows: _Rows = {}
        for (topic, number), batch in parsed.items():
            name = name_of(image, topic)
            if name is None:
                rows[topic, number] = AppendResult(code=ErrorCode.unknown_topic_id)
                continue
            if name not in allowed:
                allowed[name] = self._access.allows_topic(call.caller, Operation.WRITE, name)
            key = key_of(image, name, number)
            if not allowed[name]:
                rows[topic, number] = AppendResult(code=ErrorCode.topic_authorization_failed)
            elif key is None:
                rows[topic, number] = AppendResult(code=ErrorCode.unknown_topic_or_partition)
            elif isinstance(batch, AppendResult):
                rows[topic, number] = batch
            elif name in INTERNAL_TOPICS and not may_be_internal and has_valid_acks(required_acks):
                rows[topic, number] = AppendResult(code=ErrorCode.invalid_topic_exception)
            else:
                rows[topic, number] = _Append(key, batch)
        return rows

    # -- the answer -----------------------------------------------------------------------------

    def _answer(
        self,
        call: Call,
        size_bytes: int,
        required_acks: int,
        known: Mapping[_Name, _Appended | AppendResult],
        results: AppendResults,
    ) -> None:
        found = {
            name: results[row.key] if isinstance(row, _Appended) else row
            for name, row in known.items()
        }
        throttle, throttle_ms = call.throttle, 0
        if throttle is not None:
            throttle_ms = throttle.produced(size_bytes, has_answer=required_acks != _NO_ACKS)
        if required_acks == _NO_ACKS:
            _end_without_answer(call, [each.code for each in found.values()])
            return
        version = call.header.api_version
        leaders = CurrentLeaders(self._image(), call.listener)
        by_topic: dict[str | bytes, list[PartitionAnswer]] = {}
        for (topic, number), result in found.items():
            leader = None
            call.count(result.code)
            if result.code is ErrorCode.not_leader_or_follower and version >= _LEADER_VERSION:
                row = known[topic, number]
                assert isinstance(row, _Appended), f"{row=} was refused by its leader"
                leader = leaders.name(row.key)
            by_topic.setdefault(topic, []).append(_row(topic, number, result, leader))
        rows = [row for of_topic in by_topic.values() for row in of_topic]
        call.answer_parts([encode_produce_response(version, rows, throttle_ms, leaders.endpoints)])


def _end_without_answer(call: Call, codes: Sequence[ErrorCode]) -> None:
    """End a request with acks=0: the connection is closed if a partition failed."""
    failed = sorted({code.name for code in codes if code is not ErrorCode.none})
    if not failed:
        call.answer_nothing()
        return
    for code in codes:
        call.count(code)
    call.answer_nothing(f"Produce with acks=0 failed: {', '.join(failed)}")


def _parsed(records: memoryview | None, version: int) -> Batch | AppendResult:
    try:
        return parse_produced(memoryview(b"") if records is None else records, version)
    except RejectedError as error:
        return AppendResult(
            code=error.code, record_errors=error.record_errors, message=error.message
        )


def _verified(rows: _Rows) -> _Rows:
    """The rows without transactional batches, which need a coordinator; all are of one producer."""
    transactional = {
        name: (row.batch.header.producer_id, row.batch.header.producer_epoch)
        for name, row in rows.items()
        if isinstance(row, _Append) and row.batch.header.is_transactional
    }
    if len(set(transactional.values())) > 1:
        return dict.fromkeys(rows, _SEVERAL_PRODUCERS)
    return rows | dict.fromkeys(transactional, _UNVERIFIED)


def _row(
    topic: str | bytes, number: int, result: AppendResult, leader: tuple[int, int] | None
) -> PartitionAnswer:
    return PartitionAnswer(
        topic=topic,
        partition=number,
        code=result.code,
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=tuple((each.batch_index, each.message) for each in result.record_errors),
        message=result.message,
        leader=leader,
    )
