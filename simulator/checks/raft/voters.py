"""I15: the voters of a static quorum (kraft.version 0) never change, and only they count.

Checked on every node once a second and whenever its role changes: its voters are those of
the configuration; a candidate counts the answers of voters alone; a leader tracks the other voters
and nobody else as such, check quorum included; only voters are voted for or followed. And no
record that would change the set is ever committed.
"""

from collections.abc import Iterable

from raft.core import RaftCore
from raft.quorum import VoteTally
from raft.roles import Candidate, Leader, Prospective
from simulator.checks.metadata.ledger import Ledger
from simulator.cluster.machine import Machine
from wire.types import ReplicaKey


class VoterChecks:
    """Checks of the voters at a node, called once a second and at every new role."""

    def __init__(self, voters: frozenset[int], ledger: Ledger) -> None:
        self._voters = voters
        self._ledger = ledger

    def broken(self, machine: Machine, core: RaftCore) -> str | None:
        """Describe what is wrong with the voters as a node sees them, None if nothing is."""
        if self._ledger.voter_changes:
            return f"committed at {self._ledger.voter_changes}: a change of the static voters"
        known = set(map(int, core.voters.ids))
        if known != self._voters:
            return f"it knows the voters {sorted(known)}, not {sorted(self._voters)}"
        return self._wrong_with_role(machine.id, core)

    def _wrong_with_role(self, number: int, core: RaftCore) -> str | None:
        role, voters = core.role, self._voters
        named = [int(role.leader_id)] if role.leader_id is not None else []
        named += [int(role.voted_key.id)] if role.voted_key is not None else []
        others = [each for each in named if each not in voters]
        if others:
            return f"it follows or votes for {others}, no voter"
        if isinstance(role, Candidate | Prospective):
            return self._wrong_with_votes(role.votes)
        return self._wrong_with_leader(number, role) if isinstance(role, Leader) else None

    def _wrong_with_votes(self, votes: VoteTally) -> str | None:
        asked, granted, rejected = map(_ids, (votes.voters, votes.granted, votes.rejected))
        if asked != self._voters:
            return f"it wants the votes of {sorted(asked)}"
        if not granted | rejected <= self._voters:
            return f"it counts the votes {sorted(granted)}, {sorted(rejected)}"
        return None

    def _wrong_with_leader(self, number: int, role: Leader) -> str | None:
        others = self._voters - {number}
        followers, fetched = _ids(role.progress), _ids(role.fetched_voters)
        if followers != others:
            return f"it tracks {sorted(followers)} as the other voters"
        if not fetched <= others:
            return f"check quorum counts {sorted(fetched)}"
        tracked = [int(key.id) for key in role.observers if int(key.id) in self._voters]
        return f"it tracks the voters {tracked} as observers" if tracked else None


def _ids(keys: Iterable[ReplicaKey]) -> frozenset[int]:
    """Return the ids: static voters are known by nothing else."""
    return frozenset([int(key.id) for key in keys])
