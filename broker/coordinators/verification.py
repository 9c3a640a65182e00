"""Questions of leaders to coordinators of transactions: is a partition in the transaction?

A client of transaction.version 2 does not add partitions itself: the question adds them. All that
waits for a coordinator goes in one request, one at a time; a transactional id is in it once.

    INV-TV-1  a question is answered once: by a coordinator, by the lack of one, or by a newer epoch

apache/kafka: server/.../transaction/AddPartitionsToTxnManager.java,
core/.../server/ReplicaManager.scala (maybeSendPartitionsToTransactionCoordinator), 4.3
"""

from collections.abc import Callable, Mapping
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, cast

import msgspec

from broker.coordinators.broker_requests import Answered
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.metadata import TopicPartition
from metadata.image import Image
from network.clock import Clock
from network.peers import Failure
from wire.api_keys import ADD_PARTITIONS_TO_TXN
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Body, Entity
from wire.types import NodeId

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse

Errors = Mapping[TopicPartition, ErrorCode]
SendToBroker = Callable[[NodeId, int, Body, Answered], None]


class Inquiry(Enum):
    """Kind of a question, by the version of the request that it is asked for."""

    DEFAULT_ERROR = "verify, for a client that does not know TRANSACTION_ABORTABLE"
    GENERIC_ERROR = "verify"
    ADD_PARTITION = "add"


PRODUCE_OPERATIONS: Final = ((12, Inquiry.ADD_PARTITION), (11, Inquiry.GENERIC_ERROR))
TXN_OFFSET_COMMIT_OPERATIONS: Final = (
    (5, Inquiry.ADD_PARTITION),
    (4, Inquiry.GENERIC_ERROR),
)
"""First version of each kind, the newest first; older ones are DEFAULT_ERROR."""


def operation_of(
    version: int, operations: tuple[tuple[int, Inquiry], ...] = PRODUCE_OPERATIONS
) -> Inquiry:
    """The kind of a question for a request of this version."""
    found = (operation for first, operation in operations if version >= first)
    return next(found, Inquiry.DEFAULT_ERROR)


class Question(msgspec.Struct, frozen=True):
    """Partitions that are to be in the transaction of a producer."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    operation: Inquiry

    @property
    def producer_epoch(self) -> int:
        """Epoch of the producer."""
        return self.producer.producer_epoch


class _Asked:
    """A question with the function that takes the errors by partition, and when it was asked."""

    __slots__ = ("done", "question", "started_ms")

    def __init__(self, question: Question, done: Callable[[Errors], None], started_ms: int) -> None:
        self.question = question
        self.done = done
        self.started_ms = started_ms

    @property
    def epoch(self) -> int:
        return self.question.producer_epoch

    def fail(self, code: ErrorCode) -> None:
        self.done(dict.fromkeys(self.question.partitions, code))


class TransactionVerifier:
    """The questions of this broker.

    Args:
        clock: of the broker.
        image: returns the newest image.
        send: sends requests to brokers.
        config: how long a client waits for the end of its last transaction.
    """

    def __init__(
        self,
        clock: Clock,
        image: Callable[[], Image],
        send: SendToBroker,
        config: TransactionsConfig,
    ) -> None:
        self._clock = clock
        self._image = image
        self._send = send
        self._config = config
        self._queues: dict[NodeId, list[_Asked]] = {}
        self._in_flight: set[NodeId] = set()
        self._later: list[tuple[int, int, _Asked]] = []
        """Heap of questions that are asked again, by instant."""
        self._numbers = count()

    def ask(self, question: Question, done: Callable[[Errors], None]) -> None:
        """Ask the coordinator; `done` gets the errors by partition, once, maybe at once.

        While another transaction of the producer ends, a partition that is to be added is asked for
        again, up to `add.partitions.to.txn.retry.backoff.max.ms`.
        """
        self._enqueue(_Asked(question, done, self._clock.now_ms))

    def _enqueue(self, asked: _Asked) -> None:
        node_id = self._coordinator(asked.question.transactional_id)
        if node_id is None:
            asked.fail(ErrorCode.coordinator_not_available)
            return
        epoch, queue = asked.epoch, self._queues.setdefault(node_id, [])
        for other in list(queue):
            if other.question.transactional_id != asked.question.transactional_id:
                continue
            known = other.epoch
            if known > epoch:
                asked.fail(ErrorCode.invalid_producer_epoch)
                return
            if known < epoch:
                queue.remove(other)
                other.fail(ErrorCode.invalid_producer_epoch)
        queue.append(asked)
        self._send_to(node_id)

    def _coordinator(self, transactional_id: str) -> NodeId | None:
        image = self._image()
        topic_id = image.topic_id_by_name.get(TRANSACTION_STATE)
        if topic_id is None:
            return None
        partitions = image.topics[topic_id].partitions
        partition = partitions[partition_for(transactional_id, len(partitions))]
        broker = image.brokers.get(partition.leader) if partition.has_leader else None
        return None if broker is None or broker.fenced else broker.id

    def _send_to(self, node_id: NodeId) -> None:
        queue = self._queues.get(node_id)
        if not queue or node_id in self._in_flight:
            return
        sent: dict[str, _Asked] = {}
        for asked in queue:
            sent.setdefault(asked.question.transactional_id, asked)
        self._queues[node_id] = [
            asked for asked in queue if sent[asked.question.transactional_id] is not asked
        ]
        self._in_flight.add(node_id)
        self._send(
            node_id,
            ADD_PARTITIONS_TO_TXN,
            _request([asked.question for asked in sent.values()]),
            lambda answer: self._answered(node_id, sent, answer),
        )

    def _answered(self, node_id: NodeId, sent: Mapping[str, _Asked], answer: object) -> None:
        self._in_flight.remove(node_id)
        for asked, errors in _errors(sent, answer):
            waited_ms = self._clock.now_ms - asked.started_ms
            is_ending = ErrorCode.concurrent_transactions in errors.values()
            is_added = asked.question.operation is Inquiry.ADD_PARTITION
            wait_ms_max = min(self._config.retry_ms_max, self._config.request_timeout_ms)
            if is_ending and is_added and waited_ms < wait_ms_max:
                due_ms = self._clock.now_ms + self._config.retry_backoff_ms
                heappush(self._later, (due_ms, next(self._numbers), asked))
            else:
                asked.done(errors)
        self._send_to(node_id)

    # -- time -----------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        return self._later[0][0] if self._later else None

    def tick(self) -> None:
        """Ask again what is due."""
        while self._later and self._later[0][0] <= self._clock.now_ms:
            self._enqueue(heappop(self._later)[2])


def _request(questions: list[Question]) -> Entity:
    new = codec.newest(ADD_PARTITIONS_TO_TXN, "request")
    rows = []
    for question in questions:
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(question.partitions):
            numbers.setdefault(topic, []).append(number)
        rows.append(
            new.AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer.producer_id,
                producer_epoch=question.producer.producer_epoch,
                verify_only=question.operation is not Inquiry.ADD_PARTITION,
                topics=tuple(
                    new.AddPartitionsToTxnTopic(name=topic, partitions=tuple(found))
                    for topic, found in numbers.items()
                ),
            )
        )
    return new.AddPartitionsToTxnRequest(transactions=tuple(rows))


def _errors(sent: Mapping[str, _Asked], answer: object) -> list[tuple[_Asked, Errors]]:
    """The errors of each question; an old coordinator that cannot verify has none."""
    if isinstance(answer, Failure):
        is_old = answer is Failure.UNSUPPORTED_VERSION
        return [
            (
                asked,
                {} if is_old else dict.fromkeys(asked.question.partitions, _NO_ANSWER),
            )
            for asked in sent.values()
        ]
    response = cast("AddPartitionsToTxnResponse", answer)
    if response.error_code is not ErrorCode.none:
        refused = response.error_code is ErrorCode.cluster_authorization_failed
        code = ErrorCode.invalid_txn_state if refused else response.error_code
        return [(asked, dict.fromkeys(asked.question.partitions, code)) for asked in sent.values()]
    rows = {
        str(result.transactional_id): {
            (str(topic.name), int(row.partition_index)): row.partition_error_code
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
    return [(asked, _known_errors(asked.question, rows.get(name))) for name, asked in sent.items()]


def _known_errors(question: Question, rows: Mapping[TopicPartition, ErrorCode] | None) -> Errors:
    """The errors as the client of the question knows them."""
    found = {} if rows is None else rows
    codes = {partition: found.get(partition, _NO_ANSWER) for partition in question.partitions}
    known = {ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch}
    if question.operation is Inquiry.DEFAULT_ERROR:
        known[ErrorCode.transaction_abortable] = ErrorCode.invalid_txn_state
    return {
        partition: known.get(code, code)
        for partition, code in codes.items()
        if code is not ErrorCode.none
    }


_NO_ANSWER: Final = ErrorCode.network_exception
