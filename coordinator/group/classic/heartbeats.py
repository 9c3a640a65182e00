"""Heartbeat of a member of a classic group.

apache/kafka: GroupMetadataManager.java (classicGroupHeartbeatToClassicGroup)
"""

from typing import TYPE_CHECKING

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.states import PREPARING_REBALANCE
from network.clock import Now
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest


def heartbeat(
    group: ClassicGroup, request: "HeartbeatRequest", rebalance: Rebalance, now: Now
) -> ErrorCode:
    """Begin a session of a member anew; REBALANCE_IN_PROGRESS asks it to join again."""
    code = group.member_error(request.member_id, request.group_instance_id)
    if code is not None:
        return code
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    rebalance.await_heartbeat(group, request.member_id, now)
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none
