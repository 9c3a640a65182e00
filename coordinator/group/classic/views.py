"""Classic groups as admin clients see them: DescribeGroups, ListGroups.

apache/kafka: GroupMetadataManager.java (describeGroups, listGroups), ClassicGroupMember.java
(describe, describeNoMetadata)
"""

from typing import Any, Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.states import DEAD, STABLE
from wire.api_keys import DESCRIBE_GROUPS, LIST_GROUPS
from wire.errors import ErrorCode
from wire.messages import codec

GROUP_TYPE: Final = "classic"
FIRST_WITH_NOT_FOUND: Final = 6
"""Version of DescribeGroups from which an unknown group is GROUP_ID_NOT_FOUND, not Dead."""


def described(group: ClassicGroup) -> Any:
    """A group; subscriptions, and the protocol that they are of, only while it is Stable."""
    new = codec.newest(DESCRIBE_GROUPS, "response")
    protocol = group.protocol_name if group.state is STABLE else None
    return new.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(_member(member, protocol) for member in group.members.values()),
    )


def not_found(group_id: str, *, version: int, message: str) -> Any:
    """A group that is none, or no classic one, for DescribeGroups."""
    if version < FIRST_WITH_NOT_FOUND:
        return refused(group_id, ErrorCode.none, state=DEAD.value)
    return refused(group_id, ErrorCode.group_id_not_found, state=DEAD.value, message=message)


def refused(group_id: str, code: ErrorCode, *, state: str = "", message: str | None = None) -> Any:
    """A group of which DescribeGroups says an error, or nothing."""
    return codec.newest(DESCRIBE_GROUPS, "response").DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def listed(group: ClassicGroup) -> Any:
    """A group in a list."""
    return codec.newest(LIST_GROUPS, "response").ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )


def _member(member: Member, protocol: str | None) -> Any:
    new = codec.newest(DESCRIBE_GROUPS, "response")
    return new.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )
