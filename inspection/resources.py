"""Handlers of the API: parameters in, one view out. Reads only."""

import asyncio
import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from inspection.diff import DiffView, diff_changes
from inspection.health import HealthView, health_view, ready_checks
from inspection.history import History, gone, not_yet
from inspection.partition_counts import PartitionCounts
from inspection.problem import Problem
from inspection.quorum_views import QuorumView
from inspection.record_views import RecordsView, RecordView, record_views
from inspection.running_node import RunningNode
from inspection.views import (
    CONFIG_TYPES,
    AclView,
    AtOffset,
    BrokerView,
    ConfigsView,
    ControllerView,
    FeatureRange,
    FeatureView,
    PartitionView,
    QuotaView,
    ScramView,
    TopicDetail,
    TopicView,
    View,
    acl_views,
    broker_views,
    controller_views,
    feature_views,
    partition_filter,
    partition_view,
    partitions_in_order,
    quota_views,
    scram_views,
    shown_configs,
    topic_detail,
    topic_view,
)
from metadata.features import supported_features
from metadata.image import CONFIG_TOPIC, Image, sorted_items
from storage.errors import OffsetOutOfRangeError
from wire.types import NodeId

RECORDS_READ_BYTES: Final = 1024 * 1024
RECORDS_INLINE: Final = 200
DEFAULT_ENTITY: Final = "<default>"
PARTITIONS_INLINE: Final = 2_000
"""Limit of partitions up to which an image is read on the driver's thread."""


class BrokersView(AtOffset, frozen=True, kw_only=True):
    """A page of brokers by id."""

    brokers: list[BrokerView]
    broker_count: int
    """Number of brokers of the cluster."""
    next_after: int | None


class BrokerDetail(AtOffset, frozen=True, kw_only=True):
    """One broker."""

    broker: BrokerView


class TopicsView(AtOffset, frozen=True, kw_only=True):
    """A page of topics by name."""

    topics: list[TopicView]
    topic_count: int
    """Number of topics of the cluster."""
    next_after: str | None


class PartitionsView(AtOffset, frozen=True, kw_only=True):
    """A page of partitions by topic and number."""

    partitions: list[PartitionView]
    next_after: str | None


class FeaturesView(AtOffset, frozen=True, kw_only=True):
    """Features of the cluster and of this node."""

    finalized: list[FeatureView]
    supported: list[FeatureRange]


class AclsView(AtOffset, frozen=True, kw_only=True):
    """A page of access control entries by id."""

    acls: list[AclView]
    acl_count: int
    next_after: str | None


class QuotasView(AtOffset, frozen=True, kw_only=True):
    """A page of client quotas by entity."""

    quotas: list[QuotaView]
    quota_count: int
    """Number of entities with quotas in the cluster."""
    next_after: int | None
    """Number of quotas on this page and those before it; if the next page has another
    `metadata_offset`, quotas may have been added or removed in between."""


class ProducerIdsView(AtOffset, frozen=True, kw_only=True):
    """The allocation of producer ids."""

    next_producer_id: int | None
    """First id of the next block; None before the first block."""


class ConfigResourceView(View, frozen=True, kw_only=True):
    """The dynamic configs of one resource, inside an image."""

    type: int
    name: str
    configs: dict[str, str]


class ImageCounts(View, frozen=True, kw_only=True):
    """Number of objects of each kind in an image."""

    brokers: int
    controllers: int
    topics: int
    partitions: int
    configs: int
    """Resources with dynamic configs, topics included."""
    client_quotas: int
    acls: int
    scram: int
    delegation_tokens: int


class ImageView(AtOffset, frozen=True, kw_only=True):
    """A whole image; `/v1/topics`, `/v1/quotas` and others give the same in pages."""

    counts: ImageCounts
    epoch: int
    timestamp_ms: int
    features: list[FeatureView]
    brokers: list[BrokerView]
    controllers: list[ControllerView]
    topics: list[TopicDetail]
    configs: list[ConfigResourceView]
    client_quotas: list[QuotaView]
    next_producer_id: int | None
    acls: list[AclView]
    scram: list[ScramView]
    delegation_token_ids: list[str]


class Service:
    """One node with the caches of its API."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.history = History(node)
        self.counts = PartitionCounts(node)
        node.not_ready = lambda: health_view(ready_checks(node), is_verbose=False).failed
        self._names: tuple[Any, list[str]] | None = None

    def topic_names(self, image: Image) -> list[str]:
        """Return topic names in order; those of the newest image are kept."""
        if self._names is None or self._names[0] is not image.topic_id_by_name:
            self._names = (image.topic_id_by_name, sorted(image.topic_id_by_name))
        return self._names[1]


Values = dict[str, Any]
Answer = TypeVar("Answer")


async def quorum(service: Service, values: Values) -> QuorumView:
    """Answer with the quorum."""
    del values
    return await service.node.quorum()


async def brokers(service: Service, values: Values) -> BrokersView:
    """Answer with a page of brokers."""
    image = service.node.image
    after, limit = values["after"], values["limit"]
    views = await worked(image, lambda: broker_views(image))
    rest = views if after is None else [view for view in views if view.id > after]
    shown = rest[:limit]
    return BrokersView(
        metadata_offset=image.provenance.end_offset,
        brokers=shown,
        broker_count=len(views),
        next_after=shown[-1].id if len(rest) > limit else None,
    )


async def broker(service: Service, values: Values) -> BrokerDetail:
    """Answer with one broker."""
    image = service.node.image
    if NodeId(values["id"]) not in image.brokers:
        raise Problem.not_found("broker", "id", str(values["id"]))
    views = await worked(image, lambda: broker_views(image))
    found = next(view for view in views if view.id == values["id"])
    return BrokerDetail(metadata_offset=image.provenance.end_offset, broker=found)


async def topics(service: Service, values: Values) -> TopicsView:
    """Answer with a page of topics of the newest image."""
    return _topics_page(service, service.node.image, values)


async def topics_at(service: Service, values: Values) -> TopicsView:
    """Answer with a page of topics of a past image."""
    image = await service.history.image_at(values["offset"], "offset")
    return _topics_page(service, image, values)


def _topics_page(service: Service, image: Image, values: Values) -> TopicsView:
    names, next_after = _page(service.topic_names(image), values)
    return TopicsView(
        metadata_offset=image.provenance.end_offset,
        topics=[topic_view(image.topics[image.topic_id_by_name[name]]) for name in names],
        topic_count=len(image.topics),
        next_after=next_after,
    )


def _page(names: Sequence[str], values: Values) -> tuple[Sequence[str], str | None]:
    """At most `limit` names after `after`, and the mark of the next page (None: last page)."""
    after, limit = values["after"], values["limit"]
    start = 0 if after is None else bisect.bisect_right(names, after)
    found = names[start : start + limit]
    has_more = start + limit < len(names)
    return found, found[-1] if has_more and found else None


async def topic(service: Service, values: Values) -> TopicDetail:
    """Answer with one topic."""
    image = service.node.image
    found = image.topic_named(values["name"])
    if found is None:
        raise Problem.not_found("topic", "name", values["name"])
    return topic_detail(image, found)


async def partitions(service: Service, values: Values) -> PartitionsView:
    """Answer with a page of partitions, all or those in one state."""
    image = service.node.image
    after = partition_key(values["after"])
    matches = partition_filter(image, values["filter"], service.node.min_insync_default)
    limit = values["limit"]

    def work() -> PartitionsView:
        found = [
            partition_view(topic, number, partition)
            for topic, number, partition in islice(
                (row for row in partitions_in_order(image, after) if matches(row[0], row[2])),
                limit + 1,
            )
        ]
        shown, rest = found[:limit], found[limit:]
        return PartitionsView(
            metadata_offset=image.provenance.end_offset,
            partitions=shown,
            next_after=f"{shown[-1].topic}-{shown[-1].partition}" if rest else None,
        )

    return await worked(image, work)


def partition_key(text: str | None) -> tuple[str, int] | None:
    """Topic and number of a text that is topic-number; None for None."""
    if text is None:
        return None
    name, dash, number = text.rpartition("-")
    assert dash, f"{text=} passed the pattern of the parameter"
    return name, int(number)


async def configs(service: Service, values: Values) -> ConfigsView:
    """Answer with the dynamic configs of one resource."""
    image = service.node.image
    kind, name = values["type"], values["name"]
    if kind == "topic" and image.topic_named(name) is None:
        raise Problem.not_found("topic", "name", name)
    stored = "" if kind == "broker" and name == DEFAULT_ENTITY else name
    if kind == "broker" and name != DEFAULT_ENTITY and not _is_node_id(name):
        raise Problem.not_found("broker", "name", name)
    found = image.config(CONFIG_TYPES[kind], stored)
    return ConfigsView(
        metadata_offset=image.provenance.end_offset,
        type=kind,
        name=name,
        configs=shown_configs(CONFIG_TYPES[kind], found),
    )


def _is_node_id(text: str) -> bool:
    return text.isascii() and text.isdecimal()


async def features(service: Service, values: Values) -> FeaturesView:
    """Answer with the features."""
    del values
    image = service.node.image
    supported = supported_features(is_controller=service.node.config.is_controller)
    return FeaturesView(
        metadata_offset=image.provenance.end_offset,
        finalized=feature_views(image),
        supported=[
            FeatureRange(name=name, min_level=lowest, max_level=highest)
            for name, (lowest, highest) in sorted(supported.items())
        ],
    )


async def acls(service: Service, values: Values) -> AclsView:
    """Answer with a page of access control entries."""
    image = service.node.image
    views = {view.id: view for view in acl_views(image)}
    ids, next_after = _page(sorted(views), values)
    return AclsView(
        metadata_offset=image.provenance.end_offset,
        acls=[views[acl_id] for acl_id in ids],
        acl_count=len(views),
        next_after=next_after,
    )


async def quotas(service: Service, values: Values) -> QuotasView:
    """Answer with a page of client quotas."""
    image = service.node.image
    after, limit = values["after"], values["limit"]
    views = quota_views(image)
    return QuotasView(
        metadata_offset=image.provenance.end_offset,
        quotas=views[after : after + limit],
        quota_count=len(views),
        next_after=after + limit if after + limit < len(views) else None,
    )


async def producer_ids(service: Service, values: Values) -> ProducerIdsView:
    """Answer with the next producer id."""
    del values
    image = service.node.image
    return ProducerIdsView(
        metadata_offset=image.provenance.end_offset, next_producer_id=image.producer_ids
    )


async def image(service: Service, values: Values) -> ImageView:
    """Answer with the whole image."""
    del values
    now = service.node.image
    return await worked(now, lambda: image_view(now))


def image_counts(image: Image) -> ImageCounts:
    """Count the objects of an image."""
    return ImageCounts(
        brokers=len(image.brokers),
        controllers=len(image.controllers),
        topics=len(image.topics),
        partitions=sum(len(topic.partitions) for topic in image.topics.values()),
        configs=len(image.configs),
        client_quotas=len(image.client_quotas),
        acls=len(image.acls),
        scram=len(image.scram),
        delegation_tokens=len(image.delegation_tokens),
    )


def image_view(image: Image) -> ImageView:
    """View of a whole image, in one pass over all of it."""
    names = sorted(image.topic_id_by_name)
    return ImageView(
        metadata_offset=image.provenance.end_offset,
        counts=image_counts(image),
        epoch=image.provenance.epoch,
        timestamp_ms=image.provenance.timestamp_ms,
        features=feature_views(image),
        brokers=broker_views(image),
        controllers=controller_views(image),
        topics=[topic_detail(image, image.topics[image.topic_id_by_name[name]]) for name in names],
        configs=[
            ConfigResourceView(type=kind, name=name, configs=shown_configs(kind, stored))
            for (kind, name), stored in sorted_items(image.configs)
            if kind != CONFIG_TOPIC
        ],
        client_quotas=quota_views(image),
        next_producer_id=image.producer_ids,
        acls=acl_views(image),
        scram=scram_views(image),
        delegation_token_ids=sorted(image.delegation_tokens),
    )


async def records(service: Service, values: Values) -> RecordsView:
    """Answer with the committed log from an offset on."""
    node = service.node
    start = node.log_start_offset if values["from"] is None else values["from"]
    limit = values["limit"]
    decoded = committed_records(node, start)
    # Decoding thousands of records takes tenths of a second, too long for the driver's thread.
    if limit <= RECORDS_INLINE:
        found = list(islice(decoded, limit))
    else:
        found = await asyncio.to_thread(lambda: list(islice(decoded, limit)))
    return RecordsView(
        metadata_offset=node.committed_end,
        log_start_offset=node.log_start_offset,
        records=found,
        next_offset=found[-1].offset + 1 if found else start,
    )


def committed_records(node: RunningNode, start: int) -> Iterator[RecordView]:
    """Yield committed records from an offset on, in order, from at most a mebibyte of the log.

    Raises:
        Problem: 404 above the end of committed records, 410 below the start of the log.
    """
    end = node.committed_end
    if start > end:
        raise not_yet(node, "from", start)
    try:
        content = node.read_log(start, RECORDS_READ_BYTES, end)
    except OffsetOutOfRangeError as error:
        raise gone(node, "from", start) from error
    return record_views(content, start)


async def diff(service: Service, values: Values) -> DiffView:
    """Answer with the changes from one offset to another, which may be the earlier one."""
    end = service.node.image.provenance.end_offset if values["to"] is None else values["to"]
    start, after, limit = values["from"], values["after"], values["limit"]
    before_image = await service.history.image_at(start, "from")
    after_image = await service.history.image_at(end, "to")
    changes = await worked(after_image, lambda: diff_changes(before_image, after_image))
    shown = changes[after : after + limit]
    return DiffView(
        from_offset=start,
        to_offset=end,
        change_count=len(changes),
        changes=shown,
        next_after=after + limit if after + limit < len(changes) else None,
    )


async def livez(service: Service, values: Values) -> HealthView:
    """Answer ok: a process that answers is alive."""
    del service
    return health_view([], is_verbose=values["verbose"])


async def readyz(service: Service, values: Values) -> HealthView:
    """Answer with the readiness: ok if clients may use this node."""
    return health_view(ready_checks(service.node), is_verbose=values["verbose"])


async def worked(image: Image, work: Callable[[], Answer]) -> Answer:
    """Do short work here, long work on another thread: the image cannot change."""
    size = sum(len(topic.partitions) for topic in islice(image.topics.values(), PARTITIONS_INLINE))
    if size < PARTITIONS_INLINE and len(image.topics) < PARTITIONS_INLINE:
        return work()
    return await asyncio.to_thread(work)
