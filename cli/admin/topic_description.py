"""Output of `kraftline topics --describe`: its requests, its filters, its lines."""

from argparse import Namespace
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from cli.connect import (
    DESCRIBE_CLUSTER,
    ENDPOINT_BROKERS,
    Api,
    ClusterError,
    check,
    describe_cluster_request,
    described_cluster,
    error_text,
    newest,
)

DESCRIBE_CONFIGS: Final = 32
LIST_REASSIGNMENTS: Final = 46
DESCRIBE_TOPIC_PARTITIONS: Final = 75
TOPIC_RESOURCE: Final = 2
SOURCE_DEFAULT: Final = 5
"""Source of a config that has its built-in default."""
UNKNOWN_TOPIC: Final = 3


class PartitionView(msgspec.Struct, frozen=True):
    """One partition with the fields that are printed."""

    index: int
    leader: int
    """-1 without a leader."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicView(msgspec.Struct, frozen=True):
    """One topic with the fields that are printed; `configs` omits the built-in defaults."""

    name: str
    topic_id: str
    configs: dict[str, str]
    partitions: tuple[PartitionView, ...]


def without_elr(topic: TopicView) -> TopicView:
    """The topic without ELRs, as Kafka's tool shows a topic by its id (Metadata has no ELR)."""
    partitions = (
        msgspec.structs.replace(partition, elr=None, last_known_elr=None)
        for partition in topic.partitions
    )
    return msgspec.structs.replace(topic, partitions=tuple(partitions))


def describe_topics(api: Api, names: Sequence[str], partition_limit: int) -> list[TopicView]:
    """Describe the topics of these names, in their order; a name that does not exist is left out.

    Raises:
        ClusterError: the node refuses.
    """
    partitions: dict[str, list[Any]] = {}
    ids: dict[str, str] = {}
    for topic in _described(api, names, partition_limit):
        if int(topic.error_code) == UNKNOWN_TOPIC:
            continue
        if int(topic.error_code):
            raise ClusterError(error_text(topic.error_code))
        partitions.setdefault(str(topic.name), []).extend(topic.partitions)
        ids[str(topic.name)] = uuid_text(topic.topic_id)
    configs = _configs(api, list(ids)) if ids and api.supports(DESCRIBE_CONFIGS) else {}
    moving = _reassignments(api, list(ids)) if ids and api.supports(LIST_REASSIGNMENTS) else {}
    return [
        TopicView(
            name,
            ids[name],
            configs.get(name, {}),
            tuple(
                _partition(partition, moving.get((name, int(partition.partition_index))))
                for partition in sorted(partitions[name], key=lambda p: int(p.partition_index))
            ),
        )
        for name in names
        if name in ids
    ]


def _described(api: Api, names: Sequence[str], partition_limit: int) -> list[Any]:
    """Topics of DescribeTopicPartitions, from as many answers as it takes."""
    module = newest(DESCRIBE_TOPIC_PARTITIONS)
    wanted: Any = tuple(module.TopicRequest(name=name) for name in names)
    topics: list[Any] = []
    cursor: Any = None
    while wanted:
        request = module.DescribeTopicPartitionsRequest(
            topics=wanted, response_partition_limit=partition_limit, cursor=cursor
        )
        answer = api.call(DESCRIBE_TOPIC_PARTITIONS, request)
        topics.extend(answer.topics)
        if answer.next_cursor is None:
            break
        cursor = module.Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )
        wanted = tuple(topic for topic in wanted if topic.name >= cursor.topic_name)
    return topics


def _configs(api: Api, names: Sequence[str]) -> dict[str, dict[str, str]]:
    module = newest(DESCRIBE_CONFIGS)
    resources = tuple(
        module.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        for name in names
    )
    answer = api.call(DESCRIBE_CONFIGS, module.DescribeConfigsRequest(resources=resources))
    return {
        str(result.resource_name): {
            str(config.name): str(config.value or "")
            for config in result.configs
            if int(config.config_source) != SOURCE_DEFAULT
        }
        for result in answer.results
    }


def _reassignments(api: Api, names: Sequence[str]) -> dict[tuple[str, int], Any]:
    module = newest(LIST_REASSIGNMENTS)
    request = module.ListPartitionReassignmentsRequest(timeout=timedelta(seconds=30), topics=None)
    answer = api.call(LIST_REASSIGNMENTS, request)
    if int(answer.error_code):
        raise ClusterError(error_text(answer.error_code, answer.error_message))
    return {
        (str(topic.name), int(partition.partition_index)): partition
        for topic in answer.topics
        if topic.name in names
        for partition in topic.partitions
    }


def _partition(partition: Any, moving: Any) -> PartitionView:
    return PartitionView(
        index=int(partition.partition_index),
        leader=int(partition.leader_id),
        replicas=_ids(partition.replica_nodes),
        isr=_ids(partition.isr_nodes),
        elr=None
        if partition.eligible_leader_replicas is None
        else _ids(partition.eligible_leader_replicas),
        last_known_elr=None if partition.last_known_elr is None else _ids(partition.last_known_elr),
        adding=() if moving is None else _ids(moving.adding_replicas),
        removing=() if moving is None else _ids(moving.removing_replicas),
    )


def live_brokers(api: Api) -> set[int]:
    """Ids of the brokers that are not fenced."""
    request = describe_cluster_request(ENDPOINT_BROKERS)
    return {int(broker.broker_id) for broker in check(api.call(DESCRIBE_CLUSTER, request)).brokers}


def racks(api: Api) -> dict[int, str | None]:
    """Id -> rack of the unfenced brokers; if controllers answer, their ids without racks."""
    return {int(node.broker_id): node.rack for node in described_cluster(api).brokers}


FILTERS: Final = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "topics_with_overrides",
)
"""Options that exclude each other in Kafka's tool."""


def wanted(topics: Sequence[TopicView], options: Namespace, live: set[int]) -> list[TopicView]:
    """Topics with the partitions that pass the filters; a topic without one is dropped."""
    shown = [
        msgspec.structs.replace(
            topic,
            partitions=tuple(p for p in topic.partitions if is_wanted(topic, p, options, live)),
        )
        for topic in topics
    ]
    return [topic for topic in shown if topic.partitions or not has_partition_filter(options)]


def has_partition_filter(options: Namespace) -> bool:
    """Return True if only some partitions are printed, hence no line per topic."""
    return bool(
        options.under_replicated_partitions
        or options.unavailable_partitions
        or options.under_min_isr_partitions
        or options.at_min_isr_partitions
    )


def is_wanted(
    topic: TopicView, partition: PartitionView, options: Namespace, live: set[int]
) -> bool:
    """Return True if the partition passes a filter of the command line, or there is no filter."""
    min_isr = int(topic.configs.get("min.insync.replicas", "1"))
    target_count = len(partition.replicas) - len(partition.adding)
    return (
        not has_partition_filter(options)
        or (options.under_replicated_partitions and len(partition.isr) < target_count)
        or (options.unavailable_partitions and partition.leader not in live)
        or (options.under_min_isr_partitions and len(partition.isr) < min_isr)
        or (options.at_min_isr_partitions and len(partition.isr) == min_isr)
    )


def topic_line(topic: TopicView) -> str:
    """The output line of a topic."""
    first = topic.partitions[0] if topic.partitions else None
    factor = len(first.replicas) - len(first.adding) if first else 0
    configs = ",".join(f"{name}={value}" for name, value in topic.configs.items())
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {configs}\n"
    )


def partition_line(topic_name: str, partition: PartitionView) -> str:
    """The output line of a partition."""
    fields = {
        "Topic": topic_name,
        "Partition": str(partition.index),
        "Leader": "none" if partition.leader < 0 else str(partition.leader),
        "Replicas": _join(partition.replicas),
        "Isr": _join(partition.isr),
        "Adding Replicas": _join(partition.adding) or None,
        "Removing Replicas": _join(partition.removing) or None,
        "Elr": "N/A" if partition.elr is None else _join(partition.elr),
        "LastKnownElr": "N/A"
        if partition.last_known_elr is None
        else _join(partition.last_known_elr),
    }
    return "".join(f"\t{name}: {text}" for name, text in fields.items() if text is not None) + "\n"


def _ids(ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(broker_id) for broker_id in ids)


def _join(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def uuid_text(value: Any) -> str:
    """A kio UUID (None for zero) as Kafka prints it."""
    content = bytes(16) if value is None else value.bytes
    return urlsafe_b64encode(content).rstrip(b"=").decode()
