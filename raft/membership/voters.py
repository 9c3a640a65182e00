"""The voter set: who votes, and where each voter listens. A value; changed by making another.

Under kraft.version 0 it is the configuration's, and directory ids are unknown, so that a voter is
matched by its id alone; from version 1 a VotersRecord names the directory of each.
Source: KIP-853; apache/kafka: raft/.../VoterSet.java (`isVoter`), ReplicaKey.java.
"""

import msgspec

from wire.types import DirectoryId, Endpoint, NodeId, ReplicaKey


class Voter(msgspec.Struct, frozen=True):
    """A voter: its key, its controller listeners, and the kraft.versions that it supports."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    """Its controller listeners, the default one first; empty if unknown."""
    kraft_version_min: int = 0
    kraft_version_max: int = 0


class VoterSet(msgspec.Struct, frozen=True):
    """The voters by id, which is unique; empty while a replica does not know any."""

    by_id: dict[NodeId, Voter]

    def __len__(self) -> int:
        """Return the number of voters."""
        return len(self.by_id)

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """Voter ids, ascending."""
        return tuple(sorted(self.by_id))

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        """Voter keys, ascending by id."""
        return tuple([self.by_id[voter_id].key for voter_id in self.ids])

    def key_of(
        self, replica_id: NodeId | None, directory_id: DirectoryId | None
    ) -> ReplicaKey | None:
        """Return the key of the voter that a replica is; None if it is not a voter.

        A voter without directory id is matched by any directory, one with it by that one only: a
        replica with the id of a voter and another directory is an observer.
        """
        voter = None if replica_id is None else self.by_id.get(replica_id)
        if voter is None or voter.key.directory_id not in (None, directory_id):
            return None
        return voter.key

    def is_voter(self, key: ReplicaKey) -> bool:
        """True if the replica is a voter."""
        return self.key_of(key.id, key.directory_id) is not None

    def endpoint(self, replica_id: NodeId | None, listener: str = "") -> Endpoint | None:
        """Return the endpoint of the voter with this id: of the listener, else the first."""
        voter = None if replica_id is None else self.by_id.get(replica_id)
        if voter is None or not voter.endpoints:
            return None
        return listener_endpoint(voter.endpoints, listener) or voter.endpoints[0]

    def others(self, node_id: NodeId) -> tuple[ReplicaKey, ...]:
        """Return the voters with other ids than `node_id`, ascending."""
        return tuple([key for key in self.keys if key.id != node_id])

    def rank(self, node_id: NodeId, lost_leader_id: NodeId | None) -> int:
        """Return the position of a voter among the voter ids without `lost_leader_id`."""
        assert node_id in self.by_id, f"{node_id=} is not a voter"
        assert node_id != lost_leader_id, f"{node_id=} cannot have lost itself"
        standing = [voter_id for voter_id in self.ids if voter_id != lost_leader_id]
        return standing.index(node_id)


def listener_endpoint(endpoints: tuple[Endpoint, ...], listener: str) -> Endpoint | None:
    """Return the endpoint of a listener, None without one."""
    return next((each for each in endpoints if each.listener == listener), None)


def voter_set(voters: tuple[Voter, ...]) -> VoterSet:
    """Make a voter set; ids are unique."""
    by_id = {voter.key.id: voter for voter in voters}
    assert len(by_id) == len(voters), f"duplicate voter id in {voters=}"
    return VoterSet(by_id)


def static_voters(voters: tuple[tuple[NodeId, Endpoint], ...]) -> VoterSet:
    """Make the voter set of `controller.quorum.voters`: without directory ids, level 0 only."""
    return voter_set(
        tuple(Voter(ReplicaKey(voter_id), (endpoint,)) for voter_id, endpoint in voters)
    )


def replica_order(key: ReplicaKey) -> tuple[NodeId, bytes]:
    """Return what replica keys are sorted by: id, then directory id, none first."""
    return key.id, key.directory_id or b""
