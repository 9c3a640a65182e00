"""Transactional ids as their coordinators know them: listed, described, terminated.

(apache/kafka: clients/.../admin/internals/DescribeTransactionsHandler.java,
ListTransactionsHandler.java, FenceProducersHandler.java, 4.3)
"""

from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from cli.connect import Api, ClusterError, described_cluster, newest
from cli.kafka_errors import message_of
from cli.records.clients.clock import Backoff, Clock
from cli.records.clients.coordinator_calls import (
    LOADING,
    NOT_AUTHORIZED,
    initialized,
    of_coordinator,
    unexpected,
)
from cli.records.clients.leader_calls import API_TIMEOUT_MS, BACKOFF_MS
from cli.records.clients.topic_metadata import Partition

DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66

TERMINATION_TIMEOUT: Final = timedelta(seconds=30)
"""Transaction time-out that an id has when it was terminated: that of a request in Kafka."""
ALL_DURATIONS: Final = -1
_ID_NOT_FOUND: Final = 105


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a list."""

    producer_ids: tuple[int, ...] = ()
    """Empty for all."""
    duration_ms: int = ALL_DURATIONS
    """Only transactions that are open for longer; below 0: all ids."""
    pattern: str | None = None
    """A regular expression of RE2 for whole ids."""


class Listing(msgspec.Struct, frozen=True):
    """A transactional id in a list."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id with its transaction."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    """None while it has no transaction."""
    partitions: tuple[Partition, ...]


def listed(api: Api, filters: Filters, clock: Clock) -> list[Listing]:
    """The ids of all brokers, each in the order of its answer.

    Raises:
        ClusterError: a broker of the cluster cannot be reached, or refuses.
    """
    found = []
    request = newest(LIST_TRANSACTIONS).ListTransactionsRequest(
        state_filters=(),
        producer_id_filters=filters.producer_ids,
        duration_filter=filters.duration_ms,
        transactional_id_pattern=filters.pattern,
    )
    for broker in described_cluster(api).brokers:
        node = int(broker.broker_id)
        answer = _once_loaded(partial(api.call, LIST_TRANSACTIONS, request, node), clock)
        code = int(answer.error_code)
        if code:
            raise ClusterError(
                f"ListTransactions request sent to broker {node} failed with an unexpected "
                f"exception: {message_of(code)}"
            )
        found += [
            Listing(str(row.transactional_id), node, int(row.producer_id), row.transaction_state)
            for row in answer.transaction_states
        ]
    return found


def _once_loaded(ask: Callable[[], Any], clock: Clock) -> Any:
    """The answer of a broker, when it does not load any more or time is over."""
    limit_ms = clock.now_ms() + API_TIMEOUT_MS
    backoff = Backoff(clock, BACKOFF_MS)
    while True:
        answer = ask()
        if int(answer.error_code) != LOADING or not backoff.wait(limit_ms):
            return answer


def described(api: Api, transactional_id: str, clock: Clock) -> Description | None:
    """A transactional id; None if its coordinator does not know it.

    Raises:
        ClusterError: no coordinator answers, or it refuses.
    """
    request = newest(DESCRIBE_TRANSACTIONS).DescribeTransactionsRequest(
        transactional_ids=(transactional_id,)
    )

    def ask(node: int) -> Any:
        (row,) = api.call(DESCRIBE_TRANSACTIONS, request, node).transaction_states
        return row

    node, row = of_coordinator(api, transactional_id, ask, clock)
    code = int(row.error_code)
    if code == _ID_NOT_FOUND:
        return None
    if code:
        why = "authorization failure" if code == NOT_AUTHORIZED else unexpected(code)
        raise ClusterError(
            f"DescribeTransactions request for transactionalId `{transactional_id}` failed due to "
            f"{why}"
        )
    start = row.transaction_start_time
    return Description(
        coordinator_id=node,
        transactional_id=transactional_id,
        producer_id=int(row.producer_id),
        producer_epoch=int(row.producer_epoch),
        state=row.transaction_state,
        timeout_ms=round(row.transaction_timeout.total_seconds() * 1000),
        start_ms=None if start is None else round(start.timestamp() * 1000),
        partitions=tuple(
            Partition(str(topic.topic), int(number))
            for topic in row.topics
            for number in topic.partitions
        ),
    )


def described_all(
    api: Api, transactional_ids: Collection[str], clock: Clock
) -> dict[str, Description]:
    """Those of the ids that their coordinators know.

    Raises:
        ClusterError: no coordinator answers for one, or it refuses.
    """
    found = ((each, described(api, each, clock)) for each in transactional_ids)
    return {each: description for each, description in found if description is not None}


def terminate(api: Api, transactional_id: str, clock: Clock) -> None:
    """Abort the open transaction of an id, whose producer is fenced.

    An id that is not known becomes known, as with Kafka.

    Raises:
        ClusterError: no coordinator answers, or it refuses.
    """
    initialized(api, transactional_id, TERMINATION_TIMEOUT, clock)
