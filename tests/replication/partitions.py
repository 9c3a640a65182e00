"""Partitions over logs in memory, with the brokers that their metadata name."""

from dataclasses import dataclass, field

import msgspec

from metadata.image import Partition as PartitionRegistration
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.leadership import LocalBroker
from replication.partition import Partition
from replication.roles import PartitionSettings
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.unified_log import FetchIsolation
from tests.storage.test_unified_log import NOW, opened, produced

LAG_MS = 100
WALL_MS = NOW
LOG_END, WATERMARK, STABLE = FetchIsolation


@dataclass
class Broker:
    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False


@dataclass
class Brokers:
    """Brokers 1 to 4 as the metadata have them, registered with epochs 11 to 14."""

    registered: dict = field(default_factory=lambda: {n: Broker(10 + n) for n in (1, 2, 3, 4)})

    def partition(self, node_id=1, *, minimum=1, deletes=True):
        broker = LocalBroker(
            node_id, lambda: self.registered[node_id].epoch, self.registered.get, LAG_MS
        )
        settings = PartitionSettings(min_insync_replicas=minimum, deletes=deletes)
        return Partition(broker, settings)


def registration(leader=1, epoch=1, *, partition_epoch=None, isr=(1, 2, 3), **fields):
    """Metadata of a partition of brokers 1, 2 and 3; its partition epoch is the leader epoch."""
    return PartitionRegistration(
        **(
            {
                "replicas": (1, 2, 3),
                "isr": isr,
                "leader": leader,
                "leader_epoch": epoch,
                "partition_epoch": epoch if partition_epoch is None else partition_epoch,
            }
            | fields
        )
    )


def led(records=0, *, minimum=1, deletes=True, brokers=None, log=None, **fields):
    """A partition that broker 1 leads in epoch 1 since instant 0, with one-record batches."""
    partition = (brokers or Brokers()).partition(minimum=minimum, deletes=deletes)
    partition.open_log(log or opened(MemoryVfs()), 0)
    partition.make_leader(registration(**fields), 0)
    for _ in range(records):
        append(partition, 0)
    return partition


def append(partition, now_ms, *, acks=1, count=1):
    return partition.append_as_leader(
        produced(*[WALL_MS] * count), required_acks=acks, wall_ms=WALL_MS, now_ms=now_ms
    )


CONSUMER = FetchParams(
    replica_id=None, max_wait_ms=0, min_bytes=1, isolation=WATERMARK, is_leader_only=True
)


def from_follower(replica_id=2, replica_epoch=None):
    """Parameters of a follower's Fetch; its broker epoch is that of `Brokers` unless given."""
    return FetchParams(
        replica_id=replica_id,
        replica_epoch=10 + replica_id if replica_epoch is None else replica_epoch,
        max_wait_ms=0,
        min_bytes=1,
        isolation=LOG_END,
        is_leader_only=True,
    )


def fetch(partition, offset, params=CONSUMER, *, now_ms=0, max_bytes=1 << 20, **row):
    """Fetch from a partition; what is not a field of a row is an argument of `fetch`."""
    others = {name: row.pop(name) for name in ("at_least_one", "updates_replica") if name in row}
    if params.replica_id is not None:
        row.setdefault("log_start_offset", 0)
    request = FetchPartition(fetch_offset=offset, max_bytes=max_bytes, **row)
    return partition.fetch(
        params,
        request,
        max_bytes=max_bytes,
        now_ms=now_ms,
        **({"at_least_one": True} | others),
    )


def content(fetched):
    return b"" if fetched.records is None else fetched.records.read()


def with_isolation(isolation):
    return msgspec.structs.replace(CONSUMER, isolation=isolation)
