"""The context of a request that only reads."""

from collections.abc import Mapping

import msgspec

from quorum_controller.config import TokenSettings
from quorum_controller.security.authorization import AccessRules, Caller


class QueryContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a query: the answering node, the request and its caller."""

    node_id: int
    """Id of the node that answers."""
    is_broker: bool
    """True if it arrived at a broker listener."""
    api_version: int
    """Version of the received request; bodies have the newest shape."""
    properties: Mapping[str, str]
    """The server.properties of the node that answers."""
    wall_ms: int
    """Current time in ms since 1970."""
    access: AccessRules | None = None
    """The authorizer's settings, None without one."""
    tokens: TokenSettings = TokenSettings()
    """Settings of delegation tokens."""
    caller: Caller = Caller()
    """Principal and host of the client."""
    is_authenticated: bool = False
    """True on a secure connection that is authenticated, and not by a delegation token."""
