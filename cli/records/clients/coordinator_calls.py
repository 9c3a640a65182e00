"""Requests to the coordinator of a transactional id, again while it moves, loads or is busy.

apache/kafka: clients/.../admin/internals/CoordinatorStrategy.java, FenceProducersHandler.java, 4.3
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from cli.connect import Api, ClusterError, UnreachableError, newest
from cli.kafka_errors import message_of
from cli.records.clients.clock import Again, Clock, repeated
from cli.records.clients.leader_calls import API_TIMEOUT_MS, BACKOFF_MS

FIND_COORDINATOR: Final = 10
INIT_PRODUCER_ID: Final = 22
TRANSACTION: Final = 1
"""Key type of FindCoordinator."""
LOADING: Final = 14
NOT_AVAILABLE: Final = 15
NOT_AUTHORIZED: Final = 53
NO_PRODUCER: Final = -1
AGAIN: Final = frozenset({LOADING, NOT_AVAILABLE, 16, 51})
"""The coordinator loads, is not there, is another, or ends the transaction before."""

Ask = Callable[[int], Any]
"""Function from the id of a coordinator to its answer, which has an error code."""


def of_coordinator(api: Api, transactional_id: str, ask: Ask, clock: Clock) -> tuple[int, Any]:
    """The coordinator of a transactional id, and its answer.

    Raises:
        ClusterError: none is found, or none answers within a minute.
    """

    def attempt() -> tuple[int, Any] | Again:
        try:
            node = _found(api, transactional_id)
            if node is None:
                return Again(message_of(NOT_AVAILABLE))
            answer = ask(node)
        except UnreachableError as error:
            return Again(str(error))
        code = int(answer.error_code)
        return Again(message_of(code)) if code in AGAIN else (node, answer)

    found = repeated(attempt, clock, BACKOFF_MS, clock.now_ms() + API_TIMEOUT_MS)
    if isinstance(found, Again):
        raise ClusterError(found.reason)
    return found


def _found(api: Api, transactional_id: str) -> int | None:
    """The node of the coordinator of a transactional id; None while there is none.

    Raises:
        ClusterError: it is refused.
        UnreachableError: no node answers.
    """
    request = newest(FIND_COORDINATOR).FindCoordinatorRequest(
        key_type=TRANSACTION, coordinator_keys=(transactional_id,)
    )
    (row,) = api.call(FIND_COORDINATOR, request).coordinators
    code = int(row.error_code)
    if code and code not in AGAIN:
        why = "authorization failure" if code == NOT_AUTHORIZED else unexpected(code)
        what = f"FindCoordinator request for transactionalId `{transactional_id}`"
        raise ClusterError(f"{what} failed due to {why}")
    return None if code else int(row.node_id)


def initialized(
    api: Api, transactional_id: str, timeout: timedelta, clock: Clock
) -> tuple[int, int]:
    """Id and epoch of a producer that begins; the one before it is fenced, its transaction aborted.

    Raises:
        ClusterError: no coordinator answers, or it refuses.
    """
    request = newest(INIT_PRODUCER_ID).InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=timeout,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_PRODUCER,
    )
    _, answer = of_coordinator(
        api, transactional_id, lambda node: api.call(INIT_PRODUCER_ID, request, node), clock
    )
    code = int(answer.error_code)
    if code:
        why = "transactional ID authorization failure"
        raise ClusterError(
            f"InitProducerId request for transactionalId `{transactional_id}` failed due to "
            f"{why if code == NOT_AUTHORIZED else unexpected(code)}"
        )
    return int(answer.producer_id), int(answer.producer_epoch)


def unexpected(code: int) -> str:
    """Reason of a failure by an error that the caller does not know."""
    return f"unexpected error: {message_of(code)}"
