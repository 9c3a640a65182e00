"""Choice of the replica that a consumer reads from: the leader, or one in its rack (KIP-392).

apache/kafka: clients/.../common/replica/RackAwareReplicaSelector.java,
core/.../server/ReplicaManager.scala (findPreferredReadReplica), 4.3.1
"""

from collections.abc import Callable, Iterable

import msgspec

from metadata.image import Image
from replication.leader.leadership import Leadership
from wire.types import NodeId, Offset


class Reader(msgspec.Struct, frozen=True, gc=False):
    """A consumer that may read from followers."""

    rack: str
    """Empty for none."""
    listener: str
    """Name of the listener at which it is connected, and reaches other brokers."""


class ReplicaView(msgspec.Struct, frozen=True, gc=False):
    """A follower that could serve the fetch of a consumer."""

    replica_id: NodeId
    rack: str | None
    """None also for a broker that the consumer does not reach."""
    log_end_offset: Offset
    caught_up_ms: int
    """Last instant at which it had all of the leader's records."""


SelectReplica = Callable[[str, str | None, Iterable[ReplicaView]], NodeId | None]
"""(rack of the consumer, rack of the leader, followers) -> the follower to read from, None for the
leader."""


def select_in_rack(
    rack: str, leader_rack: str | None, followers: Iterable[ReplicaView]
) -> NodeId | None:
    """The most caught up follower in the rack of the consumer, unless the leader is there too."""
    if not rack or leader_rack == rack:
        return None
    in_rack = [follower for follower in followers if follower.rack == rack]
    best = max(in_rack, key=_rank, default=None)
    return None if best is None else best.replica_id


def _rank(follower: ReplicaView) -> tuple[Offset, int, NodeId]:
    return follower.log_end_offset, follower.caught_up_ms, follower.replica_id


class ReplicaSelector:
    """The choice at a leader, by the metadata.

    Args:
        node_id: this broker.
        image: returns the newest.
        select: the policy.
    """

    def __init__(self, node_id: NodeId, image: Callable[[], Image], select: SelectReplica) -> None:
        self._node_id = node_id
        self._image = image
        self._select = select

    def preferred(self, reader: Reader, leader: Leadership, fetch_offset: Offset) -> NodeId | None:
        """The follower that a consumer should read from; None to read here.

        Only members of the ISR come into question, as others may lag behind for ever, and of them
        those whose log had the offset at their last fetch.
        """
        followers = [
            ReplicaView(
                replica_id,
                self._rack(replica_id, reader.listener),
                replica.log_end.offset,
                replica.last_caught_up_ms or 0,
            )
            for replica_id, replica in leader.replicas.items()
            if leader.is_in_sync(replica_id)
            and replica.log_end is not None
            and (replica.log_start_offset or 0) <= fetch_offset <= replica.log_end.offset
        ]
        return self._select(reader.rack, self._rack(self._node_id, reader.listener), followers)

    def _rack(self, node_id: NodeId, listener: str) -> str | None:
        """Rack of a broker that clients of a listener reach."""
        broker = self._image().brokers.get(node_id)
        if broker is None or broker.fenced or broker.endpoint(listener) is None:
            return None
        return broker.rack
