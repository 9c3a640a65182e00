"""JoinGroup of a classic group that exists.

A new dynamic member is told its id first and comes again with it, so that a client which gives up
leaves no member behind; it has a session to do so. A static member that comes without an id takes
the place of the one before, which is fenced: in a Stable group without a rebalance, if the protocol
stays the same.

apache/kafka: GroupMetadataManager.java (classicGroupJoin*, updateStaticMember*,
acceptJoiningMember)
"""

from dataclasses import replace
from typing import Any

import msgspec

from coordinator.group.classic import responses
from coordinator.group.classic.change import NO_CHANGE, Change, append_error
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import Rebalance
from coordinator.group.classic.record import group_record
from coordinator.group.classic.replies import Reply
from coordinator.group.classic.requests import Join
from coordinator.group.classic.settings import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    PENDING_JOINS_MAX,
    ClassicSettings,
)
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
)
from network.clock import Now
from wire.errors import ErrorCode


class Joining:
    """JoinGroup, for all groups of a shard."""

    def __init__(self, settings: ClassicSettings, rebalance: Rebalance) -> None:
        self._settings = settings
        self._rebalance = rebalance

    def join(
        self, group: ClassicGroup, request: Join, uuid: str, now: Now, reply: Reply[Any]
    ) -> Change:
        """Take a JoinGroup.

        Args:
            group: not Dead.
            request: of a client.
            uuid: random, for the id of a new member.
            now: both clocks.
            reply: given now, or when the join phase ends.
        """
        member_id = request.member_id
        if not self._has_place(group, member_id):
            self._rebalance.remove_member(group, member_id)
            reply(responses.join_error(ErrorCode.group_max_size_reached))
            # Nobody may be missing now. Kafka lets the others wait for the rebalance timeout.
            is_initial = group.initial_delay is not None
            return NO_CHANGE if is_initial else self._rebalance.complete_if_all_joined(group, now)
        code = _error(group, request)
        if code is not None:
            reply(responses.join_error(code, member_id))
            return NO_CHANGE
        if member_id == responses.NO_MEMBER_ID:
            return self._join_unknown(group, request, uuid, now, reply)
        if member_id in group.pending_joins:
            return self._add(group, request, member_id, now, reply)
        return self._rejoin(group, request, now, reply)

    def _has_place(self, group: ClassicGroup, member_id: str) -> bool:
        """True if the group may have this member.

        While members join, those count that have joined: of a group above its size, which the
        config can make, the last to rejoin are refused.
        """
        size_max = self._settings.group_max_size
        if group.state is PREPARING_REBALANCE:
            return member_id in group.joins or len(group.joins) < size_max
        return member_id in group.members or len(group.members) < size_max

    def _join_unknown(
        self, group: ClassicGroup, request: Join, uuid: str, now: Now, reply: Reply[Any]
    ) -> Change:
        instance_id = request.group_instance_id
        prefix = request.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{uuid}"
        if instance_id in group.static_members:
            return self._replace_static(group, request, member_id, now, reply)
        if instance_id is not None or not request.is_id_required:
            return self._add(group, request, member_id, now, reply)
        if len(group.pending_joins) >= PENDING_JOINS_MAX:
            reply(responses.join_error(ErrorCode.coordinator_not_available))
            return NO_CHANGE
        group.pending_joins.add(member_id)
        self._rebalance.await_heartbeat(group, member_id, now, request.session_timeout_ms)
        reply(responses.join_error(ErrorCode.member_id_required, member_id))
        return NO_CHANGE

    def _add(
        self, group: ClassicGroup, request: Join, member_id: str, now: Now, reply: Reply[Any]
    ) -> Change:
        if group.initial_delay is not None:
            group.has_new_member = True
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
        )
        group.add(member, reply)
        group.new_members.add(member_id)
        self._rebalance.await_heartbeat(group, member_id, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._rebalance.prepare_or_complete(group, now)

    def _rejoin(self, group: ClassicGroup, request: Join, now: Now, reply: Reply[Any]) -> Change:
        """A member comes again; without news for the group it gets the present generation."""
        member_id = request.member_id
        is_leader = member_id == group.leader_id
        is_same = group.members[member_id].protocols == request.protocols
        if is_same and group.state is COMPLETING_REBALANCE:
            # The answer to its join was lost on the way.
            reply(responses.joined(group, member_id, with_members=is_leader))
            return NO_CHANGE
        if is_same and group.state is STABLE and not is_leader:
            reply(responses.joined(group, member_id, with_members=False))
            return NO_CHANGE
        # A leader asks for a rebalance so, for reasons that its metadata does not show.
        self._await_join(group, request, member_id, reply)
        return self._rebalance.prepare_or_complete(group, now)

    def _await_join(
        self, group: ClassicGroup, request: Join, member_id: str, reply: Reply[Any]
    ) -> None:
        """Take the properties of a request and park it.

        One that was parked before is of a connection that its client gave up.
        """
        group.update(_updated(group.members[member_id], request))
        group.answer_join(
            member_id, responses.join_error(ErrorCode.rebalance_in_progress, member_id)
        )
        group.joins[member_id] = reply

    def _replace_static(
        self, group: ClassicGroup, request: Join, member_id: str, now: Now, reply: Reply[Any]
    ) -> Change:
        instance_id = request.group_instance_id
        assert instance_id is not None
        old_leader_id = group.leader_id
        old_member = group.members[group.static_members[instance_id]]
        self._fence(group, old_member.member_id)
        group.replace_static(instance_id, member_id)
        self._rebalance.await_heartbeat(group, member_id, now)
        self._await_join(group, request, member_id, reply)
        if group.state is COMPLETING_REBALANCE:
            # The leader may already be assigning to the id that is gone.
            return self._rebalance.prepare(group, now)
        if group.state is not STABLE:
            return self._rebalance.prepare_or_complete(group, now)
        if group.selected_protocol() != group.protocol_name:
            return self._rebalance.prepare(group, now)

        def committed(_now: Now) -> None:
            # If a rebalance has begun since, the member waits for it; it cannot have ended, as what
            # would end it is committed later.
            if group.state is STABLE:
                response = _replaced(group, request, member_id, old_leader_id=old_leader_id)
                group.answer_join(member_id, response)

        def failed(code: ErrorCode, now: Now) -> None:
            if group.static_members.get(instance_id) == member_id:
                self._restore(group, old_member, member_id, code, now)

        return Change(records=(group_record(group),), committed=committed, failed=failed)

    def _fence(self, group: ClassicGroup, member_id: str) -> None:
        """Answer what a static member waits for whose instance another client has."""
        code = ErrorCode.fenced_instance_id
        self._rebalance.end_session(group, member_id)
        group.answer_join(member_id, responses.join_error(code, member_id))
        group.answer_sync(member_id, responses.sync_error(code))

    def _restore(
        self, group: ClassicGroup, old: Member, member_id: str, code: ErrorCode, now: Now
    ) -> None:
        """Give the place of a static member back to the one before: the record was lost."""
        assert old.group_instance_id is not None
        group.answer_join(member_id, responses.join_error(append_error(code)))
        self._fence(group, member_id)
        group.replace_static(old.group_instance_id, old.member_id)
        group.update(
            msgspec.structs.replace(old, assignment=group.members[old.member_id].assignment)
        )
        self._rebalance.await_heartbeat(group, old.member_id, now)


def _error(group: ClassicGroup, request: Join) -> ErrorCode | None:
    """Error of a client that the group has place for, None if it may join."""
    if not group.supports(request.protocol_type, request.protocols):
        return ErrorCode.inconsistent_group_protocol
    if request.member_id == responses.NO_MEMBER_ID:
        return None
    if request.member_id in group.pending_joins:
        # Ids are handed out to dynamic members only.
        return None if request.group_instance_id is None else ErrorCode.unknown_server_error
    return group.member_error(request.member_id, request.group_instance_id)


def _updated(member: Member, request: Join) -> Member:
    return msgspec.structs.replace(
        member,
        protocols=request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
    )


def _replaced(
    group: ClassicGroup, request: Join, member_id: str, *, old_leader_id: str | None
) -> Any:
    """Answer to a static member that took its place in a Stable group (KIP-814).

    A client that cannot be told to skip the assignment is not told that it leads: it is shown the
    id that its instance had before.
    """
    if request.can_skip_assignment:
        is_leader = member_id == group.leader_id
        return responses.joined(group, member_id, with_members=is_leader, skip_assignment=is_leader)
    return replace(responses.joined(group, member_id, with_members=False), leader=old_leader_id)
