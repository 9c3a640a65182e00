"""Answers about classic groups, in kio's newest classes.

apache/kafka: GroupMetadataManager.java (classicGroup*)
"""

from typing import Any, Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NO_ASSIGNMENT
from quorum_controller.bodies import NO_TIME
from wire.api_keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from wire.errors import ErrorCode
from wire.messages import codec

NO_GENERATION: Final = -1
NO_LEADER: Final = ""
NO_MEMBER_ID: Final = ""
"""Member id of a request whose client has none yet, and of answers that name none."""


def joined(
    group: ClassicGroup, member_id: str, *, with_members: bool, skip_assignment: bool = False
) -> Any:
    """JoinGroup of a member of the present generation; the leader gets all with their metadata."""
    new = codec.newest(JOIN_GROUP, "response")
    assert group.protocol_name is not None, f"{group.group_id=}"
    members = group.members.values() if with_members else ()
    return new.JoinGroupResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=tuple(
            new.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in members
        ),
    )


def join_error(code: ErrorCode, member_id: str = NO_MEMBER_ID) -> Any:
    """JoinGroup that is refused, or that asks the client to come again with this member id."""
    return codec.newest(JOIN_GROUP, "response").JoinGroupResponse(
        throttle_time=NO_TIME,
        error_code=code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=None,
        leader=NO_LEADER,
        member_id=member_id,
        members=(),
    )


def synced(group: ClassicGroup, member_id: str) -> Any:
    """SyncGroup with the assignment of a member."""
    return codec.newest(SYNC_GROUP, "response").SyncGroupResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )


def sync_error(code: ErrorCode) -> Any:
    """SyncGroup that is refused."""
    return codec.newest(SYNC_GROUP, "response").SyncGroupResponse(
        throttle_time=NO_TIME,
        error_code=code,
        protocol_type=None,
        protocol_name=None,
        assignment=NO_ASSIGNMENT,
    )


def heartbeat(code: ErrorCode) -> Any:
    """Heartbeat."""
    return codec.newest(HEARTBEAT, "response").HeartbeatResponse(
        throttle_time=NO_TIME, error_code=code
    )


def left(members: tuple[tuple[str, str | None, ErrorCode], ...]) -> Any:
    """LeaveGroup with the member id, the instance id and the error of each."""
    new = codec.newest(LEAVE_GROUP, "response")
    return new.LeaveGroupResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        members=tuple(
            new.MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code)
            for member_id, instance_id, code in members
        ),
    )


def leave_error(code: ErrorCode) -> Any:
    """LeaveGroup that is refused whole."""
    return codec.newest(LEAVE_GROUP, "response").LeaveGroupResponse(
        throttle_time=NO_TIME, error_code=code, members=()
    )
