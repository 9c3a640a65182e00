"""Memory of the invariants about a node between two of its steps."""

import msgspec

from raft.roles import Unattached
from wire.types import ReplicaKey

Shown = tuple[int, type, int | None, ReplicaKey | None, int, int, int, int, int | None, int]
"""Shown state of a node: epoch, role, leader, vote; end of its log as written, generation and start
of the log, changes of it on the disk; high watermark, and end of what it has applied."""


class Past(msgspec.Struct):
    """Last seen state of a node; `incarnation` tells if it is still the same process."""

    incarnation: int = -1
    epoch: int = 0
    highest_epoch: int = 0
    leader_id: int | None = None
    voted_id: int | None = None
    role: type = Unattached
    log_end: int = 0
    log_start: int = 0
    generation: int = 0
    high_watermark: int | None = None
    applied: int = 0
    durable_end: int = 0
    resigned_epoch: int = -1
    led_epoch: int = -1
    was_active: bool = False
    has_pending: bool = False
    cut_end: int = -1
    """End of the log before its last cut, until something is written there again."""
    segments: int = 0
    log_changes: int = 0
    """`log_changes` of its disk when its log was last read."""
    shown: Shown | None = None
    """Shown state after the last step: mostly nothing of it has changed."""
    name_changes: int = -1
    """`name_changes` of its disk when its snapshots were last checked."""
