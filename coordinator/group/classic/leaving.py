"""LeaveGroup of a classic group: members go by their ids, static ones by their instances.

apache/kafka: GroupMetadataManager.java (classicGroupLeaveToClassicGroup)
"""

from typing import TYPE_CHECKING, Any

from coordinator.group.classic import responses
from coordinator.group.classic.change import NO_CHANGE, Change
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.states import EMPTY
from network.clock import Now
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity


class Leaving:
    """LeaveGroup, for all groups of a shard."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def leave(
        self, group: ClassicGroup, request: "LeaveGroupRequest", now: Now
    ) -> tuple[Change, Any]:
        """Let members go; the change and the answer, which waits for its records.

        The group rebalances once, when all have gone.
        """
        rows = [
            (member.member_id, member.group_instance_id, self._leave(group, member))
            for member in request.members
        ]
        change = NO_CHANGE
        if group.state is not EMPTY and any(code is ErrorCode.none for *_, code in rows):
            change = self._rebalance.prepare_or_complete(group, now)
        return change, responses.left(tuple(rows))

    def _leave(self, group: ClassicGroup, identity: "MemberIdentity") -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == responses.NO_MEMBER_ID:
            # An admin client removes a static member of which it knows only the instance.
            found = None if instance_id is None else group.static_members.get(instance_id)
            if found is None:
                return ErrorCode.unknown_member_id
            member_id = found
        elif member_id not in group.pending_joins:
            code = group.member_error(member_id, instance_id)
            if code is not None:
                return code
        self._rebalance.remove_member(group, member_id)
        return ErrorCode.none
