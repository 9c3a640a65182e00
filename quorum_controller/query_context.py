"""Where and how a request that only reads is answered."""

from collections.abc import Mapping

import msgspec

from quorum_controller.config import TokenSettings
from quorum_controller.security.authorization import AccessRules, Caller


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
    access: AccessRules | None = None
    """The authorizer's settings, None without one."""
    tokens: TokenSettings = TokenSettings()
    """Delegation tokens."""
    caller: Caller = Caller()
    """Who asks."""
    is_authenticated: bool = False
    """The connection is secure and knows its principal, and not by a token."""
