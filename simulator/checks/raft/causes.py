"""I16: a change of the leader has the cause that the step shows, judged by its event and roles."""

from typing import Final

from raft.effects import Effects, LeaderChanged
from raft.elections.leader_loss import Cause
from raft.events import DiskFull, ResignRequested, ShutdownRequested
from raft.roles import Leader, Resigned, Role, Transfer
from wire.types import Offset

ASKED_TO_RESIGN: Final[dict[type, tuple[Cause, ...]]] = {
    DiskFull: (Cause.DISK_FULL,),
    ShutdownRequested: (Cause.OPERATOR,),
    ResignRequested: (Cause.FAULT,),
}
"""Event that ends a leadership -> its causes."""

BY_ITSELF: Final[tuple[Cause, ...]] = (Cause.CHECK_QUORUM, Cause.STALLED_FLUSH, Cause.REMOVED)
"""Causes of a resignation at any other event."""


def causes_of(effects: Effects) -> list[Cause | None]:
    """Causes of the changes of the leader in a step, in their order; None for one without."""
    changes = [effect for effect in effects.notify if type(effect) is LeaderChanged]
    return [None if change.loss is None else change.loss.cause for change in changes]


def wrong_cause(
    before: Role, after: Role, kind: type, effects: Effects, *, is_transferred: bool = False
) -> str | None:
    """Describe the end of a leadership whose cause is missing, or is not that of the step.

    Args:
        before: role before the step.
        after: role after it.
        kind: type of its event.
        effects: those of the step.
        is_transferred: a transfer of the leadership was under way; it ends with any event.
    """
    if type(before) is not Leader or type(after) is Leader:
        return None  # a sole voter that resigns leads again in one step
    resigned = type(after) is Resigned
    allowed = ASKED_TO_RESIGN.get(kind, BY_ITSELF) if resigned else (Cause.FENCED,)
    if resigned and is_transferred:
        allowed = (*allowed, Cause.OPERATOR)
    causes = causes_of(effects)
    if causes and all(cause in allowed for cause in causes):
        return None
    return f"its epoch {before.epoch} ended by {kind.__name__}, the cause is {causes}"


def wrong_successor(
    before: Role,
    kind: type,
    effects: Effects,
    transfer: Transfer | None,
    ends: tuple[Offset, Offset | None],
) -> str | None:
    """Describe a transfer of the leadership to a voter that could not lead on at once.

    Args:
        before: role before the step, in which the leader resigned.
        kind: type of its event.
        effects: those of the step.
        transfer: the one that was under way.
        ends: log end, and the highest high watermark.
    """
    asked = ASKED_TO_RESIGN.get(kind, ())
    if transfer is None or type(before) is not Leader or Cause.OPERATOR in asked:
        return None
    if Cause.OPERATOR not in causes_of(effects):
        return None
    log_end, committed = ends
    reached = before.progress[transfer.target].end_offset
    if reached == committed == log_end:
        return None
    return (
        f"its leadership went to {transfer.target.id}, which has {reached} of {log_end}, "
        f"{committed} committed"
    )
