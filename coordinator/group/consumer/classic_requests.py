"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup to consumer groups with members.

(apache/kafka: GroupMetadataManager.classicGroup*ToConsumerGroup)
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator.group.classic import responses
from coordinator.group.classic.requests import Join
from coordinator.group.consumer.classic_members import (
    NewMemberId,
    classic_member,
    join,
    leaving_member,
    should_rejoin,
    sync_error,
)
from coordinator.group.consumer.client_protocol import PROTOCOL_TYPE, MalformedProtocolError
from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.member import Member
from coordinator.group.consumer.member_deadlines import Wait
from coordinator.group.consumer.migration import named_assignment
from coordinator.group.image import GroupsImage
from coordinator.runtime.write import Write
from quorum_controller.bodies import NO_TIME
from wire.api_keys import JOIN_GROUP, SYNC_GROUP
from wire.errors import ApiError, ErrorCode
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

Answer = Callable[[Any], None]


class ClassicRequests:
    """Requests of the classic protocol to consumer groups; answers are kio's newest bodies."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups
        self._deadlines = groups.deadlines

    def takes(self, group_id: str) -> bool:
        """True if the latest group of this id is a consumer group with members."""
        group = self._groups.group(group_id)
        return group is not None and bool(group.members)

    def join(self, request: Join, uuid: str, answer: Answer) -> None:
        """JoinGroup, answered once when its records are committed; `uuid` is random."""

        def decide(image: GroupsImage) -> Write[Any] | ApiError:
            return self._join(_group_of(image, request.group_id), request, uuid)

        def settle(found: Any) -> None:
            if isinstance(found, ApiError):
                answer(responses.join_error(found.code))
                return
            self._begin_sync(request, found)
            answer(found)

        self._groups.write(request.group_id, decide, settle)

    def sync(self, request: "SyncGroupRequest", answer: Answer) -> None:
        """SyncGroup, answered once."""

        def settle(found: Any) -> None:
            refused = isinstance(found, ApiError)
            answer(responses.sync_error(found.code) if refused else found)

        decide = partial(self._sync, request=request)
        self._groups.write(request.group_id, decide, settle)

    def heartbeat(self, request: "HeartbeatRequest", answer: Answer) -> None:
        """Heartbeat, answered once."""

        def settle(found: ErrorCode | ApiError) -> None:
            answer(responses.heartbeat(found.code if isinstance(found, ApiError) else found))

        decide = partial(self._heartbeat, request=request)
        self._groups.write(request.group_id, decide, settle)

    def leave(self, request: "LeaveGroupRequest", answer: Answer) -> None:
        """LeaveGroup, answered once; members of both protocols may be named."""

        def settle(found: Any) -> None:
            refused = isinstance(found, ApiError)
            answer(responses.leave_error(found.code) if refused else found)

        decide = partial(self._leave, request=request)
        self._groups.write(request.group_id, decide, settle)

    def _join(self, group: ConsumerGroup, request: Join, uuid: str) -> Write[Any] | ApiError:
        draft = GroupDraft(group)
        around = self._groups.surroundings(group)
        found = join(draft, request, uuid, around)
        if isinstance(found, ApiError):
            return found
        if isinstance(found, NewMemberId):
            code = ErrorCode.member_id_required
            return Write(response=responses.join_error(code, found.member_id))
        response = codec.newest(JOIN_GROUP, "response").JoinGroupResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            generation_id=found.member.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=found.protocol_name,
            leader=responses.NO_LEADER,
            member_id=found.member.member_id,
            members=(),
        )
        self._groups.raised(draft)
        if found.is_downgraded:
            self._groups.hand_over(group, rebalances=found.rebalances)
            return self._groups.undoable(draft, group, response)
        if found.has_compared_topics:
            self._groups.has_compared(draft.group, around)
        self._deadlines.watch_revocation(group.group_id, found.member)
        return Write(response=response, records=tuple(draft.records))

    def _begin_sync(self, request: Join, response: Any) -> None:
        """Expect the SyncGroup of a member that has joined a group that is a consumer group."""
        group = self._groups.group(request.group_id)
        member_id = response.member_id
        if group is None or member_id not in group.members:
            return
        key = (request.group_id, member_id)
        self._deadlines.end(key, Wait.JOIN)
        self._deadlines.set(key, Wait.SESSION, request.session_timeout_ms)
        self._deadlines.set(key, Wait.SYNC, request.rebalance_timeout_ms)

    def _sync(self, image: GroupsImage, request: "SyncGroupRequest") -> Write[Any] | ApiError:
        group = _group_of(image, request.group_id)
        member = classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if isinstance(member, ApiError):
            return member
        refused = sync_error(group, member, request.protocol_type, request.protocol_name)
        if refused is not None:
            if refused.code is ErrorCode.rebalance_in_progress:
                self._expect_join(group, member)
            return refused
        cluster = self._groups.surroundings(group).cluster
        try:
            assignment = named_assignment(member, cluster)
        except MalformedProtocolError:
            return ApiError(ErrorCode.unknown_server_error)
        key = (group.group_id, member.member_id)
        self._deadlines.end(key, Wait.SYNC)
        self._keep_session(group, member)
        return Write(
            response=codec.newest(SYNC_GROUP, "response").SyncGroupResponse(
                throttle_time=NO_TIME,
                error_code=ErrorCode.none,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=assignment,
            )
        )

    def _heartbeat(
        self, image: GroupsImage, request: "HeartbeatRequest"
    ) -> Write[ErrorCode] | ApiError:
        group = _group_of(image, request.group_id)
        member = classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        if isinstance(member, ApiError):
            return member
        self._keep_session(group, member)
        if not should_rejoin(group, member):
            return Write(response=ErrorCode.none)
        self._expect_join(group, member)
        return Write(response=ErrorCode.rebalance_in_progress)

    def _leave(self, image: GroupsImage, request: "LeaveGroupRequest") -> Write[Any] | ApiError:
        group = _group_of(image, request.group_id)
        rows, left = [], {}
        for row in request.members:
            member = leaving_member(group, row.member_id, row.group_instance_id)
            code = member.code if isinstance(member, ApiError) else ErrorCode.none
            rows.append((row.member_id, row.group_instance_id, code))
            if not isinstance(member, ApiError):
                left[member.member_id] = member
        response = responses.left(tuple(rows))
        if not left:
            return Write(response=response)
        return self._groups.removal(GroupDraft(group), tuple(left.values()), response)

    def _keep_session(self, group: ConsumerGroup, member: Member) -> None:
        assert member.classic is not None, f"{member.member_id=} uses the consumer protocol"
        key = (group.group_id, member.member_id)
        self._deadlines.set(key, Wait.SESSION, member.classic.session_timeout_ms)

    def _expect_join(self, group: ConsumerGroup, member: Member) -> None:
        key = (group.group_id, member.member_id)
        self._deadlines.set_if_absent(key, Wait.JOIN, member.rebalance_timeout_ms)


def _group_of(image: GroupsImage, group_id: str) -> ConsumerGroup:
    """The group; one without members is as one that does not know the member."""
    group = image.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else ConsumerGroup(group_id=group_id)
