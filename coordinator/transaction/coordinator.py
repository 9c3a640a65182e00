"""The requests about transactions that this broker coordinates, by transactional id.

apache/kafka: core/.../coordinator/transaction/TransactionCoordinator.scala, 4.3
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

import msgspec

from coordinator.runtime.shard import Shard
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.decisions import (
    Change,
    Decision,
    InitRequest,
    NewProducerId,
    add_partitions,
    end_transaction,
    init_producer_id,
    verify_partitions,
)
from coordinator.transaction.machine import TransactionMachine
from coordinator.transaction.metadata import (
    TopicPartition,
    TransactionMetadata,
    TransactionsImage,
)
from network.clock import Clock
from wire.errors import ApiError, ErrorCode

TransactionsShard = Shard[TransactionsImage]
ShardOf = Callable[[str], TransactionsShard | ApiError]
"""The active shard of a transactional id; NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
AnswerProducer = Callable[[ProducerIdAndEpoch | ApiError], None]
AnswerCode = Callable[[ErrorCode], None]
AnswerVerified = Callable[[Mapping[TopicPartition, ErrorCode]], None]
_INVALID_ID: Final = ApiError(ErrorCode.invalid_request)


class EndRequest(msgspec.Struct, frozen=True):
    """Fields of an EndTxn."""

    producer: ProducerIdAndEpoch
    is_commit: bool
    client_version: int
    """transaction.version of the client."""


class TransactionCoordinator:
    """The coordinator of transactional ids at this broker.

    Args:
        shard_of: shards of this broker.
        clock: of the broker.
        config: its settings.
        new_producer_id: gives ids.
        transaction_version: returns the one of the cluster.
    """

    def __init__(
        self,
        shard_of: ShardOf,
        clock: Clock,
        config: TransactionsConfig,
        *,
        new_producer_id: NewProducerId,
        transaction_version: Callable[[], int],
    ) -> None:
        self._shard_of = shard_of
        self._clock = clock
        self._config = config
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version

    def init_producer_id(
        self, transactional_id: str, request: InitRequest, answer: AnswerProducer
    ) -> None:
        """Give an id to a producer, which fences the one before it."""
        if not transactional_id:
            answer(_INVALID_ID)
            return
        if not 0 < request.timeout_ms <= self._config.timeout_ms_max:
            answer(ApiError(ErrorCode.invalid_transaction_timeout))
            return
        machine = self._machine(transactional_id)
        if isinstance(machine, ApiError):
            answer(machine)
            return

        def decide(before: TransactionMetadata | None) -> Decision:
            return init_producer_id(
                before,
                request,
                last_epoch=machine.last_epoch(transactional_id),
                transaction_version=self._transaction_version(),
                new_producer_id=self._new_producer_id,
                now_ms=self._clock.wall_ms,
            )

        machine.change(transactional_id, decide, partial(_answer_producer, answer))

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: AbstractSet[TopicPartition],
        *,
        client_version: int,
        answer: AnswerCode,
    ) -> None:
        """Add partitions to the transaction of a producer."""
        machine = self._machine(transactional_id)
        if isinstance(machine, ApiError):
            answer(machine.code)
            return

        def decide(before: TransactionMetadata | None) -> Decision:
            return add_partitions(
                before,
                producer,
                partitions,
                client_version=client_version,
                now_ms=self._clock.wall_ms,
            )

        machine.change(transactional_id, decide, partial(_answer_code, answer))

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: AbstractSet[TopicPartition],
        answer: AnswerVerified,
    ) -> None:
        """Say of each partition whether the committed transaction of a producer has it.

        What was loaded counts, committed or not, as in apache/kafka: TransactionStateManager
        (`loadTransactionMetadata` reads to the end of the log).
        """
        shard = self._shard(transactional_id)
        if isinstance(shard, ApiError):
            answer(dict.fromkeys(partitions, shard.code))
            return

        def verified(found: Mapping[TopicPartition, ErrorCode] | ApiError) -> None:
            if isinstance(found, ApiError):
                answer(dict.fromkeys(partitions, found.code))
            else:
                answer(found)

        shard.read_known(
            lambda image: verify_partitions(
                image.transactions.get(transactional_id), producer, partitions
            ),
            verified,
        )

    def end_transaction(
        self, transactional_id: str, request: EndRequest, answer: AnswerProducer
    ) -> None:
        """End the transaction of a producer; its next epoch is answered if its client bumps."""
        machine = self._machine(transactional_id)
        if isinstance(machine, ApiError):
            answer(machine)
            return

        def decide(before: TransactionMetadata | None) -> Decision:
            return end_transaction(
                before,
                request.producer,
                is_commit=request.is_commit,
                client_version=request.client_version,
                new_producer_id=self._new_producer_id,
                now_ms=self._clock.wall_ms,
            )

        machine.change(transactional_id, decide, partial(_answer_producer, answer))

    def find(self, transactional_id: str) -> TransactionMetadata | ErrorCode:
        """A transactional id as it is committed; TRANSACTIONAL_ID_NOT_FOUND if it is not known."""
        shard = self._shard(transactional_id)
        if isinstance(shard, ApiError):
            return shard.code
        found = shard.committed.transactions.get(transactional_id)
        return ErrorCode.transactional_id_not_found if found is None else found

    def _shard(self, transactional_id: str) -> TransactionsShard | ApiError:
        return self._shard_of(transactional_id) if transactional_id else _INVALID_ID

    def _machine(self, transactional_id: str) -> TransactionMachine | ApiError:
        shard = self._shard(transactional_id)
        if isinstance(shard, ApiError):
            return shard
        assert isinstance(shard.machine, TransactionMachine), f"{shard.machine=}"
        return shard.machine


def _answer_producer(answer: AnswerProducer, found: Change | ApiError) -> None:
    if isinstance(found, ApiError):
        answer(found)
    elif found.code is not ErrorCode.none:
        answer(ApiError(found.code))
    else:
        answer(found.producer)


def _answer_code(answer: AnswerCode, found: Change | ApiError) -> None:
    answer(found.code)
