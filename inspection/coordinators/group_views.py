"""Answers about groups, pure functions of the committed images of `__consumer_offsets`.

The lag of a partition is what lies between a committed offset and the end of the log that a
consumer reads to, its high watermark, as far as this node has a replica.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, Literal

from coordinator.group.classic.states import EMPTY, STABLE
from coordinator.group.consumer.client_protocol import (
    PROTOCOL_TYPE,
    MalformedProtocolError,
    TopicPartitions,
    assignment_of,
    subscription_of,
)
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    EpochsByTopic,
    Member,
    MemberState,
    PartitionsByTopic,
)
from coordinator.group.image import (
    NO_OFFSETS,
    Group,
    GroupsImage,
    OffsetAndMetadata,
    TopicPartition,
)
from coordinator.records.group import GroupMetadataValue, MemberMetadata
from inspection.coordinators.shares import CoordinatorShare, CoordinatorView
from inspection.views import AtOffset, View
from metadata.image import Image
from wire.types import TopicId, TopicIdPartition

MEMBERS_MAX: Final = 500
"""Members of one group in an answer."""

Kind = Literal["classic", "consumer"]
_STATE_NAMES: Final = {state: state.name.lower() for state in MemberState}
Ends = Mapping[TopicIdPartition, int]


class AssignedView(View, frozen=True, kw_only=True):
    """Partitions of one topic."""

    topic: str
    partitions: list[int]


class MemberView(View, frozen=True, kw_only=True):
    """A member of a group."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int | None
    """Member epoch; None in a classic group."""
    state: str | None
    """Progress towards its target; None in a classic group."""
    subscribed_topics: list[str]
    subscribed_regex: str | None
    assignment: list[AssignedView]
    """Partitions that it has, and those that it still has to give up."""
    target: list[AssignedView] | None
    """Partitions that it is to have; None in a classic group."""


class OffsetView(View, frozen=True, kw_only=True):
    """A committed offset."""

    topic: str
    partition: int
    offset: int
    commit_timestamp_ms: int
    is_pending: bool
    """True if an open transaction has another one."""
    log_end_offset: int | None
    """High watermark at this node; None if it has no replica."""
    lag: int | None


class GroupRow(View, frozen=True, kw_only=True):
    """A group in a list."""

    id: str
    partition: int
    """Of `__consumer_offsets`."""
    type: Kind
    protocol_type: str
    state: str
    member_count: int
    offset_count: int
    lag: int | None
    """Of the partitions whose end is known here, in all; None without any."""
    unknown_lag_count: int
    """Committed offsets of partitions without a replica here, or beyond the first 1,000."""


class GroupView(View, frozen=True, kw_only=True):
    """A group with its members; its offsets come in pages."""

    id: str
    type: Kind
    protocol_type: str
    state: str
    epoch: int | None
    """Group epoch, or generation of a classic group; None if it has only committed offsets."""
    assignment_epoch: int | None
    """Epoch of the targets; None in a classic group."""
    assignor: str | None
    """Assignor, or chosen protocol of a classic group."""
    leader: str | None
    """Member that assigns; None in a consumer group."""
    member_count: int
    members: list[MemberView]
    """The first 500 by id."""
    offset_count: int
    lag: int | None
    """Of the offsets on this page whose end is known here, in all; None without any."""
    offsets: list[OffsetView]
    """By topic and partition."""


class GroupsView(AtOffset, frozen=True, kw_only=True):
    """A page of the groups that this node coordinates, by id."""

    groups: list[GroupRow]
    group_count: int
    """Number of groups that this node coordinates."""
    loading_count: int
    """Partitions of `__consumer_offsets` whose groups are not loaded yet."""
    coordinators: list[CoordinatorShare]
    """Nodes that coordinate groups, each its own."""
    next_after: str | None


class GroupDetail(AtOffset, frozen=True, kw_only=True):
    """One group."""

    coordinator: CoordinatorView
    group: GroupView | None
    """None if another node coordinates it, or while it is loaded here."""
    next_after: str | None
    """Mark of the next page of its offsets."""


# ---- rows of a list ----------------------------------------------------------------------------


def group_row(
    name: str,
    number: int,
    image: GroupsImage,
    states: Mapping[str, str],
    ends: Ends,
    cluster: Image,
) -> GroupRow:
    """The row of a group.

    Args:
        name: of the group.
        number: of its partition.
        image: of the partition.
        states: of classic groups, by id.
        ends: of logs, as far as they are known.
        cluster: newest metadata, for ids of topics.
    """
    group = image.groups[name]
    offsets = image.offsets.get(name, NO_OFFSETS)
    lags = [lag_of(cluster, ends, at, found) for at, found in offsets.items()]
    known = [lag for lag in lags if lag is not None]
    return GroupRow(
        id=name,
        partition=number,
        type=kind_of(group),
        protocol_type=protocol_type_of(group),
        state=state_of(group, states.get(name)),
        member_count=member_count_of(group),
        offset_count=len(offsets),
        lag=sum(known) if known else None,
        unknown_lag_count=len(lags) - len(known),
    )


def kind_of(group: Group) -> Kind:
    """The type of a group."""
    return "consumer" if isinstance(group, ConsumerGroup) else "classic"


def protocol_type_of(group: Group) -> str:
    """The protocol type of a group; empty if it has only committed offsets."""
    if isinstance(group, ConsumerGroup):
        return PROTOCOL_TYPE
    return str(group.protocol_type) if isinstance(group, GroupMetadataValue) else ""


def state_of(group: Group, known: str | None) -> str:
    """The state of a group; of a classic one as the coordinator knows it, else by its record."""
    if isinstance(group, ConsumerGroup):
        return str(group.state)
    if known is not None:
        return known
    return str((STABLE if member_count_of(group) else EMPTY).value)


def member_count_of(group: Group) -> int:
    """Number of committed members."""
    return len(group.members) if isinstance(group, ConsumerGroup | GroupMetadataValue) else 0


def lag_of(cluster: Image, ends: Ends, at: TopicPartition, found: OffsetAndMetadata) -> int | None:
    """Number of records behind a committed offset; None if the end is not known."""
    key = key_of(cluster, at)
    end = None if key is None else ends.get(key)
    return None if end is None else max(0, end - found.offset)


def key_of(cluster: Image, at: TopicPartition) -> TopicIdPartition | None:
    """A partition by the id of its topic; None if there is no such topic."""
    topic_id = cluster.topic_id_by_name.get(at[0])
    return None if topic_id is None else (topic_id, at[1])


# ---- one group -----------------------------------------------------------------------------------


def group_view(
    name: str,
    image: GroupsImage,
    offsets: Iterable[TopicPartition],
    *,
    state: str | None,
    ends: Ends,
    cluster: Image,
    default_assignor: str,
) -> GroupView:
    """A group.

    Args:
        name: of the group.
        image: of its partition.
        offsets: the partitions whose offsets are shown.
        state: of a classic group; None if it is not known.
        ends: of logs, as far as they are known.
        cluster: newest metadata, for names and ids of topics.
        default_assignor: of a consumer group whose members prefer none.
    """
    group = image.groups[name]
    epoch, assignor = _epoch_and_assignor(group, default_assignor)
    rows = [_offset(name, image, at, ends, cluster) for at in offsets]
    lags = [row.lag for row in rows if row.lag is not None]
    return GroupView(
        id=name,
        type=kind_of(group),
        protocol_type=protocol_type_of(group),
        state=state_of(group, state),
        epoch=epoch,
        assignment_epoch=group.assignment_epoch if isinstance(group, ConsumerGroup) else None,
        assignor=assignor,
        leader=group.leader if isinstance(group, GroupMetadataValue) else None,
        member_count=member_count_of(group),
        members=_members(group, cluster),
        offset_count=len(image.offsets.get(name, NO_OFFSETS)),
        lag=sum(lags) if lags else None,
        offsets=rows,
    )


def _epoch_and_assignor(group: Group, default_assignor: str) -> tuple[int | None, str | None]:
    if isinstance(group, ConsumerGroup):
        return group.group_epoch, group.preferred_assignor(default_assignor)
    if isinstance(group, GroupMetadataValue):
        return group.generation, group.protocol
    return None, None


def _offset(
    name: str, image: GroupsImage, at: TopicPartition, ends: Ends, cluster: Image
) -> OffsetView:
    found = image.offsets[name][at]
    key = key_of(cluster, at)
    return OffsetView(
        topic=at[0],
        partition=at[1],
        offset=found.offset,
        commit_timestamp_ms=found.commit_timestamp_ms,
        is_pending=image.is_open(name, at),
        log_end_offset=None if key is None else ends.get(key),
        lag=lag_of(cluster, ends, at, found),
    )


def _members(group: Group, cluster: Image) -> list[MemberView]:
    if isinstance(group, ConsumerGroup):
        return [
            _member(group.members[member_id], group.targets.get(member_id, {}), cluster)
            for member_id in islice(sorted(group.members), MEMBERS_MAX)
        ]
    if isinstance(group, GroupMetadataValue):
        members = sorted(group.members, key=lambda each: each.member_id)
        return [_classic_member(group, each) for each in members[:MEMBERS_MAX]]
    return []


def _member(member: Member, target: PartitionsByTopic, cluster: Image) -> MemberView:
    return MemberView(
        id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        epoch=member.member_epoch,
        state=_STATE_NAMES[member.state],
        subscribed_topics=list(member.subscribed_topic_names),
        subscribed_regex=member.regex,
        assignment=_assigned(_owned(member), cluster),
        target=_assigned(target, cluster),
    )


def _owned(member: Member) -> PartitionsByTopic:
    owned: dict[TopicId, tuple[int, ...]] = {}
    held: tuple[EpochsByTopic, ...] = (member.assigned, member.pending_revocation)
    for epochs in held:
        for topic_id, partitions in epochs.items():
            owned[topic_id] = tuple(sorted({*owned.get(topic_id, ()), *partitions}))
    return owned


def _assigned(partitions: PartitionsByTopic, cluster: Image) -> list[AssignedView]:
    """Partitions of the topics that exist, by name."""
    found = {
        cluster.topics[topic_id].name: numbers
        for topic_id, numbers in partitions.items()
        if topic_id in cluster.topics
    }
    return _by_name(found)


def _by_name(partitions: TopicPartitions) -> list[AssignedView]:
    return [
        AssignedView(topic=name, partitions=sorted(partitions[name])) for name in sorted(partitions)
    ]


def _classic_member(group: GroupMetadataValue, member: MemberMetadata) -> MemberView:
    """A member; what is no subscription or assignment of a consumer is left out."""
    topics: tuple[str, ...] = ()
    assigned: TopicPartitions = {}
    if group.protocol_type == PROTOCOL_TYPE:
        try:
            topics = subscription_of(member.subscription).topics
            assigned, _ = assignment_of(member.assignment)
        except MalformedProtocolError:
            pass
    return MemberView(
        id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        epoch=None,
        state=None,
        subscribed_topics=sorted(topics),
        subscribed_regex=None,
        assignment=_by_name(assigned),
        target=None,
    )
