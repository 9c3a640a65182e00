"""Types of the API's answers, and pure functions from an image to them.

Names are snake_case, UUIDs are Kafka's 22 characters, times are milliseconds since 1970, offsets
are half-open ends. A partition without leader has `leader: null`. Lists are sorted by key.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from metadata.config_schema import broker_config
from metadata.features import metadata_version_name
from metadata.image import (
    CONFIG_BROKER,
    CONFIG_TOPIC,
    LEADER_RECOVERED,
    METADATA_VERSION,
    Broker,
    Controller,
    Image,
    Partition,
    Topic,
    sorted_items,
)
from metadata.json_form import uuid_text
from metadata.records import RegisteredEndpoint
from quorum_controller.security.authorization import (
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
CONFIG_TYPES: Final = {"topic": 2, "broker": 4, "client-metrics": 16, "group": 32}
"""Resource type by its name in the path (apache/kafka: ConfigResource.Type)."""
SECURITY_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
RESOURCE_TYPES: Final = {kind.value: kind.name for kind in ResourceType}
PATTERN_TYPES: Final = {kind.value: kind.name for kind in PatternType}
OPERATIONS: Final = {operation.value: operation.name for operation in Operation}
PERMISSIONS: Final = {permission.value: permission.name for permission in Permission}
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

FILTERS: Final[tuple[str, ...]] = ("under_replicated", "offline", "at_min_isr", "no_leader")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every answer over HTTP."""


class AtOffset(View, frozen=True, kw_only=True):
    """Base of answers read from one image, with the offset of that image."""

    metadata_offset: int
    """End offset of the records in the answer; also its ETag."""


class EndpointView(View, frozen=True, kw_only=True):
    """An advertised listener."""

    listener: str
    host: str
    port: int
    security_protocol: str


class FeatureRange(View, frozen=True, kw_only=True):
    """Levels that a node supports, both included."""

    name: str
    min_level: int
    max_level: int


class BrokerView(View, frozen=True, kw_only=True):
    """A registered broker."""

    id: int
    epoch: int
    incarnation_id: str
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    endpoints: list[EndpointView]
    features: list[FeatureRange]
    log_dirs: list[str]
    cordoned_log_dirs: list[str] | None
    leader_count: int
    replica_count: int


class ControllerView(View, frozen=True, kw_only=True):
    """A registered controller."""

    id: int
    incarnation_id: str
    endpoints: list[EndpointView]
    features: list[FeatureRange]


class TopicView(View, frozen=True, kw_only=True):
    """A topic in a list."""

    name: str
    topic_id: str
    is_internal: bool
    partition_count: int
    replication_factor: int
    under_replicated_count: int
    no_leader_count: int


class PartitionView(View, frozen=True, kw_only=True):
    """A partition."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: Literal["RECOVERED", "RECOVERING"]
    replicas: list[int]
    isr: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]
    elr: list[int]
    last_known_elr: list[int]
    directories: list[str]


class TopicDetail(AtOffset, frozen=True, kw_only=True):
    """One topic with its configs and partitions."""

    name: str
    topic_id: str
    is_internal: bool
    configs: dict[str, str]
    partitions: list[PartitionView]


class FeatureView(View, frozen=True, kw_only=True):
    """A finalized feature."""

    name: str
    level: int
    level_name: str | None


class AclView(View, frozen=True, kw_only=True):
    """One access control entry, in Kafka's words."""

    id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


class QuotaView(View, frozen=True, kw_only=True):
    """The quotas of one entity; a null name is the default entity of its type."""

    entity: dict[str, str | None]
    quotas: dict[str, float]


class ConfigsView(AtOffset, frozen=True, kw_only=True):
    """The dynamic configs of one resource."""

    type: str
    name: str
    configs: dict[str, str]


class ScramView(View, frozen=True, kw_only=True):
    """A SCRAM credential without its secrets."""

    user: str
    mechanism: str
    iterations: int


def word(words: Mapping[int, str], number: int) -> str:
    """Kafka's word for one of its numbers; the number itself if only newer software has a word."""
    return words.get(number, str(number))


def endpoint_views(endpoints: tuple[RegisteredEndpoint, ...]) -> list[EndpointView]:
    """Listeners of a registration."""
    return [
        EndpointView(
            listener=e.name,
            host=e.host,
            port=e.port,
            security_protocol=word(SECURITY_PROTOCOLS, e.security_protocol),
        )
        for e in endpoints
    ]


def feature_ranges(registered: Broker | Controller) -> list[FeatureRange]:
    """Feature levels of a registration, by name."""
    ranges = [
        FeatureRange(
            name=f.name, min_level=f.min_supported_version, max_level=f.max_supported_version
        )
        for f in registered.features
    ]
    return sorted(ranges, key=lambda item: item.name)


def broker_views(image: Image) -> list[BrokerView]:
    """All registered brokers by id, with the numbers of partitions they lead and host."""
    leaders, replicas = _loads(image)
    return [
        BrokerView(
            id=broker.id,
            epoch=broker.epoch,
            incarnation_id=uuid_text(broker.incarnation_id),
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            endpoints=endpoint_views(broker.endpoints),
            features=feature_ranges(broker),
            log_dirs=[uuid_text(directory) for directory in broker.log_dirs],
            cordoned_log_dirs=None
            if broker.cordoned_log_dirs is None
            else [uuid_text(directory) for directory in broker.cordoned_log_dirs],
            leader_count=leaders.get(broker.id, 0),
            replica_count=replicas.get(broker.id, 0),
        )
        for _, broker in sorted_items(image.brokers)
    ]


def controller_views(image: Image) -> list[ControllerView]:
    """All registered controllers by id."""
    return [
        ControllerView(
            id=controller.id,
            incarnation_id=uuid_text(controller.incarnation_id),
            endpoints=endpoint_views(controller.endpoints),
            features=feature_ranges(controller),
        )
        for _, controller in sorted_items(image.controllers)
    ]


def topic_view(topic: Topic) -> TopicView:
    """Summary of a topic."""
    partitions = list(topic.partitions.values())
    return TopicView(
        name=topic.name,
        topic_id=uuid_text(topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partition_count=len(partitions),
        replication_factor=max((len(p.replicas) for p in partitions), default=0),
        under_replicated_count=sum(len(p.isr) < len(p.replicas) for p in partitions),
        no_leader_count=sum(not p.has_leader for p in partitions),
    )


def topic_detail(image: Image, topic: Topic) -> TopicDetail:
    """One topic with its configs and partitions."""
    return TopicDetail(
        metadata_offset=image.provenance.end_offset,
        name=topic.name,
        topic_id=uuid_text(topic.topic_id),
        is_internal=topic.name in INTERNAL_TOPICS,
        configs=shown_configs(CONFIG_TOPIC, image.config(CONFIG_TOPIC, topic.name)),
        partitions=[partition_view(topic, n, p) for n, p in sorted_items(topic.partitions)],
    )


def partition_view(topic: Topic, partition_id: int, partition: Partition) -> PartitionView:
    """One partition."""
    recovered = partition.leader_recovery_state == LEADER_RECOVERED
    return PartitionView(
        topic=topic.name,
        partition=partition_id,
        leader=partition.leader if partition.has_leader else None,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        leader_recovery_state="RECOVERED" if recovered else "RECOVERING",
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        elr=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        directories=[uuid_text(directory) for directory in partition.directories],
    )


def partitions_in_order(
    image: Image, after: tuple[str, int] | None = None
) -> Iterator[tuple[Topic, int, Partition]]:
    """Every partition by topic name and number, those after `after` only."""
    for name in sorted(image.topic_id_by_name):
        if after is not None and name < after[0]:
            continue
        topic = image.topics[image.topic_id_by_name[name]]
        for partition_id, partition in sorted_items(topic.partitions):
            if after is None or (name, partition_id) > after:
                yield topic, partition_id, partition


def partition_filter(
    image: Image, wanted: str | None, min_insync_default: int
) -> Callable[[Topic, Partition], bool]:
    """Predicate for partitions in the given state; None: all.

    `under_replicated`: the ISR is smaller than the replicas. `no_leader`: no leader. `offline`: no
    leader, or a fenced one. `at_min_isr`: the ISR has exactly min.insync.replicas.
    """
    match wanted:
        case None:
            return lambda _, __: True
        case "under_replicated":
            return lambda _, partition: len(partition.isr) < len(partition.replicas)
        case "no_leader":
            return lambda _, partition: not partition.has_leader
        case "offline":
            serving = {broker.id for broker in image.brokers.values() if not broker.fenced}
            return lambda _, partition: partition.leader not in serving
        case _:
            assert wanted == "at_min_isr", f"{wanted=}"
            return lambda topic, partition: (
                len(partition.isr) == min_insync_replicas(image, topic.name, min_insync_default)
            )


def min_insync_replicas(image: Image, topic: str, default: int) -> int:
    """Effective min.insync.replicas: the topic's, or the default of the node."""
    value = image.config(CONFIG_TOPIC, topic).get(MIN_INSYNC_REPLICAS)
    return int(value) if value is not None and value.isdecimal() else default


def feature_views(image: Image) -> list[FeatureView]:
    """Finalized features by name."""
    return [
        FeatureView(
            name=name,
            level=level,
            level_name=metadata_version_name(level) if name == METADATA_VERSION else None,
        )
        for name, level in sorted_items(image.features)
    ]


def acl_views(image: Image) -> list[AclView]:
    """All access control entries by id."""
    return [
        AclView(
            id=uuid_text(acl_id),
            resource_type=word(RESOURCE_TYPES, acl.resource_type),
            resource_name=acl.resource_name,
            pattern_type=word(PATTERN_TYPES, acl.pattern_type),
            principal=acl.principal,
            host=acl.host,
            operation=word(OPERATIONS, acl.operation),
            permission_type=word(PERMISSIONS, acl.permission_type),
        )
        for acl_id, acl in sorted_items(image.acls)
    ]


def quota_views(image: Image) -> list[QuotaView]:
    """All client quotas by entity."""

    def order(key: Any) -> list[tuple[str, bool, str]]:
        return [(kind, name is not None, name or "") for kind, name in key]

    return [
        QuotaView(entity=dict(key), quotas=dict(sorted_items(image.client_quotas[key])))
        for key in sorted(image.client_quotas, key=order)
    ]


def scram_views(image: Image) -> list[ScramView]:
    """Users with SCRAM credentials, one row per mechanism."""
    return [
        ScramView(
            user=user,
            mechanism=word(SCRAM_MECHANISMS, mechanism),
            iterations=credential.iterations,
        )
        for (mechanism, user), credential in sorted_items(image.scram)
    ]


def shown_configs(resource_type: int, configs: Mapping[str, str]) -> dict[str, str]:
    """Configs by name, with the values of secrets hidden."""
    return {
        name: HIDDEN if is_secret(resource_type, name) else configs[name]
        for name in sorted(configs)
    }


HIDDEN: Final = "[hidden]"


def is_secret(resource_type: int, config_name: str) -> bool:
    """Return True if Kafka treats a config as a password, or it is an unknown one of a broker."""
    if resource_type != CONFIG_BROKER:
        return False
    definition = broker_config(config_name)
    return definition is None or definition.is_sensitive


def _loads(image: Image) -> tuple[dict[int, int], dict[int, int]]:
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
            for replica in partition.replicas:
                replicas[replica] = replicas.get(replica, 0) + 1
    return leaders, replicas
