"""Handlers of the APIs about records, in tables by API key."""

from collections.abc import Callable

import msgspec

from broker.apis.access import Access
from broker.apis.find_coordinator import FindCoordinator
from broker.apis.groups.admin_groups import AdminApis
from broker.apis.groups.classic_groups import MemberApis
from broker.apis.groups.consumer_groups import ConsumerGroupApis
from broker.apis.log_dirs.alter_log_dirs import AlterReplicaLogDirs
from broker.apis.log_dirs.describe_log_dirs import DescribeLogDirs
from broker.apis.named_partitions import NamedPartitions
from broker.apis.offsets.offset_commit import OffsetCommit
from broker.apis.offsets.offset_delete import OffsetDelete
from broker.apis.offsets.offset_fetch import OffsetFetch
from broker.apis.records.delete_records import DeleteRecords
from broker.apis.records.fetch import Fetch
from broker.apis.records.leader_epochs import OffsetForLeaderEpoch
from broker.apis.records.list_offsets import ListOffsets
from broker.apis.records.produce import Produce
from broker.apis.records.producers import DescribeProducers
from broker.clients.call import Handler
from broker.config import RecordsConfig
from broker.coordinators.groups import GroupCoordinator
from broker.coordinators.topics import InternalTopics
from broker.coordinators.verification import TransactionVerifier
from broker.replicas.local_replicas import LocalReplicas
from broker.replicas.replica_moves import ReplicaMoves
from broker.services import Services
from metadata.image import Image
from replication.counters import Counters
from replication.leader.fetch_session import FetchManager, FetchSessionCache
from replication.replica_manager import ReplicaManager
from replication.throttle import ReplicationQuotas
from storage.vfs import Vfs
from wire.api_keys import (
    ALTER_REPLICA_LOG_DIRS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DESCRIBE_GROUPS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SYNC_GROUP,
)
from wire.types import TopicIdPartition


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the broker that handlers serve."""

    config: RecordsConfig
    image: Callable[[], Image]
    """Returns the newest image."""
    access: Access
    """Asked for groups, topics and the cluster."""
    partitions: NamedPartitions
    replicas: ReplicaManager
    local: LocalReplicas
    moves: ReplicaMoves
    groups: GroupCoordinator
    sessions: FetchSessionCache
    verifier: TransactionVerifier
    throttles: ReplicationQuotas
    counters: Counters
    services: Services
    vfs: Vfs
    new_uuid: Callable[[], bytes]
    """Makes random ones, for the ids of members."""
    on_failure: Callable[[TopicIdPartition, Exception], None]
    """Takes a partition and the failure of its disk."""


def record_handlers(served: Served) -> dict[int, Handler]:
    """Handlers of requests about records and the logs that have them."""
    image, access, partitions = served.image, served.access, served.partitions
    replicas, clock = served.replicas, served.services.clock
    fetch = Fetch(
        replicas,
        FetchManager(served.sessions),
        access,
        image=image,
        clock=clock,
        bytes_max=served.config.fetch_bytes_max,
        counters=served.counters,
        quota=served.throttles.leader,
    )
    return {
        PRODUCE: Produce(replicas, access, image, verifier=served.verifier, clock=clock).serve,
        FETCH: fetch.serve,
        LIST_OFFSETS: ListOffsets(partitions, access, served.on_failure).serve,
        DELETE_RECORDS: DeleteRecords(partitions, access, replicas).serve,
        OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpoch(partitions, access).serve,
        DESCRIBE_PRODUCERS: DescribeProducers(partitions, access).serve,
        **_log_dir_handlers(served),
    }


def _log_dir_handlers(served: Served) -> dict[int, Handler]:
    config, local = served.config, served.local
    image, access, moves = served.image, served.access, served.moves
    described = DescribeLogDirs(
        config, image, access, local.logs_in, moves.futures_in, served.vfs.volume
    )
    altered = AlterReplicaLogDirs(
        config,
        served.partitions,
        access,
        local=local,
        choice=local.choice,
        moves=moves,
        image=image,
    )
    return {DESCRIBE_LOG_DIRS: described.serve, ALTER_REPLICA_LOG_DIRS: altered.serve}


def group_handlers(served: Served) -> dict[int, Handler]:
    """Handlers of requests about groups and their offsets."""
    groups, access, image = served.groups, served.access, served.image
    topics = InternalTopics(served.services, dict(served.config.properties))
    members, admin = MemberApis(groups, access, served.new_uuid), AdminApis(groups, access)
    consumer = ConsumerGroupApis(groups, access, image, served.new_uuid)
    return {
        FIND_COORDINATOR: FindCoordinator(access, image, topics.create).serve,
        OFFSET_COMMIT: OffsetCommit(groups, access, image).serve,
        OFFSET_FETCH: OffsetFetch(groups, access, image).serve,
        OFFSET_DELETE: OffsetDelete(groups, access, image).serve,
        JOIN_GROUP: members.join,
        SYNC_GROUP: members.sync,
        HEARTBEAT: members.heartbeat,
        LEAVE_GROUP: members.leave,
        DESCRIBE_GROUPS: admin.describe,
        LIST_GROUPS: admin.list_groups,
        DELETE_GROUPS: admin.delete,
        CONSUMER_GROUP_HEARTBEAT: consumer.heartbeat,
        CONSUMER_GROUP_DESCRIBE: consumer.describe,
    }
