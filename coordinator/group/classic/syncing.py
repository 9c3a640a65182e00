"""SyncGroup of a classic group: the leader's assignment is recorded, then everyone gets theirs.

A coordinator that takes over loads the record, so no member may have an assignment before it is
committed. If it cannot be, all are told and the group rebalances.

apache/kafka: GroupMetadataManager.java (classicGroupSyncToClassicGroup, validateSyncGroup)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coordinator.group.classic import responses
from coordinator.group.classic.change import NO_CHANGE, Change, append_error
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.record import group_record
from coordinator.group.classic.replies import Reply
from coordinator.group.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from network.clock import Now
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.sync_group.v5.request import SyncGroupRequest


class Syncing:
    """SyncGroup, for all groups of a shard."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup, request: "SyncGroupRequest", reply: Reply[Any]) -> Change:
        """Take a SyncGroup of a group that is not Dead.

        It is answered at once in a Stable group, else when the leader's assignment is committed.
        """
        code = _error(group, request)
        if code is not None:
            reply(responses.sync_error(code))
            return NO_CHANGE
        member_id = request.member_id
        self._rebalance.synced(group, member_id)
        if group.state is not COMPLETING_REBALANCE:
            reply(responses.synced(group, member_id))
            return NO_CHANGE
        # One that was parked before is of a connection that its client gave up.
        group.answer_sync(member_id, responses.sync_error(ErrorCode.rebalance_in_progress))
        group.syncs[member_id] = reply
        if member_id != group.leader_id:
            return NO_CHANGE
        return self._record(group, {row.member_id: row.assignment for row in request.assignments})

    def _record(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> Change:
        generation_id = group.generation_id

        def is_awaited() -> bool:
            """True unless a rebalance has begun since, which told all who waited."""
            return group.state is COMPLETING_REBALANCE and group.generation_id == generation_id

        def committed(now: Now) -> None:
            if is_awaited():
                self._rebalance.assign(group, assignments, now)

        def failed(code: ErrorCode, now: Now) -> None:
            if is_awaited():
                self._rebalance.abandon_assignment(group, append_error(code), now)
                change = self._rebalance.prepare(group, now)
                assert not change.records, "a group with members is not emptied"

        return Change(
            records=(group_record(group, assignments),), committed=committed, failed=failed
        )


def _error(group: ClassicGroup, request: "SyncGroupRequest") -> ErrorCode | None:
    """Error of a SyncGroup that is refused, else None."""
    if group.state is EMPTY:
        return ErrorCode.unknown_member_id
    code = group.member_error(request.member_id, request.group_instance_id)
    if code is not None:
        return code
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    for named, chosen in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if named is not None and chosen is not None and named != chosen:
            return ErrorCode.inconsistent_group_protocol
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return None
