"""The static voter set (kraft.version 0): ids and endpoints from configuration.

Directory ids are unknown under kraft.version 0, so a voter is matched by its id alone
(apache/kafka: raft/.../VoterSet.java, `isVoter`).
"""

import msgspec

from wire.types import Endpoint, NodeId


class VoterSet(msgspec.Struct, frozen=True):
    """The voters in ascending order of id."""

    endpoints: dict[NodeId, Endpoint]

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """Voter ids, ascending."""
        return tuple(sorted(self.endpoints))

    def is_voter(self, replica_id: NodeId | None) -> bool:
        """True if the replica is a voter; an anonymous one (None) is not."""
        return replica_id is not None and replica_id in self.endpoints

    def endpoint(self, replica_id: NodeId | None) -> Endpoint | None:
        """Return the endpoint of a voter; None for any other replica."""
        return None if replica_id is None else self.endpoints.get(replica_id)

    def others(self, node_id: NodeId) -> tuple[NodeId, ...]:
        """Return the voter ids without `node_id`, ascending."""
        return tuple(voter_id for voter_id in self.ids if voter_id != node_id)

    def rank(self, node_id: NodeId, lost_leader_id: NodeId | None) -> int:
        """Return the position of a voter among the voter ids without `lost_leader_id`."""
        assert node_id in self.endpoints, f"{node_id=} is not a voter"
        assert node_id != lost_leader_id, f"{node_id=} cannot have lost itself"
        standing = [voter_id for voter_id in self.ids if voter_id != lost_leader_id]
        return standing.index(node_id)


def voter_set(voters: tuple[tuple[NodeId, Endpoint], ...]) -> VoterSet:
    """Make the voter set from configuration; ids are unique."""
    endpoints = dict(voters)
    assert len(endpoints) == len(voters), f"duplicate voter id in {voters=}"
    assert endpoints, "a quorum needs a voter"
    return VoterSet(endpoints)
