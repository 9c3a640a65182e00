"""The next step of a member, behind an answer of its coordinator."""

from enum import Enum
from typing import Final

from simulator.checks.violation import Violation
from wire.errors import ErrorCode


class Next(Enum):
    """The step."""

    GO_ON = "go on"
    """Ask again at once, behind what is to be given up."""
    REST = "rest"
    """Ask again after a heartbeat interval."""
    RETRY = "retry"
    """Ask again after a pause."""
    FIND = "find"
    """Look for the coordinator, and ask that."""
    DEAD = "dead"
    """Nothing: another client has its place."""


UNAVAILABLE: Final = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
"""Errors after which a member looks for its coordinator."""


def unexpected(group_id: str, member_id: str, code: ErrorCode) -> Violation:
    """D6 of a code that no member gets."""
    return Violation("D6", f"group {group_id}, member {member_id!r}: {code.name}")
