"""Configuration of a node: roles, listeners, voters, directories, time-outs, limits.

An immutable, validated value: `node/configs/config.py` makes it from `server.properties` (Kafka's
key names are written only there), the simulator makes it directly. The name of a field is Kafka's
key without the prefix, with the unit as suffix; the defaults are Kafka's.

The cluster id is not here: it belongs to the log directories (`meta.properties`).
"""

from typing import Final

import msgspec

from network.connection_limits import ConnectionLimits
from quorum_controller.config import ElectionIntervals, MutationWindow, TokenSettings
from quorum_controller.security.authorization import AccessRules
from wire.types import Endpoint, NodeId

RECORD_BYTES_BETWEEN_SNAPSHOTS: Final = 20 * 1024 * 1024
WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000
GIBIBYTE: Final = 1024 * 1024 * 1024


class Voter(msgspec.Struct, frozen=True, gc=False):
    """One entry of `controller.quorum.voters`: `id@host:port`."""

    id: NodeId
    host: str
    port: int


class QuorumConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of raft: `controller.quorum.*` (apache/kafka: raft/.../QuorumConfig.java)."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_ms_max: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_bytes_max: int = 1024 * 1024
    fetch_snapshot_bytes_max: int = 1024 * 1024
    joins: bool = False
    """`auto.join.enable`: a controller that is no voter asks to become one."""
    announces_voter: bool = True
    """Describe this voter to each new leader at kraft.version 0 too, as Kafka since 4.1."""


class MetadataLogConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of the metadata log: segments, snapshots, retention, no-op records."""

    segment_bytes: int = GIBIBYTE
    segment_ms: int = WEEK_MS
    record_bytes_between_snapshots: int = RECORD_BYTES_BETWEEN_SNAPSHOTS
    snapshot_interval_ms_max: int = 60 * 60 * 1000
    """Maximum age of the last snapshot; 0 disables this trigger."""
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = WEEK_MS
    idle_interval_ms_max: int = 500
    """Idle time after which the active controller writes a NoOp record; 0 disables them."""


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of a broker's life cycle and of its requests."""

    rack: str | None = None
    session_timeout_ms: int = 9000
    heartbeat_interval_ms: int = 2000
    initial_registration_timeout_ms: int = 60_000
    directory_report_timeout_ms: int = 30_000
    """`log.dir.failure.timeout.ms`: time in which the controller must learn of a failed one."""
    controlled_shutdown_enable: bool = True
    delete_topic_enable: bool = True
    auto_create_topics_enable: bool = True
    """Create the topics that a Metadata request names; only beside records."""
    response_partitions_max: int = 2000
    """Partitions in a DescribeTopicPartitions response (`max.request.partition.size.limit`)."""


class TopicDefaults(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Defaults for values that a CreateTopics request leaves open."""

    partition_count: int = 1
    replication_factor: int = 1


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a node. `listeners` are bound, `advertised_listeners` are published."""

    node_id: NodeId
    is_broker: bool
    is_controller: bool
    voters: tuple[Voter, ...]
    """The static voters: they count until a record of the metadata log names others."""
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    """Host and port of controllers to ask for the leader."""
    controller_listener_names: tuple[str, ...]
    """Names in upper case; this node connects to controllers by the first one."""
    listeners: tuple[Endpoint, ...]
    """Listeners to bind; an empty host means every interface, port 0 any free port."""
    advertised_listeners: tuple[Endpoint, ...]
    """Endpoints of the bound listeners, brokers' and controllers', with a reachable host."""
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    """Directory of the metadata log: the first of `log_dirs`, or `metadata.log.dir`."""
    quorum: QuorumConfig = QuorumConfig()
    metadata_log: MetadataLogConfig = MetadataLogConfig()
    broker: BrokerConfig = BrokerConfig()
    topic_defaults: TopicDefaults = TopicDefaults()
    access: AccessRules | None = None
    """Rules of the authorizer (`authorizer.class.name`); None without one."""
    tokens: TokenSettings = TokenSettings()
    """Settings of delegation tokens (`delegation.token.*`)."""
    elections: ElectionIntervals = ElectionIntervals()
    """Intervals of the periodic leader elections of the controller."""
    mutations: MutationWindow = MutationWindow()
    """Windows of controller_mutation_rate (`controller.quota.window.*`)."""
    connection_limits: ConnectionLimits = ConnectionLimits()
    inspection_listener: Endpoint | None = None
    """Listener of the inspection API (`inspection.listener`); None disables it."""
    properties: tuple[tuple[str, str], ...] = ()
    """Every key and value as given, sorted by key: for logs and DescribeConfigs."""
    unknown_keys: tuple[str, ...] = ()
    """Keys of the file that this node does not support, sorted; logged once at start."""

    def __post_init__(self) -> None:
        """Assert the invariants that all users of the value rely on."""
        assert self.is_broker or self.is_controller, "a node without a role"
        assert self.log_dirs, "a node without a folder"
        assert self.controller_listener_names, "a node without the name of a controller listener"
        names = [endpoint.listener for endpoint in self.listeners]
        assert len(names) == len(set(names)), f"{names=}"

    @property
    def is_voter(self) -> bool:
        """True if `controller.quorum.voters` lists this node."""
        return any(voter.id == self.node_id for voter in self.voters)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        """The bound listeners for controller requests; empty without the controller role."""
        return tuple(e for e in self.listeners if e.listener in self.controller_listener_names)

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        """The bound listeners for clients and brokers; empty without the broker role."""
        return tuple(e for e in self.listeners if e.listener not in self.controller_listener_names)

    @property
    def advertised_controller_listeners(self) -> tuple[Endpoint, ...]:
        """Endpoints of this node for other controllers, ordered as their names are."""
        at = {endpoint.listener: endpoint for endpoint in self.advertised_listeners}
        return tuple(at[name] for name in self.controller_listener_names if name in at)

    @property
    def advertised_broker_listeners(self) -> tuple[Endpoint, ...]:
        """Endpoints of this node in BrokerRegistration requests."""
        names = self.controller_listener_names
        return tuple(e for e in self.advertised_listeners if e.listener not in names)

    def voter(self, node_id: NodeId) -> Voter | None:
        """Return the entry of a voter; None for any other node."""
        return next((voter for voter in self.voters if voter.id == node_id), None)
