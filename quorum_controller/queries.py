"""The table of requests that only read an image: pure functions (image, body, context) -> response.

They need no leader: a broker answers from its metadata cache, a controller from its committed
image. To add an API: write the function in the manager of its noun, add one row.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from metadata.image import Image


class QueryContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how a query is answered."""

    node_id: int
    """Of the node that answers."""
    is_broker: bool
    """It arrived at a broker listener."""
    api_version: int
    """Of the request as it arrived; bodies have the newest shape."""
    properties: Mapping[str, str]
    """The server.properties of the node that answers."""
    wall_ms: int
    """Milliseconds since 1970."""


class OnBroker(Enum):
    """What a broker listener does with a query."""

    LOCAL = "answered from the broker's own image"
    FORWARDED = "sent to the active controller"
    NOT_SERVED = "not an API of brokers"


class Query(msgspec.Struct, frozen=True):
    """How one API that only reads is answered."""

    answer: Callable[[Image, Any, QueryContext], Any]
    on_broker: OnBroker = OnBroker.LOCAL
    on_controller: bool = True


QUERIES: Final[dict[int, Query]] = {}
"""By API key."""
