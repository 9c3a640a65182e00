"""A member of a classic group: what JoinGroup said of it, and its assignment.

apache/kafka: group-coordinator/.../classic/ClassicGroupMember.java
"""

from collections.abc import Container
from typing import Final

import msgspec

NO_ASSIGNMENT: Final = b""


class MemberProtocol(msgspec.Struct, frozen=True, gc=False):
    """A protocol (an assignor of the client) with the metadata that the leader gets for it."""

    name: str
    metadata: bytes


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One member; `protocols` in the order of its preference."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT

    @property
    def is_static(self) -> bool:
        """True if it keeps its assignment over restarts (KIP-345)."""
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str) -> bytes:
        """Metadata for a protocol that it supports."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"{self.member_id=} does not support {protocol_name=}")

    def vote(self, candidates: Container[str]) -> str:
        """The first of its protocols that is a candidate; there is one."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError(f"{self.member_id=} supports none of {candidates=}")


def protocol_names(protocols: tuple[MemberProtocol, ...]) -> frozenset[str]:
    """Names of protocols, each once: a client may repeat one."""
    return frozenset(protocol.name for protocol in protocols)
