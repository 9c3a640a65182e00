"""Members of a simulated cluster: ids of machines and clients, configuration of a machine."""

from typing import Final

from kernel.config import (
    BrokerConfig,
    MetadataLogConfig,
    NodeConfig,
    QuorumConfig,
    TopicDefaults,
    Voter,
)
from simulator.campaign.draw import Settings
from simulator.cluster.machine import CONTROLLER_PORT, DATA
from wire.types import Endpoint, NodeId

BROKER_PORT: Final = 9092
FIRST_OBSERVER_ID: Final = 101
FIRST_CLIENT_HOST: Final = 1_000


def client_hosts(settings: Settings) -> tuple[int, ...]:
    """Hosts of the clients, without the one that asks after faults have stopped."""
    return tuple(range(FIRST_CLIENT_HOST, FIRST_CLIENT_HOST + settings.client_count))


def machine_ids(settings: Settings) -> tuple[int, ...]:
    """Ids of the voters from 1 on, then of the observers from 101 on."""
    voters = range(1, settings.voter_count + 1)
    observers = range(FIRST_OBSERVER_ID, FIRST_OBSERVER_ID + settings.observer_count)
    return (*voters, *observers)


def node_config(settings: Settings, number: int) -> NodeConfig:
    """The configuration of one machine; its host name is its number."""
    is_voter = number <= settings.voter_count
    is_broker = settings.is_combined or not is_voter
    endpoints = []
    if is_broker:
        endpoints.append(Endpoint("PLAINTEXT", str(number), BROKER_PORT))
    if is_voter:
        endpoints.append(Endpoint("CONTROLLER", str(number), CONTROLLER_PORT))
    return NodeConfig(
        node_id=NodeId(number),
        is_broker=is_broker,
        is_controller=is_voter,
        voters=tuple(
            Voter(NodeId(i), str(i), CONTROLLER_PORT) for i in range(1, settings.voter_count + 1)
        ),
        controller_listener_names=("CONTROLLER",),
        listeners=tuple(endpoints),
        advertised_listeners=tuple(endpoints),
        log_dirs=(DATA,),
        metadata_log_dir=DATA,
        quorum=QuorumConfig(
            election_timeout_ms=settings.election_timeout_ms,
            fetch_timeout_ms=settings.fetch_timeout_ms,
            election_backoff_ms_max=settings.election_timeout_ms,
            fetch_bytes_max=settings.fetch_bytes_max,
            fetch_snapshot_bytes_max=settings.fetch_snapshot_bytes_max,
            request_timeout_ms=settings.request_timeout_ms,
            announces_voter=False,  # the seeds are of a quorum without
        ),
        metadata_log=MetadataLogConfig(
            segment_bytes=settings.segment_bytes,
            record_bytes_between_snapshots=settings.record_bytes_between_snapshots,
            retention_bytes=settings.retention_bytes,
        ),
        broker=BrokerConfig(
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.session_timeout_ms // 4,
        ),
        topic_defaults=TopicDefaults(replication_factor=1),
    )
