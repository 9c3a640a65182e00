"""The cluster's metadata as one immutable value.

`Image` is the only state that records build: brokers read it, the controller validates against
it, snapshots are written from it. Its maps are persistent (`wire.persistent_map`): keeping an old
image costs nothing, undo is dropping a reference. Indexes are part of the image and maintained by
`metadata/apply.py`: `topic_id_by_name` and `topic_names_by_normalised`.

Iteration order of a Map depends on PYTHONHASHSEED: all output of the process goes through
`sorted_items`. A partition without leader has `leader == NO_LEADER` (-1), as in its records.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from metadata.records import (
    CONFIG_BROKER,
    CONFIG_TOPIC,
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    NO_LEADER,
    RegisteredEndpoint,
    SupportedFeature,
)
from wire.persistent_map import Map
from wire.types import (
    DIRECTORY_LOST,
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    PartitionEpoch,
    TopicId,
)

__all__ = [
    "CONFIG_BROKER",
    "CONFIG_TOPIC",
    "EMPTY",
    "LEADER_RECOVERED",
    "LEADER_RECOVERING",
    "NO_LEADER",
    "Acl",
    "Broker",
    "Controller",
    "DelegationToken",
    "Image",
    "Partition",
    "Provenance",
    "ScramCredential",
    "Topic",
    "normalised_topic_name",
    "sorted_items",
]

METADATA_VERSION: Final = "metadata.version"
# The level of a log without a FeatureLevelRecord for metadata.version: 3.0-IV1.
METADATA_VERSION_ABSENT: Final = 1

ConfigResource = tuple[int, str]  # (ConfigRecord.resource_type, resource name)
QuotaKey = tuple[tuple[str, str | None], ...]  # (entity type, name or None), sorted by type
ScramKey = tuple[int, str]  # (mechanism, user)

K = TypeVar("K")
V = TypeVar("V")


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """The part of the log that an image contains: all records below `end_offset`."""

    end_offset: Offset
    epoch: LeaderEpoch  # of the last record contained
    timestamp_ms: int  # append time of the batch of the last record contained
    is_batch_aligned: bool = True  # if not, no snapshot may be named after it

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The id of a snapshot of this image."""
        return OffsetAndEpoch(self.end_offset, self.epoch)


class Broker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A registered broker."""

    id: NodeId
    epoch: BrokerEpoch
    incarnation_id: bytes  # 16 bytes
    endpoints: tuple[RegisteredEndpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[DirectoryId, ...]  # in Kafka's order, see `sorted_directories`
    cordoned_log_dirs: tuple[DirectoryId, ...] | None  # None: never reported
    registration_offset: Offset  # of the RegisterBrokerRecord
    is_migrating_zk_broker: bool = False

    def endpoint(self, listener: str) -> RegisteredEndpoint | None:
        """The endpoint of a listener name, None if the broker does not have it."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return None

    def has_uncordoned_directory(self) -> bool:
        """True if new replicas may be placed on it (KIP-1066): a directory is not cordoned."""
        if not self.log_dirs or not self.cordoned_log_dirs:
            return True
        return not set(self.log_dirs) <= set(self.cordoned_log_dirs)

    def has_online_directory(self, directory: DirectoryId) -> bool:
        """True if a replica in this directory is online (KIP-858).

        Reserved ids other than LOST count as online; so does every other directory of a broker
        that never reported its directories.
        """
        if directory == DIRECTORY_LOST:
            return False
        if not self.log_dirs or directory in self.log_dirs:
            return True
        return directory in (bytes(16), bytes(15) + b"\x01")


class Controller(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A registered controller (KIP-919)."""

    id: NodeId
    incarnation_id: bytes  # 16 bytes
    zk_migration_ready: bool
    endpoints: tuple[RegisteredEndpoint, ...]
    features: tuple[SupportedFeature, ...]


class Partition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition: `directories[i]` is the log directory of `replicas[i]`; no list is None."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    leader: NodeId = NO_LEADER
    leader_recovery_state: int = LEADER_RECOVERED
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    partition_epoch: PartitionEpoch = PartitionEpoch(0)
    directories: tuple[DirectoryId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()

    @property
    def has_leader(self) -> bool:
        """True if the partition has a leader."""
        return self.leader != NO_LEADER

    @property
    def has_preferred_leader(self) -> bool:
        """True if the first replica is the leader; False without a leader."""
        return bool(self.replicas) and self.leader == self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        """True if replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory(self, replica: NodeId) -> DirectoryId:
        """The directory of a replica.

        Raises:
            ValueError: the node is no replica of this partition.
        """
        return self.directories[self.replicas.index(replica)]


class Topic(msgspec.Struct, frozen=True, gc=False):
    """A topic with its partitions by partition id (0..n-1 in every real log)."""

    topic_id: TopicId
    name: str
    partitions: "Map[int, Partition]" = Map()


class Acl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One access control entry, with Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ScramCredential(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The server's part of a SCRAM credential."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class DelegationToken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A delegation token; times in ms since 1970."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int


class Image(msgspec.Struct, frozen=True, kw_only=True, gc=True):
    """All metadata of the cluster at one offset."""

    provenance: Provenance = Provenance(Offset(0), LeaderEpoch(0), 0)
    features: "Map[str, int]" = Map()  # finalized levels, metadata.version among them
    brokers: "Map[NodeId, Broker]" = Map()
    controllers: "Map[NodeId, Controller]" = Map()
    topics: "Map[TopicId, Topic]" = Map()
    topic_id_by_name: "Map[str, TopicId]" = Map()
    # `a.b` and `a_b` collide: names by their `normalised_topic_name`, sorted, never empty.
    topic_names_by_normalised: "Map[str, tuple[str, ...]]" = Map()
    configs: "Map[ConfigResource, Map[str, str]]" = Map()
    client_quotas: "Map[QuotaKey, Map[str, float]]" = Map()
    producer_ids: int | None = None  # first id of the next block, None before the first block
    acls: "Map[bytes, Acl]" = Map()  # by the 16 bytes of the ACL's id
    scram: "Map[ScramKey, ScramCredential]" = Map()
    delegation_tokens: "Map[str, DelegationToken]" = Map()  # by token id
    zk_migration_state: int | None = None  # None: no record yet

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version."""
        return self.features.get(METADATA_VERSION, METADATA_VERSION_ABSENT)

    def topic_named(self, name: str) -> Topic | None:
        """The topic of this name, None if there is none."""
        topic_id = self.topic_id_by_name.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: TopicId, partition_id: int) -> Partition | None:
        """A partition by topic id and number, None if there is none."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def config(self, resource_type: int, resource_name: str) -> "Map[str, str]":
        """The dynamic configs of a resource, empty when there are none."""
        return self.configs.get((resource_type, resource_name), _NO_CONFIGS)


_NO_CONFIGS: Final[Map[str, str]] = Map()
EMPTY: Final = Image()


def normalised_topic_name(name: str) -> str:
    """The name in metrics: names that differ only in '.' and '_' collide."""
    return name.replace(".", "_")


def sorted_items(entries: "Map[K, V] | Mapping[K, V]") -> list[tuple[K, V]]:
    """Entries in key order: the only way to iterate a Map if the order is visible outside."""
    items: list[tuple[Any, V]] = list(entries.items())
    items.sort(key=lambda item: item[0])
    return items


def sorted_directories(directories: tuple[DirectoryId, ...]) -> tuple[DirectoryId, ...]:
    """Directory ids in Kafka's order: UUIDs compare as two signed 64-bit numbers."""
    return tuple(sorted(directories, key=_signed_halves))


def _signed_halves(directory: DirectoryId) -> tuple[int, int]:
    return (
        int.from_bytes(directory[:8], "big", signed=True),
        int.from_bytes(directory[8:], "big", signed=True),
    )
