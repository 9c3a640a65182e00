"""The APIs of the active controller: which there are and how each says no.

A refusal has a natural place in every response: top level, or per topic. The kernel uses `refusal`
too, for requests that reach a node that is not the active controller.
"""

from collections.abc import Callable
from typing import Any, Final

from quorum_controller.bodies import (
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONTROLLER_REGISTRATION,
    CREATE_TOPICS,
    DELETE_TOPICS,
    UNREGISTER_BROKER,
)
from quorum_controller.brokers import (
    broker_heartbeat_error,
    broker_registration_error,
    unregister_broker_error,
)
from quorum_controller.controllers import controller_registration_error
from quorum_controller.topics import create_topics_error, delete_topics_error
from wire.errors import ApiError, ErrorCode
from wire.types import NodeId, milliseconds

TIMED_OUT: Final = ApiError(ErrorCode.request_timed_out, "The request timed out.")

_REFUSALS: Final[dict[int, Callable[[Any, ApiError], Any]]] = {
    CREATE_TOPICS: create_topics_error,
    DELETE_TOPICS: delete_topics_error,
    BROKER_REGISTRATION: lambda _, error: broker_registration_error(error),
    BROKER_HEARTBEAT: lambda _, error: broker_heartbeat_error(error),
    UNREGISTER_BROKER: lambda _, error: unregister_broker_error(error),
    CONTROLLER_REGISTRATION: lambda _, error: controller_registration_error(error),
}
CONTROLLER_API_KEYS: Final = frozenset(_REFUSALS)
"""API keys that `Controller.submit` takes."""

_APIS_WITH_TIMEOUT: Final = frozenset({CREATE_TOPICS, DELETE_TOPICS})


def refusal(api_key: int, body: Any, error: ApiError) -> Any:
    """The response body of this API that refuses the request."""
    return _REFUSALS[api_key](body, error)


def timeout_ms(api_key: int, body: Any) -> int | None:
    """How long the request may take by its own words, None if it does not say."""
    return milliseconds(body.timeout) if api_key in _APIS_WITH_TIMEOUT else None


def not_controller(leader_id: NodeId | None) -> ApiError:
    """NOT_CONTROLLER with Kafka's text; None when no leader is known."""
    text = (
        "No controller appears to be active."
        if leader_id is None
        else f"The active controller appears to be node {leader_id}."
    )
    return ApiError(ErrorCode.not_controller, text)
