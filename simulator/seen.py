"""What the invariants remember of a node between two of its steps."""

import msgspec

from raft.roles import Unattached


class Seen(msgspec.Struct):
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
    name_changes: int = -1
    """Of its disk when its snapshots were last looked at."""
