"""A recorded request, put to our controller at a point of the log that Kafka wrote.

What the log does not hold is set by who asks: which brokers were heard, and when.
"""

from msgspec.structs import replace

from metadata.records import AccessControlEntryRecord, PartitionRecord
from quorum_controller.brokers.liveness import Liveness
from quorum_controller.config import ControllerConfig, TokenSettings
from quorum_controller.partitions.electorate import PartitionDefaults
from quorum_controller.partitions.partition_index import Electorate, PartitionIndex
from tests.quorum_controller.history import SUPER, handled

CONFIG_BROKER = 4
SESSION_MS = 9000
FEATURES_OF_4_3 = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (1, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
FEATURES_OF_3_9 = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (1, 21),
    "transaction.version": (0, 2),
}
FEATURES = {"4.3.1": FEATURES_OF_4_3, "3.9.1": FEATURES_OF_3_9}
"""Features that the recorded controllers supported; a broker must support finalized levels."""

DEPEND_ON_CHANCE = {
    AccessControlEntryRecord: {"id": bytes(16)},
    PartitionRecord: {"replicas": (), "isr": (), "leader": -1, "directories": ()},
}
"""Fields that are drawn: the id of an ACL, the placement of a partition."""


def settled(record):
    """A record without what chance decides."""
    return replace(record, **DEPEND_ON_CHANCE.get(type(record), {}))


def without_id(record):
    """A record of a new topic, whose id is drawn."""
    return replace(record, topic_id=bytes(16)) if hasattr(record, "topic_id") else record


def as_sets(value):
    """A body with every list as a sorted list."""
    if isinstance(value, tuple):
        return sorted((as_sets(item) for item in value), key=repr)
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_sets(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def config_of(features, node_id=1, cluster_id="x"):
    """A controller of the recorded clusters."""
    return ControllerConfig(
        cluster_id=cluster_id,
        node_id=node_id,
        bootstrap_records=(),
        access=SUPER,
        supported_features=features,
        tokens=TokenSettings(secret_key="golden-secret"),
    )


def heard(image, metadata_offset):
    """Every broker was heard just now and had read up to this offset."""
    liveness = Liveness(SESSION_MS, 0)
    for broker in image.brokers.values():
        liveness.touch(broker, metadata_offset, 0)
    return liveness


def replayed(api_key, request, image, offset, **more):
    """(response, records) at one point of the log, with the elections of its configs."""
    minimum = image.config(CONFIG_BROKER, "").get("min.insync.replicas", "1")
    defaults = PartitionDefaults(min_insync_replicas=int(minimum))
    electorate = Electorate(PartitionIndex(image), defaults)
    return handled(api_key, image, request, offset, electorate=electorate, **more)
