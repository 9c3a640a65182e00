"""Classic groups that become consumer groups, and the other way round, while they have members.

A member of the consumer protocol that joins a classic group makes it a consumer group, with the
others as members of the classic protocol. When the last member of the consumer protocol leaves, or
comes back as a static member of the classic one, it is a classic group again.
(apache/kafka: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup,
ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup; KIP-848 "Upgrade and downgrade")
"""

from collections.abc import Collection

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member as ClassicMember
from coordinator.group.classic.member import MemberProtocol
from coordinator.group.classic.record import group_record, tombstone
from coordinator.group.classic.states import STABLE
from coordinator.group.consumer.client_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocolError,
    assignment_bytes,
    assignment_of,
    subscription_of,
    version_of,
)
from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import epoch_record
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    Member,
    PartitionsByTopic,
    assignment_record,
    subscription_record,
    topic_names,
)
from coordinator.group.consumer.metadata_hash import TopicHashes
from coordinator.group.consumer.settings import ConsumerSettings
from coordinator.group.consumer.targets import assignment_epoch_record, target_record
from coordinator.group.consumer.tombstones import group_tombstones
from coordinator.records.consumer import ClassicMemberMetadata, ClassicProtocol
from metadata.image import Image
from wire.errors import ApiError, ErrorCode
from wire.types import TopicId


def upgrade_error(group: ClassicGroup, settings: ConsumerSettings) -> ApiError | None:
    """GROUP_ID_NOT_FOUND of a classic group that stays one; None if it may be converted."""
    if not settings.migration_policy.is_upgrade_enabled:
        reason = "online upgrade is disabled"
    elif not group.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > settings.max_size:
        reason = "the group size exceeds the consumer group maximum size"
    else:
        return None
    return _not_upgraded(group.group_id, reason)


def upgraded(group: ClassicGroup, hashes: TopicHashes, cluster: Image) -> GroupDraft | ApiError:
    """The consumer group that a classic group becomes, with the records that make it so.

    Its epoch is the generation; every member has its target, which is its last assignment.

    Errors: GROUP_ID_NOT_FOUND if the metadata or assignments of clients cannot be read, or have
    data of an assignor of their own; UNKNOWN_SERVER_ERROR if a partition has two members, or a
    member has no metadata for the protocol of the generation: it has just joined.
    """
    group_id, epoch = group.group_id, group.generation_id
    if any(not _has_metadata(group, member) for member in group.members.values()):
        return ApiError(ErrorCode.unknown_server_error)
    try:
        members = [_upgraded_member(group, member, cluster) for member in _members(group)]
    except MalformedProtocolError:
        return _not_upgraded(group_id, "the embedded consumer protocol is malformed")
    if any(member is None for member in members):
        return ApiError(
            ErrorCode.group_id_not_found,
            f"Cannot upgrade classic group {group_id} to consumer group because an unsupported "
            "custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    found = [member for member in members if member is not None]
    if _has_shared_partition(found):
        return ApiError(ErrorCode.unknown_server_error)
    draft = GroupDraft(ConsumerGroup(group_id=group_id), (tombstone(group_id),))
    for member in found:
        draft.emit(subscription_record(group_id, member))
    draft.emit(epoch_record(group_id, epoch, hashes.of_group(draft.group.topic_counts, cluster)))
    for member in found:
        draft.emit(target_record(group_id, member.member_id, _partitions(member)))
    draft.emit(assignment_epoch_record(group_id, epoch, 0))
    for member in found:
        draft.emit(assignment_record(group_id, member))
    return draft


def may_downgrade(
    group: ConsumerGroup,
    without: Collection[Member],
    left_count: int,
    settings: ConsumerSettings,
) -> bool:
    """True if a group becomes a classic one without these members.

    Args:
        group: before they have gone.
        without: members that leave, or the one that is replaced by one of the classic protocol.
        left_count: number of members behind that.
        settings: of the broker.
    """
    classic_count = group.classic_member_count - sum(
        member.uses_classic_protocol for member in without
    )
    return (
        classic_count == len(group.members) - len(without)
        and 0 < left_count <= settings.classic_max_size
        and settings.migration_policy.is_downgrade_enabled
    )


def downgrade(
    draft: GroupDraft, left: Collection[Member], generation: int, cluster: Image, wall_ms: int
) -> ApiError | None:
    """Emit the tombstones of a group, and the record of the classic group of these members.

    Members keep their targets as assignments.

    Errors: GROUP_ID_NOT_FOUND if the metadata of a client cannot be read.
    """
    group = draft.group
    classic = ClassicGroup(group.group_id, state=STABLE, timestamp_ms=wall_ms)
    classic.generation_id = generation
    classic.protocol_type = PROTOCOL_TYPE
    for member in sorted(left, key=lambda member: member.member_id):
        classic.add(_downgraded_member(member), None)
    classic.protocol_name = classic.selected_protocol()
    assignments = {}
    try:
        for each in classic.members.values():
            assignments[each.member_id] = assignment_bytes(
                _named(group.targets.get(each.member_id, {}), cluster),
                version_of(each.metadata(classic.protocol_name)),
            )
    except MalformedProtocolError as error:
        return ApiError(
            ErrorCode.group_id_not_found,
            f"Cannot downgrade the classic group {group.group_id}: {error}.",
        )
    draft.records += group_tombstones(group)
    draft.records.append(group_record(classic, assignments))
    return None


def _members(group: ClassicGroup) -> list[ClassicMember]:
    return [group.members[member_id] for member_id in sorted(group.members)]


def _has_metadata(group: ClassicGroup, member: ClassicMember) -> bool:
    return any(protocol.name == group.protocol_name for protocol in member.protocols)


def _upgraded_member(group: ClassicGroup, member: ClassicMember, cluster: Image) -> Member | None:
    """The member in the consumer group; None if its assignment has data of its assignor."""
    partitions, user_data = assignment_of(member.assignment)
    if user_data:
        return None
    assert group.protocol_name is not None, "a group of members has a protocol"
    subscription = subscription_of(member.metadata(group.protocol_name))
    ids = cluster.topic_id_by_name
    epoch = group.generation_id
    return Member(
        member_id=member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=topic_names(subscription.topics),
        assigned={
            ids[name]: dict.fromkeys(numbers, epoch)
            for name, numbers in sorted(partitions.items())
            if name in ids and numbers
        },
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=classic_protocols(member.protocols),
        ),
    )


def classic_protocols(protocols: tuple[MemberProtocol, ...]) -> tuple[ClassicProtocol, ...]:
    """Protocols of a JoinGroup as the record of a member has them."""
    return tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in protocols)


def _downgraded_member(member: Member) -> ClassicMember:
    assert member.classic is not None, f"{member.member_id=} uses the consumer protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(
            MemberProtocol(each.name, each.metadata) for each in member.classic.supported_protocols
        ),
    )


def named_assignment(member: Member, cluster: Image) -> bytes:
    """Partitions that a member of the classic protocol may use, in the version of its metadata.

    Raises:
        MalformedProtocolError: the metadata has none.
    """
    assert member.classic is not None, f"{member.member_id=} uses the consumer protocol"
    version = version_of(member.classic.supported_protocols[0].metadata)
    return assignment_bytes(_named(_partitions(member), cluster), version)


def _partitions(member: Member) -> PartitionsByTopic:
    return {topic_id: tuple(sorted(epochs)) for topic_id, epochs in member.assigned.items()}


def _named(partitions: PartitionsByTopic, cluster: Image) -> dict[str, tuple[int, ...]]:
    """Partitions by the names of the topics that exist."""
    return {
        cluster.topics[topic_id].name: numbers
        for topic_id, numbers in partitions.items()
        if topic_id in cluster.topics
    }


def _has_shared_partition(members: Collection[Member]) -> bool:
    owned: set[tuple[TopicId, int]] = set()
    for member in members:
        for topic_id, epochs in member.assigned.items():
            for partition in epochs:
                if (topic_id, partition) in owned:
                    return True
                owned.add((topic_id, partition))
    return False


def _not_upgraded(group_id: str, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {group_id} to consumer group because {reason}.",
    )
