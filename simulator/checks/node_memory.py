"""What the invariants remember of a node between two of its steps."""

import msgspec

from raft.roles import Unattached
from wire.types import ReplicaKey

Shown = tuple[int, type, int | None, ReplicaKey | None, int, int, int, int, int | None, int]
"""What a node shows: epoch, role, leader, vote; end of its log as written, generation and start of
the log, changes of it on the disk; high watermark, and up to where it has applied the log."""


class Past(msgspec.Struct):
    """What was last seen of a node; `incarnation` tells whether it is still the same process."""

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
    """Where the log ended before its last cut, until something is written there again."""
    segments: int = 0
    log_changes: int = 0
    """Of its disk when its log was last read."""
    shown: Shown | None = None
    """All of this as it was after the last step: mostly nothing of it has changed."""
    name_changes: int = -1
    """Of its disk when its snapshots were last looked at."""
