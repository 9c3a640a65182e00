"""Handlers of the resources about groups."""

import bisect
from collections.abc import Iterable
from itertools import chain, islice

from broker.coordinators.coordinator_views import (
    ENDS_MAX,
    GROUPS_MAX,
    Coordinated,
    CoordinatorViews,
)
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.image import NO_OFFSETS, GroupsImage, TopicPartition
from coordinator.records.kinds import CONSUMER_OFFSETS
from inspection.coordinators.group_views import (
    GroupDetail,
    GroupsView,
    group_row,
    group_view,
    key_of,
)
from inspection.coordinators.held import held_here, sorted_elsewhere
from inspection.coordinators.pages import page
from inspection.coordinators.shares import coordinator_of, shares
from inspection.problem import Problem
from inspection.resources import Service, Values, partition_key
from metadata.image import Image
from wire.types import TopicIdPartition


async def groups(service: Service, values: Values) -> GroupsView:
    """Answer with a page of the groups that this node coordinates."""
    node, cluster = service.node, service.node.image
    held: Coordinated[GroupsImage] = await held_here(node, CoordinatorViews.groups)
    images = held.images
    count = sum(len(image.groups) for image in images.values())
    limit = values["limit"]
    assert limit <= GROUPS_MAX, "all states of a page are asked for at once"
    shown, next_after = await sorted_elsewhere(
        count, lambda: page(images, lambda image: image.groups, values["after"], limit)
    )
    offsets = [images[number].offsets.get(name, NO_OFFSETS) for name, number in shown]
    keys = _keys(cluster, islice(chain.from_iterable(offsets), ENDS_MAX))
    classic = tuple(
        name for name, number in shown if not isinstance(images[number].groups[name], ConsumerGroup)
    )
    states, ends = await held_here(
        node, lambda views: (views.classic_states(classic), views.ends(keys))
    )
    rows = await sorted_elsewhere(
        sum(map(len, offsets)),
        lambda: [
            group_row(name, number, images[number], states, ends, cluster) for name, number in shown
        ],
    )
    return GroupsView(
        metadata_offset=cluster.provenance.end_offset,
        groups=rows,
        group_count=count,
        loading_count=held.loading_count,
        coordinators=shares(cluster, CONSUMER_OFFSETS),
        next_after=next_after,
    )


async def group(service: Service, values: Values) -> GroupDetail:
    """Answer with one group."""
    node, cluster, name = service.node, service.node.image, values["id"]
    coordinator = coordinator_of(cluster, CONSUMER_OFFSETS, name)
    if coordinator is None:
        raise Problem.not_found("group", "id", name)
    held: Coordinated[GroupsImage] = await held_here(node, CoordinatorViews.groups)
    image = held.images.get(coordinator.partition)
    end_offset = cluster.provenance.end_offset
    if image is None:
        return GroupDetail(
            metadata_offset=end_offset, coordinator=coordinator, group=None, next_after=None
        )
    found = image.groups.get(name)
    if found is None:
        raise Problem.not_found("group", "id", name)
    offsets, next_after = await sorted_elsewhere(
        len(image.offsets.get(name, NO_OFFSETS)), lambda: _offsets(image, name, values)
    )
    keys = _keys(cluster, offsets)
    classic = () if isinstance(found, ConsumerGroup) else (name,)
    states, ends, assignor = await held_here(
        node,
        lambda views: (views.classic_states(classic), views.ends(keys), views.default_assignor),
    )
    shown = group_view(
        name,
        image,
        offsets,
        state=states.get(name),
        ends=ends,
        cluster=cluster,
        default_assignor=assignor,
    )
    return GroupDetail(
        metadata_offset=end_offset, coordinator=coordinator, group=shown, next_after=next_after
    )


def _offsets(
    image: GroupsImage, name: str, values: Values
) -> tuple[list[TopicPartition], str | None]:
    """The partitions of a page of a group's offsets, and the mark of the next page."""
    after, limit = partition_key(values["after"]), values["limit"]
    keys = sorted(image.offsets.get(name, NO_OFFSETS))
    start = 0 if after is None else bisect.bisect_right(keys, after)
    shown = keys[start : start + limit]
    has_more = start + limit < len(keys)
    return shown, f"{shown[-1][0]}-{shown[-1][1]}" if has_more else None


def _keys(cluster: Image, partitions: Iterable[TopicPartition]) -> tuple[TopicIdPartition, ...]:
    """Those of the partitions whose topics exist, each once."""
    found = (key_of(cluster, at) for at in partitions)
    return tuple(dict.fromkeys(key for key in found if key is not None))
