"""JoinGroup as its versions mean it; other requests are taken as they are."""

from typing import Any, Final

import msgspec

from coordinator.group.classic.member import MemberProtocol
from wire.types import milliseconds

FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
FIRST_WITH_MEMBER_ID_REQUIRED: Final = 4
"""A client of this version comes again with the id that it is given (KIP-394)."""
FIRST_WITH_SKIP_ASSIGNMENT: Final = 9
"""A leader of this version can be told not to assign (KIP-814)."""


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """JoinGroup of a client.

    `client_host` is the address as Java prints it, with a slash; `is_id_required`: a new member is
    first told its id; `can_skip_assignment`: a leader can be told not to assign.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    is_id_required: bool = True
    can_skip_assignment: bool = True


def join_of(body: Any, *, version: int, client_id: str | None, host: str) -> Join:
    """The request of this version from a client at a host.

    apache/kafka: clients/.../requests/JoinGroupRequest.java
    """
    session_timeout_ms = milliseconds(body.session_timeout)
    return Join(
        group_id=body.group_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        client_id="" if client_id is None else client_id,
        client_host=f"/{host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            milliseconds(body.rebalance_timeout)
            if version >= FIRST_WITH_REBALANCE_TIMEOUT
            else session_timeout_ms
        ),
        protocol_type=body.protocol_type,
        protocols=tuple(MemberProtocol(row.name, row.metadata) for row in body.protocols),
        is_id_required=version >= FIRST_WITH_MEMBER_ID_REQUIRED,
        can_skip_assignment=version >= FIRST_WITH_SKIP_ASSIGNMENT,
    )
