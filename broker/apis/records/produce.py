"""Produce: appends to the partitions that this broker leads, and answers by `acks`.

Transactional batches wait until the coordinator has said that their partitions are in the
transaction, or has added them (version 12 and later). Meanwhile later requests of the connection
wait too: as in Kafka, a batch does not overtake the one before.

apache/kafka: core/.../server/KafkaApis.scala (handleProduceRequest), ReplicaManager.scala
(handleProduceAppend), 4.3
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from broker.apis.access import Access
from broker.apis.named_partitions import key_of, name_of
from broker.apis.records.current_leaders import CurrentLeaders
from broker.clients.call import Call
from broker.coordinators.verification import (
    Errors,
    Inquiry,
    Question,
    TransactionVerifier,
    operation_of,
)
from broker_publisher.partition_view import INTERNAL_TOPICS
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.metadata import TopicPartition
from metadata.image import Image
from network.clock import Clock
from quorum_controller.security.authorization import Operation, ResourceType
from replication.leader.appending import AppendResult
from replication.leader.appends import NO_GUARDS, has_valid_acks
from replication.leader.flush_gate import AppendResults
from replication.leader.waiting import Withdraw
from replication.replica_manager import ReplicaManager
from storage.logs.log_validator import RejectedError
from storage.logs.produced_records import parse_produced
from storage.producers.producer_state import ProducerStateError
from storage.producers.verification import VerificationGuard
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


_Guards = Mapping[TopicIdPartition, VerificationGuard]
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
    transactional_id: str | None


_UNAUTHORIZED_ID: Final = AppendResult(
    code=ErrorCode.transactional_id_authorization_failed,
    message="Transactional Id authorization failed.",
)
_SEVERAL_PRODUCERS: Final = AppendResult(
    code=ErrorCode.invalid_producer_id_mapping,
    message="Transactional records contained more than one producer ID",
)
_NOT_ADDED: Final = AppendResult(
    code=ErrorCode.invalid_txn_state, message="Partition was not added to the transaction"
)
_NOT_REACHED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Errors of a coordinator that a client of Produce does not know, and comes again for another."""


class Produce:
    """Handler of Produce, versions 3 to 13.

    Args:
        manager: of the partitions.
        access: WRITE of each topic is asked for, and of the id of a transaction.
        image: returns the newest image.
        verifier: asks coordinators of transactions.
        clock: of the broker.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        access: Access,
        image: Callable[[], Image],
        *,
        verifier: TransactionVerifier,
        clock: Clock,
    ) -> None:
        self._manager = manager
        self._access = access
        self._image = image
        self._verifier = verifier
        self._clock = clock

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
        terms = _terms(call, request)
        if _is_transactional(parsed):
            rows = self._of_one_producer(call, request.transactional_id, rows)
            if self._verifies(call, terms, rows):
                return
        call.park(self._append(call, terms, rows))

    def _append(
        self, call: Call, terms: _Terms, rows: _Rows, guards: _Guards = NO_GUARDS
    ) -> Withdraw | None:
        """Append what is not refused, maybe in pieces; the end of a wait, None if there is none."""
        batches, known = _divided(rows)
        if batches and self._manager.takes_pieces(batches):
            call.go_on(self._append_in_steps(call, terms, batches, known, guards))
            return None
        call.partition_count = len(rows)
        if not batches:
            finished(self._answer(call, terms, known, {}))
            return None
        return self._manager.append(
            batches,
            required_acks=terms.required_acks,
            timeout_ms=terms.timeout_ms,
            # it must not hold the request, whose records are in the frame
            answer=lambda results: finished(self._answer(call, terms, known, results)),
            guards=guards,
        )

    # -- transactions ---------------------------------------------------------------------------

    def _of_one_producer(self, call: Call, transactional_id: str | None, rows: _Rows) -> _Rows:
        """The rows of a request with transactional batches.

        Its id is one that the caller may write with, and all batches are of one producer.
        """
        if transactional_id is None or not self._access.allows(
            call.caller, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            return dict.fromkeys(rows, _UNAUTHORIZED_ID)
        producers = {
            (row.batch.header.producer_id, row.batch.header.producer_epoch)
            for row in rows.values()
            if isinstance(row, _Append) and _has_transaction(row.batch)
        }
        return dict.fromkeys(rows, _SEVERAL_PRODUCERS) if len(producers) > 1 else rows

    def _verifies(self, call: Call, terms: _Terms, rows: _Rows) -> bool:
        """Ask the coordinator, and append then; False if nothing is to be asked.

        Later requests of the connection wait until the append.
        """
        operation = operation_of(call.header.api_version)
        guards = self._guards(rows, bumps=operation is Inquiry.ADD_PARTITION)
        if not guards:
            return False
        image, names = self._image(), dict[TopicPartition, _Name]()
        producer = ProducerIdAndEpoch(-1, -1)
        for name, row in rows.items():
            if isinstance(row, _Append) and row.key in guards:
                header = row.batch.header
                producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                names[image.topics[row.key[0]].name, row.key[1]] = name
        assert terms.transactional_id is not None, "others are refused"
        release = call.hold()

        def verified(errors: Errors) -> None:
            for partition, code in errors.items():
                rows[names[partition]] = _unverified(code, operation)
            withdraw = self._append(call, terms, rows, guards)
            call.park(withdraw)
            release(withdraw)

        question = Question(terms.transactional_id, producer, frozenset(names), operation)
        self._verifier.ask(question, verified)
        return True

    def _guards(self, rows: _Rows, *, bumps: bool) -> _Guards:
        """Begin the verifications that are needed; a row that may not be written is refused."""
        guards: dict[TopicIdPartition, VerificationGuard] = {}
        for name, row in rows.items():
            if not isinstance(row, _Append) or not _has_transaction(row.batch):
                continue
            partition = self._manager.partition_of(row.key)
            if isinstance(partition, ErrorCode):
                continue  # the append is refused for it
            try:
                guard = partition.begin_verification(
                    row.batch.header, self._clock.wall_ms, supports_epoch_bump=bumps
                )
            except ProducerStateError as error:
                rows[name] = AppendResult(code=error.code)
            else:
                if isinstance(guard, VerificationGuard):
                    guards[row.key] = guard
        return guards

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
        terms = _terms(call, request)
        if is_transactional:
            rows = self._of_one_producer(call, request.transactional_id, rows)
            if self._verifies(call, terms, rows):
                return
        batches, known = _divided(rows)
        yield len(rows)
        yield from self._append_in_steps(call, terms, batches, known)

    def _append_in_steps(
        self,
        call: Call,
        terms: _Terms,
        batches: Mapping[TopicIdPartition, Batch],
        known: _Known,
        guards: _Guards = NO_GUARDS,
    ) -> Steps[None]:
        """Append in pieces, and answer."""
        results = yield from self._manager.append_in_steps(
            batches,
            required_acks=terms.required_acks,
            timeout_ms=terms.timeout_ms,
            park=call.park,
            resume=lambda results: call.go_on(self._answer(call, terms, known, results)),
            guards=guards,
        )
        if results is not None:
            yield from self._answer(call, terms, known, results)

    # -- the request ----------------------------------------------------------------------------

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


def _has_transaction(batch: Batch) -> bool:
    """True for a transactional batch of a producer; without one Kafka verifies nothing."""
    return batch.header.is_transactional and batch.header.producer_id >= 0


def _parsed_batch(records: memoryview | None, version: int) -> Batch | AppendResult:
    try:
        return parse_produced(memoryview(b"") if records is None else records, version)
    except RejectedError as error:
        return AppendResult(
            code=error.code, record_errors=error.record_errors, message=error.message
        )


def _unverified(code: ErrorCode, operation: Inquiry) -> AppendResult:
    """The refusal of a partition that the coordinator did not say yes to."""
    is_ending = code is ErrorCode.concurrent_transactions
    if code is ErrorCode.invalid_txn_state:
        return _NOT_ADDED
    if code in _NOT_REACHED or (is_ending and operation is not Inquiry.ADD_PARTITION):
        text = "Unable to verify the partition has been added to the transaction. Underlying error:"
        return AppendResult(
            code=ErrorCode.not_enough_replicas, message=f"{text} {code.name.upper()}"
        )
    return AppendResult(code=code)


def _terms(call: Call, request: ProduceRequest) -> _Terms:
    return _Terms(len(call.frame), request.acks, request.timeout_ms, request.transactional_id)


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
