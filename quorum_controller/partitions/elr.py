"""Eligible leader replicas (KIP-966): the feature and its dependency on min.insync.replicas.

A replica that leaves an ISR smaller than min.insync.replicas has all committed records: it is added
to the ELR of the partition. The lists are valid for one value of the minimum only, so every change
of it clears them (ClearElrRecord), and the minimum must be the same on all brokers: it is set for
the whole cluster, never for one broker.
Source: apache/kafka: metadata/.../controller/ConfigurationControlManager.java,
ReplicationControlManager.java (getTopicEffectiveMinIsr), 4.3.
"""

from collections.abc import Iterable
from typing import Final

from metadata.config_schema import topic_configs
from metadata.config_values import parse_value
from metadata.features import ELR_VERSION, LEVEL_ELR
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC, Image, sorted_items
from metadata.records import ClearElrRecord, ConfigRecord, Record
from quorum_controller.partitions.electorate import PartitionDefaults
from wire.errors import ApiError, ErrorCode

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CLUSTER_DEFAULT: Final = ""
"""Resource name of the cluster-wide broker configs."""


def is_elr_enabled(image: Image) -> bool:
    """True if the feature is finalized at 1 or above, and records can carry it."""
    return image.features.get(ELR_VERSION, 0) >= 1 and image.metadata_version >= LEVEL_ELR


def effective_min_isr(image: Image, topic_name: str, defaults: PartitionDefaults) -> int:
    """min.insync.replicas of a topic, at most its replication factor (that of partition 0).

    The value is read as the check of configs reads it; an invalid one, which only another
    implementation can have written, counts as unset.
    """
    minimum = defaults.min_insync_replicas
    text = image.config(CONFIG_TOPIC, topic_name).get(MIN_INSYNC_REPLICAS)
    if text is not None:
        value, error = parse_value(topic_configs()[MIN_INSYNC_REPLICAS], text)
        minimum = value if error is None else minimum
    topic = image.topic_named(topic_name)
    assert topic is not None, f"{topic_name=}"
    return min(minimum, len(topic.partitions[0].replicas))


def min_isr_change_error(
    image: Image, resource_type: int, resource_name: str, value: str | None
) -> ApiError | None:
    """The error of a change of min.insync.replicas of a resource to `value`, None if it is valid.

    Args:
        image: with the level of the feature; if ELR is disabled every change is valid.
        resource_type: Kafka's number; only `CONFIG_BROKER` is restricted.
        resource_name: a broker id, or empty for the whole cluster.
        value: None removes the config.
    """
    if resource_type != CONFIG_BROKER or not is_elr_enabled(image):
        return None
    if resource_name != CLUSTER_DEFAULT:
        text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        return ApiError(ErrorCode.invalid_config, text)
    if value is None:
        text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        return ApiError(ErrorCode.invalid_config, text)
    return None


def clear_elr_records(image: Image, changed: Iterable[Record]) -> list[Record]:
    """The ClearElrRecords that must follow changes of min.insync.replicas.

    Args:
        image: with the level of the feature.
        changed: the records of the request so far.
    """
    if not is_elr_enabled(image):
        return []
    resources = [
        (record.resource_type, record.resource_name)
        for record in changed
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]
    if any(resource_type == CONFIG_BROKER for resource_type, _ in resources):
        return [ClearElrRecord(topic_name="")]
    topics = dict.fromkeys(name for kind, name in resources if kind == CONFIG_TOPIC)
    return [ClearElrRecord(topic_name=name) for name in topics]


def elr_activation_records(image: Image, defaults: PartitionDefaults) -> list[Record]:
    """The records before the FeatureLevelRecord that enables ELR: one minimum for the cluster.

    The cluster-wide config is set to the current value unless it is set; those of brokers are
    removed.
    """
    records: list[Record] = []
    if MIN_INSYNC_REPLICAS not in image.config(CONFIG_BROKER, CLUSTER_DEFAULT):
        value = str(defaults.min_insync_replicas)
        records.append(_min_isr_record(CLUSTER_DEFAULT, value))
    for (resource_type, name), configs in sorted_items(image.configs):
        is_broker = resource_type == CONFIG_BROKER and name != CLUSTER_DEFAULT
        if is_broker and MIN_INSYNC_REPLICAS in configs:
            records.append(_min_isr_record(name, None))
    return records


def _min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=CONFIG_BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value
    )
