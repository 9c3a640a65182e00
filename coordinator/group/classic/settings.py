"""Limits and times of classic groups, by Kafka's configs."""

from typing import Final

import msgspec

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""Time that the first JoinGroup of a member may wait.

It has no heartbeats yet, and nobody sees whether its client has gone: one that gave up and came
again as another would leave a member behind in each rebalance.
(apache/kafka: GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS)
"""
PENDING_JOINS_MAX: Final = 10_000
"""Ids of a group that were handed out and not used; each ends with its session.

`group.max.size` does not count them, and Kafka has no limit. At this one, a client is sent to look
for its coordinator and to try again.
"""

TEXT_BYTES_MAX: Final = 2**15 - 1 - len("-00000000-0000-0000-0000-000000000000")
"""Bytes of an id or a name in a record, with room for the end of a member's id.

Flexible requests can carry longer ones. (apache/kafka: GroupMetadataValue.json, strings of int16)
"""


class ClassicSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Kafka's configs, with their defaults."""

    group_max_size: int = 2**31 - 1
    """group.max.size"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    session_timeout_ms_min: int = 6_000
    """group.min.session.timeout.ms"""
    session_timeout_ms_max: int = 1_800_000
    """group.max.session.timeout.ms"""
