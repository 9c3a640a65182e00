"""Worlds of nodes whose voters are in the log (kraft.version 1), and the requests about them."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from kernel.quorum.voter_records import membership_records
from metadata.snapshot import encode_snapshot
from raft.membership.voter_history import Membership
from raft.membership.voters import Voter, VoterSet, voter_set
from tests.kernel.harness import World, directory_id
from tests.storage import golden
from wire.messages import codec
from wire.types import DirectoryId, Endpoint, LeaderEpoch, NodeId, ReplicaKey

FOLDER = "/data/__cluster_metadata-0"
FIRST = f"{FOLDER}/00000000000000000000-0000000000.checkpoint"
ADD, REMOVE, UPDATE, DESCRIBE = 80, 81, 82, 55


def directory(node_id: int) -> DirectoryId:
    """The id that `World.start` gives to the only directory of a node."""
    return directory_id(node_id)


def directory_of(world: World, node_id: int) -> DirectoryId:
    """The id that it gives next, or gave last."""
    return directory_id(node_id, world.nodes[node_id].wipes)


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(NodeId(node_id), directory(node_id))


def voter(node_id: int) -> Voter:
    return Voter(key(node_id), (Endpoint("CONTROLLER", str(node_id), 9093),), 0, 1)


def voters(*node_ids: int) -> VoterSet:
    return voter_set(tuple(map(voter, node_ids)))


def checkpoint(membership: Membership) -> bytes:
    """The bytes of a 0-0 checkpoint."""
    batches = encode_snapshot(
        (),
        level=25,
        epoch=LeaderEpoch(0),
        last_contained_timestamp_ms=0,
        timestamp_ms=0,
        control_records=membership_records(membership),
    )
    return b"".join(batches)


def dynamic_world(count: int, *initial: int, **more: Any) -> World:
    """Nodes without static voters; the initial ones are formatted with `--initial-controllers`."""
    world = World(count, **more)
    servers = tuple((str(node_id), 9093) for node_id in world.nodes)
    for node_id, node in world.nodes.items():
        node.config = replace(node.config, voters=(), bootstrap_servers=servers)
        if node_id in initial:
            golden.put(node.vfs, FIRST, checkpoint(Membership(1, voters(*initial))))
    return world


def leader_of(world: World) -> int:
    found = [i for i in world.alive if world.kernel(i).core.is_leader]
    return max(found, key=lambda i: world.kernel(i).core.epoch)


def voter_ids(world: World, node_id: int) -> tuple[int, ...]:
    return world.kernel(node_id).core.voters.ids


def agree(world: World, *ids: int) -> bool:
    """True if these are the voters at every running node, committed."""
    cores = [world.kernel(i).core for i in world.alive]
    return all(core.voters.ids == ids and not core.has_uncommitted_voters for core in cores)


def add_body(node_id: int, *, ack: bool = True, **more: Any) -> Any:
    new = codec.newest(ADD, "request")
    return new.AddRaftVoterRequest(
        cluster_id=more.get("cluster_id"),
        timeout=timedelta(seconds=30),
        voter_id=node_id,
        voter_directory_id=UUID(bytes=more.get("directory_id", directory(node_id))),
        listeners=(
            new.Listener(name=more.get("listener", "CONTROLLER"), host=str(node_id), port=9093),
        ),
        ack_when_committed=ack,
    )


def remove_body(node_id: int, directory_id: bytes | None = None) -> Any:
    return codec.newest(REMOVE, "request").RemoveRaftVoterRequest(
        cluster_id=None,
        voter_id=node_id,
        voter_directory_id=UUID(bytes=directory_id or directory(node_id)),
    )


def ask_leader(world: World, api_key: int, body: Any) -> Any:
    """The answer of the leader's controller listener."""
    return world.client(leader_of(world), "CONTROLLER").call(api_key, body)


def add(world: World, node_id: int, **more: Any) -> tuple[int, str | None]:
    answer = ask_leader(world, ADD, add_body(node_id, **more))
    return answer.error_code.value, answer.error_message


def remove(world: World, node_id: int, directory_id: bytes | None = None) -> tuple[int, str | None]:
    answer = ask_leader(world, REMOVE, remove_body(node_id, directory_id))
    return answer.error_code.value, answer.error_message


def describe_body() -> Any:
    new = codec.newest(DESCRIBE, "request")
    partition = new.PartitionData(partition_index=0)
    topic = new.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return new.DescribeQuorumRequest(topics=(topic,))
