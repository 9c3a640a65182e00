"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat.

Such a member owns what its subscription says when it joins, gets its assignment with SyncGroup, and
is told by Heartbeat to join again when it has a step to take. Its generation is its member epoch.
(apache/kafka: GroupMetadataManager.classicGroup{Join,Sync,Heartbeat}ToConsumerGroup)
"""

import msgspec

from coordinator.group.classic.member import protocol_names
from coordinator.group.classic.requests import Join
from coordinator.group.consumer.client_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocolError,
    Subscription,
    subscription_of,
)
from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import refresh_epoch
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    Member,
    MemberState,
    subscription_record,
    topic_names,
)
from coordinator.group.consumer.membership import (
    group_is_full_error,
    member_of,
    replace_member,
    unknown_member_error,
)
from coordinator.group.consumer.migration import classic_protocols, downgrade, may_downgrade
from coordinator.group.consumer.reconciliation import OwnedPartitions
from coordinator.group.consumer.settings import MigrationPolicy
from coordinator.group.consumer.steps import Surroundings, make_targets_if_due, take_step
from coordinator.group.consumer.tombstones import regex_tombstone
from coordinator.records.consumer import ClassicMemberMetadata
from metadata.image import Image
from wire.errors import ApiError, ErrorCode


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a JoinGroup that is accepted; records are in the draft."""

    member: Member
    """Behind its step."""
    protocol_name: str
    has_compared_topics: bool
    is_downgraded: bool = False
    """True if the group is a classic one from now on."""
    rebalances: bool = False
    """True if that one has to rebalance."""


class NewMemberId(msgspec.Struct, frozen=True):
    """The id with which a new member has to join again."""

    member_id: str


def join(
    draft: GroupDraft, request: Join, new_member_id: str, around: Surroundings
) -> Joined | NewMemberId | ApiError:
    """Decide on a JoinGroup to a group with members.

    Errors: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID; UNKNOWN_SERVER_ERROR for metadata that cannot be read; GROUP_ID_NOT_FOUND if
    that of others cannot.
    """
    group = draft.group
    member_id = request.member_id or new_member_id
    refused = _join_error(group, request, member_id, around)
    if refused is not None:
        return refused
    instance_id = request.group_instance_id
    if request.is_id_required and not request.member_id and instance_id is None:
        return NewMemberId(member_id)
    existing = None if instance_id is None else group.static_member(instance_id)
    joining = _joining(draft, request, member_id, existing, around.cluster)
    if isinstance(joining, ApiError):
        return joining
    compares = _subscribe(draft, joining, around)
    if existing is not None and _may_replace_all(group, existing, around):
        return _join_classic_group(draft, group, joining, around, compares=compares)
    make_targets_if_due(draft, around)
    return _joined(draft, joining, around, compares=compares)


class _Joining(msgspec.Struct, frozen=True, kw_only=True):
    """A member that joins: as it was, and as its request says."""

    before: Member
    member: Member
    owned: OwnedPartitions
    protocol_name: str

    @property
    def has_changed(self) -> bool:
        """True if it subscribes other topics."""
        before, after = self.before, self.member
        return (
            after.subscribed_topic_names != before.subscribed_topic_names
            or after.subscribed_topic_regex != before.subscribed_topic_regex
        )


def _joining(
    draft: GroupDraft, request: Join, member_id: str, existing: Member | None, cluster: Image
) -> _Joining | ApiError:
    """The member that joins; one that takes the place of another has done so in the draft."""
    before = _member_of_join(draft, request, member_id, existing)
    if isinstance(before, ApiError):
        return before
    try:
        subscription = subscription_of(request.protocols[0].metadata)
    except MalformedProtocolError:
        return ApiError(ErrorCode.unknown_server_error)
    return _Joining(
        before=before,
        member=_updated_member(before, request, subscription),
        owned=_owned(subscription, cluster),
        protocol_name=request.protocols[0].name,
    )


def _subscribe(draft: GroupDraft, joining: _Joining, around: Surroundings) -> bool:
    """Emit what the member subscribes, and the epoch that follows; True if topics were compared."""
    before, group = joining.before, draft.group
    if joining.member != before:
        draft.emit(subscription_record(group.group_id, joining.member))
    if before.regex is not None and group.regex_counts[before.regex] == 1:
        draft.emit(regex_tombstone(group.group_id, before.regex))
    compares = joining.has_changed or not around.has_seen_topics
    if compares:
        refresh_epoch(draft, around.hashes, around.cluster, is_raised=joining.has_changed)
    return compares


def _may_replace_all(group: ConsumerGroup, replaced: Member, around: Surroundings) -> bool:
    """True if the replaced member was the last of the consumer protocol."""
    return not replaced.uses_classic_protocol and may_downgrade(
        group, (replaced,), len(group.members), around.settings
    )


def _join_classic_group(
    draft: GroupDraft,
    group: ConsumerGroup,
    joining: _Joining,
    around: Surroundings,
    *,
    compares: bool,
) -> Joined | ApiError:
    """Make a classic group of `group`; if its targets are not due, the member takes its step.

    Not beside a member that waits for its target: it has taken less in this generation, and would
    never be given the rest. (Kafka 4.3 leaves it so.)
    """
    epoch = draft.group.assignment_epoch
    rebalances = epoch < draft.group.group_epoch or any(
        not member.is_reconciled_to(epoch)
        for member_id, member in draft.group.members.items()
        if member_id != joining.member.member_id
    )
    joined: Joined | ApiError = Joined(
        member=joining.member, protocol_name=joining.protocol_name, has_compared_topics=compares
    )
    if not rebalances:
        joined = _joined(draft, joining, around, compares=compares)
    members = tuple(draft.group.members.values())
    refused = downgrade(draft, members, group.group_epoch, around.cluster, around.wall_ms)
    if refused is not None or isinstance(joined, ApiError):
        return refused or joined
    return msgspec.structs.replace(joined, is_downgraded=True, rebalances=rebalances)


def _joined(
    draft: GroupDraft, joining: _Joining, around: Surroundings, *, compares: bool
) -> Joined | ApiError:
    moved = take_step(draft, joining.member, joining.owned, around, has_changed=joining.has_changed)
    if isinstance(moved, ApiError):
        return moved
    return Joined(member=moved, protocol_name=joining.protocol_name, has_compared_topics=compares)


def sync_error(
    group: ConsumerGroup, member: Member, protocol_type: str | None, protocol_name: str | None
) -> ApiError | None:
    """INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS; None if it may have its assignment."""
    assert member.classic is not None, f"{member.member_id=} uses the consumer protocol"
    known = member.classic.supported_protocols[0].name
    if protocol_type not in (None, PROTOCOL_TYPE):
        return ApiError(
            ErrorCode.inconsistent_group_protocol,
            f"The protocol type {protocol_type} from member {member.member_id} request is not "
            f"equal to the group protocol type {PROTOCOL_TYPE}.",
        )
    if protocol_name not in (None, known):
        return ApiError(
            ErrorCode.inconsistent_group_protocol,
            f"The protocol name {protocol_name} from member {member.member_id} request is not "
            f"equal to the protocol name {known} returned in the join response.",
        )
    is_behind = group.assignment_epoch > member.member_epoch
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return ApiError(
            ErrorCode.rebalance_in_progress,
            f"A new rebalance is triggered in group {group.group_id} and member "
            f"{member.member_id} should rejoin to catch up.",
        )
    return None


def should_rejoin(group: ConsumerGroup, member: Member) -> bool:
    """True if a member has a step to take: a newer target, partitions to give up or to take."""
    if member.member_epoch < group.assignment_epoch:
        return True
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not _waits_for_others(group, member)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> Member | ApiError:
    """The member of a SyncGroup or Heartbeat.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member = member_of(group, member_id, instance_id)
    if isinstance(member, ApiError):
        return member
    if not member.uses_classic_protocol:
        return ApiError(
            ErrorCode.unknown_member_id,
            f"Member {member_id} does not use the classic protocol.",
        )
    if generation != member.member_epoch:
        return ApiError(
            ErrorCode.illegal_generation,
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.member_epoch} of member {member_id}.",
        )
    return member


def leaving_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> Member | ApiError:
    """The member that a row of LeaveGroup names; one without a member id is an admin client's.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is not None and not member_id:
        member = group.static_member(instance_id)
        return member or unknown_member_error(group.group_id, instance_id)
    return member_of(group, member_id, instance_id)


def _join_error(
    group: ConsumerGroup, request: Join, member_id: str, around: Surroundings
) -> ApiError | None:
    """Errors that need no member."""
    if around.settings.migration_policy is MigrationPolicy.DISABLED:
        return ApiError(
            ErrorCode.inconsistent_group_protocol,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because "
            "the group migration is disabled.",
        )
    full = group_is_full_error(group, member_id, around.settings.max_size)
    if full is not None:
        return full
    counts = group.classic_protocol_counts
    is_supported = request.protocol_type == PROTOCOL_TYPE and any(
        counts.get(name, 0) == group.classic_member_count
        for name in protocol_names(request.protocols)
    )
    if is_supported:
        return None
    return ApiError(
        ErrorCode.inconsistent_group_protocol,
        f"Member {member_id}'s protocols are not supported.",
    )


def _member_of_join(
    draft: GroupDraft, request: Join, member_id: str, existing: Member | None
) -> Member | ApiError:
    """The member as it is before the request; a static one replaces that with its instance id."""
    if request.group_instance_id is None or (existing is None and not request.member_id):
        return draft.group.members.get(member_id) or Member(member_id=member_id)
    if request.member_id:
        return member_of(draft.group, member_id, request.group_instance_id)
    assert existing is not None, "without one the member is new"
    return replace_member(draft, existing, member_id)


def _updated_member(member: Member, request: Join, subscription: Subscription) -> Member:
    instance_id = request.group_instance_id
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=topic_names(subscription.topics),
        subscribed_topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=classic_protocols(request.protocols),
        ),
    )


def _owned(subscription: Subscription, cluster: Image) -> OwnedPartitions:
    ids = cluster.topic_id_by_name
    return {ids[name]: numbers for name, numbers in subscription.owned.items() if name in ids}


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """True if a partition of its target is still another's."""
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.is_owned(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions
    )
