"""Produce: appends to the partitions that this broker leads, and answers by `acks`.

There is no transaction coordinator yet, so that no transactional batch can be verified: it is
answered with NOT_ENOUGH_REPLICAS, as Kafka does while it cannot reach the coordinator.

apache/kafka: core/.../server/KafkaApis.scala (handleProduceRequest), ReplicaManager.scala
(handleProduceAppend)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from replication.leader.appends import has_valid_acks
from replication.leader.flush_gate import AppendResults
from replication.replica_manager import ReplicaManager
from storage.logs.log_validator import RejectedError
from storage.logs.produced_records import parse_produced
from wire.batches.batch import Batch
from wire.errors import ErrorCode
from wire.messages.produce import (
    PIECE,
    PartitionAnswer,
    ProducedPartition,
    ProduceRequest,
    read_produce_request,
    write_produce_response,
)
from wire.steps import Steps, finished, result_of_one_piece
from wire.types import TopicIdPartition

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Client that may write to internal topics."""
SMALL_MAX: Final = 16
"""Partitions up to which a request is one piece, if its batches are small."""
_ROW_UNITS: Final = 6
"""Cost of a partition whose batch is looked at."""
_ANSWER_UNITS: Final = 2
"""Cost of a partition of an answer."""
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
_Known = dict[_Name, _Appended | AppendResult]
"""The same behind the append, without the batches."""


class _Terms(msgspec.Struct, frozen=True):
    """A request without its records."""

    size_bytes: int
    required_acks: int
    timeout_ms: int


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
        version = call.header.api_version
        reading = read_produce_request(version, call.frame, call.position)
        request = result_of_one_piece(reading)
        if request is None:
            call.go_on(self._large(call, reading))
            return
        if len(request.partitions) > SMALL_MAX:
            call.go_on(self._in_steps(call, request))
            return
        parsed = _parsed(request.partitions, version)
        rows = self._rows(call, parsed, required_acks=request.acks)
        if _is_transactional(parsed):
            rows = self._verified(call, request.transactional_id, rows)
        batches, known = _divided(rows)
        terms = _Terms(len(call.frame), request.acks, request.timeout_ms)
        if batches and self._manager.takes_pieces(batches):
            call.go_on(self._append_in_steps(call, terms, batches, known))
            return
        call.partition_count = len(parsed)
        if not batches:
            finished(self._answer(call, terms, known, {}))
            return
        withdraw = self._manager.append(
            batches,
            required_acks=terms.required_acks,
            timeout_ms=terms.timeout_ms,
            # it must not hold the request, whose records are in the frame
            answer=lambda results: finished(self._answer(call, terms, known, results)),
        )
        call.park(withdraw)

    # -- in pieces ------------------------------------------------------------------------------

    def _large(self, call: Call, reading: Steps[ProduceRequest]) -> Steps[None]:
        """Serve a request of which a piece is read."""
        request = yield from reading
        yield from self._in_steps(call, request)

    def _in_steps(self, call: Call, request: ProduceRequest) -> Steps[None]:
        """Serve a request with many partitions."""
        version, is_transactional = call.header.api_version, False
        rows: _Rows = {}
        for start in range(0, len(request.partitions), PIECE):
            parsed = _parsed(request.partitions[start : start + PIECE], version)
            is_transactional |= _is_transactional(parsed)
            rows |= self._rows(call, parsed, required_acks=request.acks)
            yield len(parsed) * _ROW_UNITS
        if is_transactional:
            rows = self._verified(call, request.transactional_id, rows)
        batches, known = _divided(rows)
        yield len(rows)
        terms = _Terms(len(call.frame), request.acks, request.timeout_ms)
        yield from self._append_in_steps(call, terms, batches, known)

    def _append_in_steps(
        self, call: Call, terms: _Terms, batches: Mapping[TopicIdPartition, Batch], known: _Known
    ) -> Steps[None]:
        """Append in pieces, and answer."""
        results = yield from self._manager.append_in_steps(
            batches,
            required_acks=terms.required_acks,
            timeout_ms=terms.timeout_ms,
            park=call.park,
            resume=lambda results: call.go_on(self._answer(call, terms, known, results)),
        )
        if results is not None:
            yield from self._answer(call, terms, known, results)

    # -- the request ----------------------------------------------------------------------------

    def _verified(self, call: Call, transactional_id: str | None, rows: _Rows) -> _Rows:
        """The rows of a request with transactional batches, which need a coordinator.

        Its id is one that the caller may write with, and all batches are of one producer.
        """
        if transactional_id is None or not self._access.allows(
            call.caller, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            return dict.fromkeys(rows, _UNAUTHORIZED_ID)
        transactional = {
            name: (row.batch.header.producer_id, row.batch.header.producer_epoch)
            for name, row in rows.items()
            if isinstance(row, _Append) and row.batch.header.is_transactional
        }
        if len(set(transactional.values())) > 1:
            return dict.fromkeys(rows, _SEVERAL_PRODUCERS)
        return rows | dict.fromkeys(transactional, _UNVERIFIED)

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
        self, call: Call, terms: _Terms, known: _Known, results: AppendResults
    ) -> Steps[None]:
        found = {
            name: results[row.key] if isinstance(row, _Appended) else row
            for name, row in known.items()
        }
        has_answer = terms.required_acks != _NO_ACKS
        throttle, throttle_ms = call.throttle, 0
        if throttle is not None:
            throttle_ms = throttle.produced(terms.size_bytes, has_answer=has_answer)
        if not has_answer:
            _end_without_answer(call, [each.code for each in found.values()])
            return
        version = call.header.api_version
        leaders = CurrentLeaders(self._image(), call.listener)
        by_topic: dict[str | bytes, list[PartitionAnswer]] = {}
        for count, ((topic, number), result) in enumerate(found.items(), 1):
            leader = None
            call.count(result.code)
            if result.code is ErrorCode.not_leader_or_follower and version >= _LEADER_VERSION:
                row = known[topic, number]
                assert isinstance(row, _Appended), f"{row=} was refused by its leader"
                leader = leaders.name(row.key)
            by_topic.setdefault(topic, []).append(_row(topic, number, result, leader))
            if count % PIECE == 0:
                yield PIECE * _ANSWER_UNITS
        rows = [row for of_topic in by_topic.values() for row in of_topic]
        body = yield from write_produce_response(version, rows, throttle_ms, leaders.endpoints)
        call.answer_parts([body])


def _end_without_answer(call: Call, codes: Sequence[ErrorCode]) -> None:
    """End a request with acks=0: the connection is closed if a partition failed."""
    failed = sorted({code.name for code in codes if code is not ErrorCode.none})
    if not failed:
        call.answer_nothing()
        return
    for code in codes:
        call.count(code)
    call.answer_nothing(f"Produce with acks=0 failed: {', '.join(failed)}")


def _parsed(partitions: Iterable[ProducedPartition], version: int) -> _Parsed:
    return {
        (each.topic, each.partition): _parsed_batch(each.records, version) for each in partitions
    }


def _parsed_batch(records: memoryview | None, version: int) -> Batch | AppendResult:
    try:
        return parse_produced(memoryview(b"") if records is None else records, version)
    except RejectedError as error:
        return AppendResult(
            code=error.code, record_errors=error.record_errors, message=error.message
        )


def _is_transactional(parsed: _Parsed) -> bool:
    return any(
        isinstance(batch, Batch) and batch.header.is_transactional for batch in parsed.values()
    )


def _divided(rows: _Rows) -> tuple[dict[TopicIdPartition, Batch], _Known]:
    """The batches to append, and what holds none of them: each partition or its refusal."""
    batches: dict[TopicIdPartition, Batch] = {}
    known: _Known = {}
    for name, row in rows.items():
        if isinstance(row, AppendResult):
            known[name] = row
        else:
            batches[row.key] = row.batch
            known[name] = _Appended(row.key)
    return batches, known


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
