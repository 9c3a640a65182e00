"""DescribeTransactions and ListTransactions: the transactional ids that this broker coordinates.

apache/kafka: core/.../server/KafkaApis.scala (handleDescribeTransactionsRequest,
handleListTransactionsRequest), 4.3; KIP-664, KIP-994, KIP-1152
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import re2

from broker.apis.access import Access
from broker.clients.call import Call
from broker.coordinators.transactions import Transactions
from coordinator.transaction.coordinator import TransactionCoordinator
from coordinator.transaction.listing import TransactionFilters, listed, unknown_states
from coordinator.transaction.metadata import NONE, TopicPartition, TransactionMetadata
from network.clock import Clock
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUIET: Final = re2.Options()
_QUIET.log_errors = False


class DescribeTransactions:
    """Handler of DescribeTransactions.

    Args:
        transactions: the coordinator.
        access: DESCRIBE of each transactional id, and of the topics of its transaction.
    """

    def __init__(self, transactions: TransactionCoordinator, access: Access) -> None:
        self._transactions = transactions
        self._access = access

    def serve(self, call: Call) -> None:
        """Answer a request."""
        new = codec.newest(DESCRIBE_TRANSACTIONS, "response")
        rows = tuple(self._row(call, str(name)) for name in call.body().transactional_ids)
        call.answer(
            new.DescribeTransactionsResponse(throttle_time=NO_TIME, transaction_states=rows)
        )

    def _row(self, call: Call, name: str) -> Entity:
        if not may_describe(self._access, call, name):
            return _refused(name, ErrorCode.transactional_id_authorization_failed)
        found = self._transactions.find(name)
        if isinstance(found, ErrorCode):
            return _refused(name, found)
        topics: dict[str, list[int]] = {}
        for topic, number in self._described(call, found):
            topics.setdefault(topic, []).append(number)
        new = codec.newest(DESCRIBE_TRANSACTIONS, "response")
        return new.TransactionState(
            error_code=ErrorCode.none,
            transactional_id=name,
            transaction_state=found.state.kafka_name,
            transaction_timeout=timedelta(milliseconds=found.timeout_ms),
            transaction_start_time=_time(NONE if found.start_ms is None else found.start_ms),
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            topics=tuple(
                new.TopicData(topic=topic, partitions=tuple(numbers))
                for topic, numbers in topics.items()
            ),
        )

    def _described(self, call: Call, found: TransactionMetadata) -> Iterable[TopicPartition]:
        """The partitions of a transaction whose topics the caller may describe."""
        return [
            partition
            for partition in sorted(found.partitions)
            if self._access.allows_topic(call.caller, Operation.DESCRIBE, partition[0])
        ]


def _refused(name: str, code: ErrorCode) -> Entity:
    new = codec.newest(DESCRIBE_TRANSACTIONS, "response")
    return new.TransactionState(
        error_code=code,
        transactional_id=name,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=_time(0),
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


def _time(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


class ListTransactions:
    """Handler of ListTransactions, versions 0 to 2.

    Args:
        transactions: the shards.
        access: DESCRIBE of each transactional id; others are left out.
        clock: of the broker.
    """

    def __init__(self, transactions: Transactions, access: Access, clock: Clock) -> None:
        self._transactions = transactions
        self._access = access
        self._clock = clock

    def serve(self, call: Call) -> None:
        """Answer a request."""
        body = call.body()
        if self._transactions.loading_count:
            call.answer(_list(ErrorCode.coordinator_load_in_progress))
            return
        matches = matcher(body.transactional_id_pattern)
        if isinstance(matches, ErrorCode):
            call.answer(_list(matches))
            return
        filters = TransactionFilters(
            producer_ids=frozenset(body.producer_id_filters),
            states=frozenset(map(str, body.state_filters)),
            duration_ms=body.duration_filter,
            matches=matches,
        )
        images = [shard.committed for shard in self._transactions.active()]
        new = codec.newest(LIST_TRANSACTIONS, "response")
        rows = [
            new.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in listed(images, filters, self._clock.wall_ms)
            if may_describe(self._access, call, each.transactional_id)
        ]
        call.answer(_list(ErrorCode.none, unknown_states(filters), rows))


def _list(code: ErrorCode, unknown: Iterable[str] = (), rows: Iterable[Entity] = ()) -> Entity:
    new = codec.newest(LIST_TRANSACTIONS, "response")
    return new.ListTransactionsResponse(
        throttle_time=NO_TIME,
        error_code=code,
        unknown_state_filters=tuple(unknown),
        transaction_states=tuple(rows),
    )


def matcher(pattern: str | None) -> Callable[[str], bool] | ErrorCode | None:
    """Test whether a whole name matches a pattern of RE2, as in Kafka; None without a pattern."""
    if not pattern:
        return None
    try:
        compiled = re2.compile(pattern, options=_QUIET)
    except re2.error:
        return ErrorCode.invalid_regular_expression
    return lambda name: compiled.fullmatch(name) is not None


def may_describe(access: Access, call: Call, transactional_id: str) -> bool:
    """True if the caller may see a transactional id."""
    return access.allows(
        call.caller, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )
