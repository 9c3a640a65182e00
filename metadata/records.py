"""All metadata records of Apache Kafka 4.3, each declared once.

The declaration is the layout: `record_codec.py` derives readers and writers from it, `json_form.py`
the text of Kafka's dump tool, the tests their strategies. One class holds the union of its
versions; a field set to something else than its default that a chosen version cannot carry is an
error when that version is written.

Names are Kafka's in snake_case, UUIDs are 16 bytes, arrays are tuples, null is None.
(apache/kafka: metadata/src/main/resources/common/metadata/*.json)
"""

from typing import Annotated, ClassVar, Final

from metadata.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    MetadataRecordError,
    Record,
    UnknownRecord,
    WireStruct,
    array,
    field,
)
from wire.types import (
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
)

__all__ = [
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataRecordError",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "QuotaEntity",
    "Record",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RegisteredEndpoint",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "SupportedFeature",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnknownRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
]

NO_LEADER: Final = NodeId(-1)
NO_LEADER_CHANGE: Final = NodeId(-2)
NO_RECOVERY_STATE_CHANGE: Final = -1
LEADER_RECOVERED: Final = 0
LEADER_RECOVERING: Final = 1
# BrokerRegistrationChangeRecord.fenced and .in_controlled_shutdown
REGISTRATION_FENCE: Final = 1
REGISTRATION_UNFENCE: Final = -1
REGISTRATION_NO_CHANGE: Final = 0
REGISTRATION_IN_CONTROLLED_SHUTDOWN: Final = 1
# ConfigRecord.resource_type (apache/kafka: ConfigResource.Type)
CONFIG_TOPIC: Final = 2
CONFIG_BROKER: Final = 4
CONFIG_CLIENT_METRICS: Final = 16
CONFIG_GROUP: Final = 32


class RegisteredEndpoint(WireStruct, frozen=True, kw_only=True, gc=False):
    """A listener of a registered broker or controller, as others reach it."""

    name: Annotated[str, field(STRING)]
    host: Annotated[str, field(STRING)]
    port: Annotated[int, field(UINT16)]
    security_protocol: Annotated[int, field(INT16)] = 0


class SupportedFeature(WireStruct, frozen=True, kw_only=True, gc=False):
    """Inclusive range of levels that a broker or controller supports of one feature."""

    name: Annotated[str, field(STRING)]
    min_supported_version: Annotated[int, field(INT16)]
    max_supported_version: Annotated[int, field(INT16)]


class QuotaEntity(WireStruct, frozen=True, kw_only=True, gc=False):
    """One part of a quota's entity: `user`, `client-id` or `ip`; name None is the default."""

    entity_type: Annotated[str, field(STRING)]
    entity_name: Annotated[str | None, field(STRING, nullable=True)]


class RegisterBrokerRecord(Record, frozen=True, kw_only=True, gc=False):
    """A broker's registration; replaces an older one of the same id (KIP-631, KIP-858, KIP-1066).

    `broker_epoch` is the offset of this record.
    """

    api_key: ClassVar[int] = 0
    versions: ClassVar[tuple[int, int]] = (0, 4)
    type_name: ClassVar[str] = "REGISTER_BROKER_RECORD"

    broker_id: Annotated[NodeId, field(INT32)]
    is_migrating_zk_broker: Annotated[bool, field(BOOL, since=2)] = False
    incarnation_id: Annotated[bytes, field(UUID)]
    broker_epoch: Annotated[BrokerEpoch, field(INT64)]
    end_points: Annotated[tuple[RegisteredEndpoint, ...], field(array(RegisteredEndpoint))] = ()
    features: Annotated[tuple[SupportedFeature, ...], field(array(SupportedFeature))] = ()
    rack: Annotated[str | None, field(STRING, nullable=True)] = None
    fenced: Annotated[bool, field(BOOL)] = True
    in_controlled_shutdown: Annotated[bool, field(BOOL, since=1)] = False
    log_dirs: Annotated[tuple[DirectoryId, ...], field(array(UUID), since=3, tag=0)] = ()
    cordoned_log_dirs: Annotated[
        tuple[DirectoryId, ...] | None, field(array(UUID), since=4, tag=1, nullable=True)
    ] = None


class UnregisterBrokerRecord(Record, frozen=True, kw_only=True, gc=False):
    """Removal of a broker's registration; the epoch must be the registered one."""

    api_key: ClassVar[int] = 1
    type_name: ClassVar[str] = "UNREGISTER_BROKER_RECORD"

    broker_id: Annotated[NodeId, field(INT32)]
    broker_epoch: Annotated[BrokerEpoch, field(INT64)]


class TopicRecord(Record, frozen=True, kw_only=True, gc=False):
    """A new topic; its configs and partitions follow."""

    api_key: ClassVar[int] = 2
    type_name: ClassVar[str] = "TOPIC_RECORD"

    name: Annotated[str, field(STRING)]
    topic_id: Annotated[TopicId, field(UUID)]


class PartitionRecord(Record, frozen=True, kw_only=True, gc=False):
    """One partition of a topic (KIP-631; v1 directories, KIP-858; v2 ELR, KIP-966)."""

    api_key: ClassVar[int] = 3
    versions: ClassVar[tuple[int, int]] = (0, 2)
    type_name: ClassVar[str] = "PARTITION_RECORD"

    partition_id: Annotated[int, field(INT32)] = -1
    topic_id: Annotated[TopicId, field(UUID)]
    replicas: Annotated[tuple[NodeId, ...], field(array(INT32))] = ()
    isr: Annotated[tuple[NodeId, ...], field(array(INT32))] = ()
    removing_replicas: Annotated[tuple[NodeId, ...], field(array(INT32))] = ()
    adding_replicas: Annotated[tuple[NodeId, ...], field(array(INT32))] = ()
    leader: Annotated[NodeId, field(INT32)] = NO_LEADER
    leader_recovery_state: Annotated[int, field(INT8, tag=0)] = LEADER_RECOVERED
    leader_epoch: Annotated[LeaderEpoch, field(INT32)] = LeaderEpoch(-1)
    partition_epoch: Annotated[PartitionEpoch, field(INT32)] = PartitionEpoch(-1)
    directories: Annotated[tuple[DirectoryId, ...], field(array(UUID), since=1)] = ()
    eligible_leader_replicas: Annotated[
        tuple[NodeId, ...] | None, field(array(INT32), since=2, tag=1, nullable=True)
    ] = None
    last_known_elr: Annotated[
        tuple[NodeId, ...] | None, field(array(INT32), since=2, tag=2, nullable=True)
    ] = None


class ConfigRecord(Record, frozen=True, kw_only=True, gc=False):
    """One dynamic config of a resource; a null value removes it."""

    api_key: ClassVar[int] = 4
    type_name: ClassVar[str] = "CONFIG_RECORD"

    resource_type: Annotated[int, field(INT8)]
    resource_name: Annotated[str, field(STRING)]
    name: Annotated[str, field(STRING)]
    value: Annotated[str | None, field(STRING, nullable=True)]


class PartitionChangeRecord(Record, frozen=True, kw_only=True, gc=False):
    """A change of a partition: None, -2 (leader) and -1 (recovery state) mean unchanged.

    Each one adds 1 to the partition epoch; a leader other than -2 adds 1 to the leader epoch.
    """

    api_key: ClassVar[int] = 5
    versions: ClassVar[tuple[int, int]] = (0, 2)
    type_name: ClassVar[str] = "PARTITION_CHANGE_RECORD"

    partition_id: Annotated[int, field(INT32)] = -1
    topic_id: Annotated[TopicId, field(UUID)]
    isr: Annotated[tuple[NodeId, ...] | None, field(array(INT32), tag=0, nullable=True)] = None
    leader: Annotated[NodeId, field(INT32, tag=1)] = NO_LEADER_CHANGE
    replicas: Annotated[tuple[NodeId, ...] | None, field(array(INT32), tag=2, nullable=True)] = None
    removing_replicas: Annotated[
        tuple[NodeId, ...] | None, field(array(INT32), tag=3, nullable=True)
    ] = None
    adding_replicas: Annotated[
        tuple[NodeId, ...] | None, field(array(INT32), tag=4, nullable=True)
    ] = None
    leader_recovery_state: Annotated[int, field(INT8, tag=5)] = NO_RECOVERY_STATE_CHANGE
    directories: Annotated[
        tuple[DirectoryId, ...] | None, field(array(UUID), since=1, tag=8, nullable=True)
    ] = None
    eligible_leader_replicas: Annotated[
        tuple[NodeId, ...] | None, field(array(INT32), since=2, tag=6, nullable=True)
    ] = None
    last_known_elr: Annotated[
        tuple[NodeId, ...] | None, field(array(INT32), since=2, tag=7, nullable=True)
    ] = None


class FenceBrokerRecord(Record, frozen=True, kw_only=True, gc=False):
    """Fencing of a broker; written only below metadata.version 6 (3.3-IV2)."""

    api_key: ClassVar[int] = 7
    type_name: ClassVar[str] = "FENCE_BROKER_RECORD"

    id: Annotated[NodeId, field(INT32)]
    epoch: Annotated[BrokerEpoch, field(INT64)]


class UnfenceBrokerRecord(Record, frozen=True, kw_only=True, gc=False):
    """Unfencing of a broker; written only below metadata.version 6 (3.3-IV2)."""

    api_key: ClassVar[int] = 8
    type_name: ClassVar[str] = "UNFENCE_BROKER_RECORD"

    id: Annotated[NodeId, field(INT32)]
    epoch: Annotated[BrokerEpoch, field(INT64)]


class RemoveTopicRecord(Record, frozen=True, kw_only=True, gc=False):
    """Removal of a topic with its partitions and configs."""

    api_key: ClassVar[int] = 9
    type_name: ClassVar[str] = "REMOVE_TOPIC_RECORD"

    topic_id: Annotated[TopicId, field(UUID)]


class DelegationTokenRecord(Record, frozen=True, kw_only=True, gc=False):
    """A delegation token or its renewal; times are ms since 1970, principals `User:alice`."""

    api_key: ClassVar[int] = 10
    type_name: ClassVar[str] = "DELEGATION_TOKEN_RECORD"

    owner: Annotated[str, field(STRING)]
    requester: Annotated[str, field(STRING)]
    renewers: Annotated[tuple[str, ...], field(array(STRING))] = ()
    issue_timestamp: Annotated[int, field(INT64)]
    max_timestamp: Annotated[int, field(INT64)]
    expiration_timestamp: Annotated[int, field(INT64)]
    token_id: Annotated[str, field(STRING)]


class UserScramCredentialRecord(Record, frozen=True, kw_only=True, gc=False):
    """A SCRAM credential: mechanism 1 is SHA-256, 2 is SHA-512."""

    api_key: ClassVar[int] = 11
    type_name: ClassVar[str] = "USER_SCRAM_CREDENTIAL_RECORD"

    name: Annotated[str, field(STRING)]
    mechanism: Annotated[int, field(INT8)]
    salt: Annotated[bytes, field(BYTES)]
    stored_key: Annotated[bytes, field(BYTES)]
    server_key: Annotated[bytes, field(BYTES)]
    iterations: Annotated[int, field(INT32)]


class FeatureLevelRecord(Record, frozen=True, kw_only=True, gc=False):
    """The finalized level of a feature; level 0 removes it."""

    api_key: ClassVar[int] = 12
    type_name: ClassVar[str] = "FEATURE_LEVEL_RECORD"

    name: Annotated[str, field(STRING)]
    feature_level: Annotated[int, field(INT16)]


class ClientQuotaRecord(Record, frozen=True, kw_only=True, gc=False):
    """One quota value of an entity; `value` is ignored when `remove` is set."""

    api_key: ClassVar[int] = 14
    type_name: ClassVar[str] = "CLIENT_QUOTA_RECORD"

    entity: Annotated[tuple[QuotaEntity, ...], field(array(QuotaEntity))]
    key: Annotated[str, field(STRING)]
    value: Annotated[float, field(FLOAT64)] = 0.0
    remove: Annotated[bool, field(BOOL)] = False


class ProducerIdsRecord(Record, frozen=True, kw_only=True, gc=False):
    """Allocation of a block of producer ids; `next_producer_id` is the start of the next block."""

    api_key: ClassVar[int] = 15
    type_name: ClassVar[str] = "PRODUCER_IDS_RECORD"

    broker_id: Annotated[NodeId, field(INT32)]
    broker_epoch: Annotated[BrokerEpoch, field(INT64)] = BrokerEpoch(-1)
    next_producer_id: Annotated[int, field(INT64)]


class BrokerRegistrationChangeRecord(Record, frozen=True, kw_only=True, gc=False):
    """A change of a broker's registration (KIP-841, KIP-858, KIP-1066).

    `fenced`: 1 fence, -1 unfence, 0 unchanged; `in_controlled_shutdown`: 1 enter, 0 unchanged;
    `log_dirs`: empty is unchanged; `cordoned_log_dirs`: None is unchanged, empty is none cordoned.
    """

    api_key: ClassVar[int] = 17
    versions: ClassVar[tuple[int, int]] = (0, 3)
    type_name: ClassVar[str] = "BROKER_REGISTRATION_CHANGE_RECORD"

    broker_id: Annotated[NodeId, field(INT32)]
    broker_epoch: Annotated[BrokerEpoch, field(INT64)]
    fenced: Annotated[int, field(INT8, tag=0)] = REGISTRATION_NO_CHANGE
    in_controlled_shutdown: Annotated[int, field(INT8, since=1, tag=1)] = REGISTRATION_NO_CHANGE
    log_dirs: Annotated[tuple[DirectoryId, ...], field(array(UUID), since=2, tag=2)] = ()
    cordoned_log_dirs: Annotated[
        tuple[DirectoryId, ...] | None, field(array(UUID), since=3, tag=3, nullable=True)
    ] = None


class AccessControlEntryRecord(Record, frozen=True, kw_only=True, gc=False):
    """One ACL with Kafka's numbers for resource type, pattern, operation and permission."""

    api_key: ClassVar[int] = 18
    type_name: ClassVar[str] = "ACCESS_CONTROL_ENTRY_RECORD"

    id: Annotated[bytes, field(UUID)]
    resource_type: Annotated[int, field(INT8)]
    resource_name: Annotated[str, field(STRING)]
    pattern_type: Annotated[int, field(INT8)]
    principal: Annotated[str, field(STRING)]
    host: Annotated[str, field(STRING)]
    operation: Annotated[int, field(INT8)]
    permission_type: Annotated[int, field(INT8)]


class RemoveAccessControlEntryRecord(Record, frozen=True, kw_only=True, gc=False):
    """Removal of an ACL."""

    api_key: ClassVar[int] = 19
    type_name: ClassVar[str] = "REMOVE_ACCESS_CONTROL_ENTRY_RECORD"

    id: Annotated[bytes, field(UUID)]


class NoOpRecord(Record, frozen=True, kw_only=True, gc=False):
    """No change; advances the committed offset of an idle cluster (KIP-835)."""

    api_key: ClassVar[int] = 20
    type_name: ClassVar[str] = "NO_OP_RECORD"


class ZkMigrationStateRecord(Record, frozen=True, kw_only=True, gc=False):
    """State of a migration from ZooKeeper; 0 NONE, 3 POST_MIGRATION (Kafka 3.4 to 3.9)."""

    api_key: ClassVar[int] = 21
    type_name: ClassVar[str] = "ZK_MIGRATION_STATE_RECORD"

    zk_migration_state: Annotated[int, field(INT8)]


class RemoveUserScramCredentialRecord(Record, frozen=True, kw_only=True, gc=False):
    """Removal of a SCRAM credential."""

    api_key: ClassVar[int] = 22
    type_name: ClassVar[str] = "REMOVE_USER_SCRAM_CREDENTIAL_RECORD"

    name: Annotated[str, field(STRING)]
    mechanism: Annotated[int, field(INT8)]


class BeginTransactionRecord(Record, frozen=True, kw_only=True, gc=False):
    """Begin of a metadata transaction, whose records take effect at its end or never (KIP-868)."""

    api_key: ClassVar[int] = 23
    type_name: ClassVar[str] = "BEGIN_TRANSACTION_RECORD"

    name: Annotated[str | None, field(STRING, tag=0, nullable=True)] = None


class EndTransactionRecord(Record, frozen=True, kw_only=True, gc=False):
    """End of the open metadata transaction, whose records take effect."""

    api_key: ClassVar[int] = 24
    type_name: ClassVar[str] = "END_TRANSACTION_RECORD"


class AbortTransactionRecord(Record, frozen=True, kw_only=True, gc=False):
    """Abort of the open metadata transaction, whose records are discarded."""

    api_key: ClassVar[int] = 25
    type_name: ClassVar[str] = "ABORT_TRANSACTION_RECORD"

    reason: Annotated[str | None, field(STRING, tag=0, nullable=True)] = None


class RemoveDelegationTokenRecord(Record, frozen=True, kw_only=True, gc=False):
    """Removal of a delegation token."""

    api_key: ClassVar[int] = 26
    type_name: ClassVar[str] = "REMOVE_DELEGATION_TOKEN_RECORD"

    token_id: Annotated[str, field(STRING)]


class RegisterControllerRecord(Record, frozen=True, kw_only=True, gc=False):
    """A controller's registration (KIP-919)."""

    api_key: ClassVar[int] = 27
    type_name: ClassVar[str] = "REGISTER_CONTROLLER_RECORD"

    controller_id: Annotated[NodeId, field(INT32)]
    incarnation_id: Annotated[bytes, field(UUID)]
    zk_migration_ready: Annotated[bool, field(BOOL)] = False
    end_points: Annotated[tuple[RegisteredEndpoint, ...], field(array(RegisteredEndpoint))] = ()
    features: Annotated[tuple[SupportedFeature, ...], field(array(SupportedFeature))] = ()


class ClearElrRecord(Record, frozen=True, kw_only=True, gc=False):
    """Removal of the ELR lists of a topic, with an empty name those of every topic (KIP-966)."""

    api_key: ClassVar[int] = 28
    type_name: ClassVar[str] = "CLEAR_ELR_RECORD"

    topic_name: Annotated[str, field(STRING)] = ""


RECORD_TYPES: Final[dict[int, type[Record]]] = {
    cls.api_key: cls
    for cls in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}
assert len(RECORD_TYPES) == 26, "two records share an api key"
