"""Eligible leader replicas (KIP-966): when they are on, and what min.insync.replicas does to them.

A replica that leaves an ISR smaller than min.insync.replicas has all that was committed: the
partition remembers it in its ELR. The lists mean something for one value of the minimum only, so
every change of it clears them (ClearElrRecord), and the minimum must be the same everywhere: it is
set for the whole cluster, never for one broker.
Source: apache/kafka: metadata/.../controller/ConfigurationControlManager.java,
ReplicationControlManager.java (getTopicEffectiveMinIsr), 4.3.
"""

from collections.abc import Iterable
from typing import Final

from metadata.features import ELR_VERSION, LEVEL_ELR
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC, Image, sorted_items
from metadata.records import ClearElrRecord, ConfigRecord, Record
from quorum_controller.partitions.electorate import PartitionDefaults
from wire.errors import ApiError, ErrorCode

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CLUSTER_DEFAULT: Final = ""
"""Resource name of the broker configs that hold for all brokers."""


def is_elr_enabled(image: Image) -> bool:
    """Whether the feature is finalized at 1 or above, and records can carry it."""
    return image.features.get(ELR_VERSION, 0) >= 1 and image.metadata_version >= LEVEL_ELR


def effective_min_isr(image: Image, topic_name: str, defaults: PartitionDefaults) -> int:
    """min.insync.replicas of a topic, at most its replication factor (that of partition 0)."""
    text = image.config(CONFIG_TOPIC, topic_name).get(MIN_INSYNC_REPLICAS)
    minimum = defaults.min_insync_replicas if text is None else int(text)
    topic = image.topic_named(topic_name)
    assert topic is not None, f"{topic_name=}"
    return min(minimum, len(topic.partitions[0].replicas))


def min_isr_change_error(
    image: Image, resource_type: int, resource_name: str, value: str | None
) -> ApiError | None:
    """Why min.insync.replicas of this resource may not become `value`, None if it may.

    Args:
        image: says whether ELR is on; without it everything is allowed.
        resource_type: Kafka's number, `CONFIG_BROKER` is what matters.
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
    """What follows changes of configs: the ELR of whatever got another minimum is cleared.

    Args:
        image: says whether ELR is on.
        changed: the records of one request that were made so far.
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
    """What precedes the FeatureLevelRecord that switches ELR on: one minimum for the cluster.

    The cluster gets the value that held until now unless it has one; brokers lose their own.
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
