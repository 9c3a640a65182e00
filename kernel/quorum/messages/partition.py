"""The wrapping of a message: one topic, `__cluster_metadata`, with one partition, 0.

Every response names the leader that the answering node knows (`leader_id` -1 for none) and its
endpoint, if known (`node_endpoints`, not sent in older versions).
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final, Protocol, TypeVar

from wire.messages import codec
from wire.types import METADATA_TOPIC_NAME, Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch


class _Partition(Protocol):
    """Row of a partition in any raft message."""

    @property
    def partition_index(self) -> int: ...


_S_co = TypeVar("_S_co", covariant=True)
_P = TypeVar("_P", bound=_Partition)
_S = TypeVar("_S")


class _Partitions(Protocol[_S_co]):
    """Row of a topic, by its partitions alone."""

    @property
    def partitions(self) -> Sequence[_S_co]: ...


class _Topic(_Partitions[_S_co], Protocol[_S_co]):
    """Row of a topic with its name."""

    @property
    def topic_name(self) -> str: ...


class _Node(Protocol):
    """Row of a node and its address."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class _Position(Protocol):
    """End offset and epoch of a snapshot."""

    @property
    def end_offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...


class _Listener(Protocol):
    """Row of a listener."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


NO_TIME: Final = timedelta(0)


def listeners_of(rows: Iterable[_Listener]) -> tuple[Endpoint, ...]:
    """Return the endpoints of rows of listeners; names are upper case here."""
    return tuple(Endpoint(row.name.upper(), row.host, row.port) for row in rows)


def only(topics: "Sequence[_Partitions[_S]]") -> _S | None:
    """Return the partition of a body with exactly one, else None."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    return topics[0].partitions[0]


def metadata_partition(topics: "Sequence[_Topic[_P]]") -> _P | None:
    """Return the partition of a body if it is only partition 0 of `__cluster_metadata`."""
    partition = only(topics)
    if partition is None or partition.partition_index != 0:
        return None
    return partition if topics[0].topic_name == METADATA_TOPIC_NAME else None


def one_topic(new: codec.Schema, partition: object) -> tuple[codec.Entity]:
    """Make the topics of a body of the schema module `new`."""
    return (new.TopicData(topic_name=METADATA_TOPIC_NAME, partitions=(partition,)),)


def node_endpoints(
    new: codec.Schema, leader_id: NodeId | None, endpoint: Endpoint | None
) -> tuple[codec.Entity, ...]:
    """Make the leader's node endpoint for a response of the schema module `new`."""
    if endpoint is None or leader_id is None:
        return ()
    return (new.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port),)


def leader_endpoint(nodes: Iterable[_Node], leader_id: NodeId | None) -> Endpoint | None:
    """Return the leader's endpoint from the node endpoints of a response."""
    for node in nodes:
        if node.node_id == leader_id:
            return Endpoint("", node.host, node.port)
    return None


def position(snapshot_id: _Position) -> OffsetAndEpoch:
    """Return the end offset and epoch of a snapshot id."""
    return OffsetAndEpoch(Offset(snapshot_id.end_offset), LeaderEpoch(snapshot_id.epoch))
