"""GroupMetadata, the record of a classic group: from a group, and back.

apache/kafka: GroupCoordinatorRecordHelpers.newGroupMetadataRecord,
GroupMetadataManager.replay(GroupMetadataKey, GroupMetadataValue)
"""

from collections.abc import Mapping
from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NO_ASSIGNMENT, Member, MemberProtocol
from coordinator.group.classic.states import EMPTY, STABLE
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from coordinator.records.schema import CoordinatorRecord

NO_TIMESTAMP: Final = -1
SESSION_TIMEOUT: Final = -1
"""Rebalance timeout of a record that has none: it is the session's."""


def group_record(
    group: ClassicGroup, assignments: Mapping[str, bytes] | None = None
) -> CoordinatorRecord:
    """The record of the generation, with these assignments by member id, else the present ones."""
    timestamp_ms = group.state_timestamp_ms
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=NO_TIMESTAMP if timestamp_ms is None else timestamp_ms,
        members=tuple(_member(group, member, assignments) for member in group.members.values()),
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value)


def new_group_record(group_id: str, timestamp_ms: int) -> CoordinatorRecord:
    """The first record of a group, before a member has joined: generation 0."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=timestamp_ms,
        members=(),
    )
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value)


def tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes a group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def loaded_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group of a record: Empty, or Stable with its members.

    A member has the one protocol that was chosen; its others are learned when it joins again.
    What no coordinator writes, an id twice or a leader who is no member, is passed over.
    """
    timestamp_ms = value.current_state_timestamp
    group = ClassicGroup(
        group_id,
        state=STABLE if value.members else EMPTY,
        timestamp_ms=None if timestamp_ms == NO_TIMESTAMP else timestamp_ms,
    )
    group.generation_id = value.generation
    for loaded in value.members:
        is_known = (
            loaded.member_id in group.members or loaded.group_instance_id in group.static_members
        )
        if not is_known:
            group.add(_loaded_member(value, loaded), None)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = (value.protocol or "") if value.members else value.protocol
    if value.leader in group.members:
        group.leader_id = value.leader
    group.subscribed_topics = group.computed_topics()
    group.check()
    return group


def _member(
    group: ClassicGroup, member: Member, assignments: Mapping[str, bytes] | None
) -> MemberMetadata:
    assert group.protocol_name is not None, f"{group.group_id=} has members and no protocol"
    assignment = (
        member.assignment
        if assignments is None
        else assignments.get(member.member_id, NO_ASSIGNMENT)
    )
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(group.protocol_name),
        assignment=assignment,
    )


def _loaded_member(value: GroupMetadataValue, loaded: MemberMetadata) -> Member:
    rebalance_timeout_ms = loaded.rebalance_timeout
    if rebalance_timeout_ms == SESSION_TIMEOUT:
        rebalance_timeout_ms = loaded.session_timeout
    return Member(
        member_id=loaded.member_id,
        group_instance_id=loaded.group_instance_id,
        client_id=loaded.client_id,
        client_host=loaded.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=loaded.session_timeout,
        protocol_type=value.protocol_type,
        protocols=(MemberProtocol(value.protocol or "", loaded.subscription),),
        assignment=loaded.assignment,
    )
