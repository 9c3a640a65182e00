"""I3 and I4: one vote per epoch, none once a leader is recorded, only for logs at least as good.

Also I16 for the first role of a process: that of its quorum-state and its log.

A vote is compared with the log of its candidate, read from the disk when it became candidate, so
that it is judged also when the candidate is down or far ahead by the time of the vote.
"""

import json

from raft.core import RaftCore
from raft.roles import Candidate, Follower, Leader, Resigned
from simulator.checks.raft.log_mirror import QUORUM_STATE, LogMirror
from simulator.cluster.machine import Machine

Position = tuple[int, int]
"""(epoch of the last record, end offset)."""

First = tuple[str, int, int, int]
"""First role of a process: its name, epoch, leader and vote, -1 for nobody."""


class VoteChecks:
    """Memory of votes, recorded leaders and the logs of candidates, per node and epoch."""

    def __init__(
        self, machines: dict[int, Machine], mirrors: dict[int, LogMirror], voters: frozenset[int]
    ) -> None:
        self._machines = machines
        self._mirrors = mirrors
        self._voters = voters
        self._votes: dict[tuple[int, int], int] = {}
        self._recorded: dict[tuple[int, int], int] = {}
        """(node, epoch) -> leader that is in quorum-state."""
        self._read: dict[int, dict[str, int]] = {}
        """Quorum-state that a process begins with."""
        self._candidate_logs: dict[tuple[int, int], Position] = {}
        """Log of a candidate; the shortest one if it was candidate again after a restart."""

    def forget(self, number: int) -> None:
        """Forget the votes of a node that got an empty disk, and the leaders on the lost one."""
        for memory in (self._votes, self._recorded):
            for key in [key for key in memory if key[0] == number]:
                del memory[key]

    def starting(self, machine: Machine) -> None:
        """Note the quorum-state that a process is about to read."""
        content = machine.vfs.written_content(QUORUM_STATE)
        try:
            self._read[machine.id] = {} if content is None else json.loads(bytes(content))
        except ValueError:
            self._read[machine.id] = {}  # damaged: it may not start

    def created(self, machine: Machine) -> str | None:
        """Describe how the first role of a process is not that of what it read, None if it is."""
        assert machine.kernel is not None
        core = machine.kernel.core
        role = core.role
        voted_id = -1 if role.voted_key is None else int(role.voted_key.id)
        leader_id = -1 if role.leader_id is None else int(role.leader_id)
        begins: First = type(role).__name__, int(role.epoch), leader_id, voted_id
        expected = self._first_role(machine, int(core.last_epoch))
        if begins == expected:
            return None
        read = self._read.get(machine.id, {})
        text = f"it begins as {begins} with the log of epoch {core.last_epoch} and {read}"
        return f"{text}, expected {expected}"

    def _first_role(self, machine: Machine, last_epoch: int) -> First:
        """Apply the first rule that fits (apache/kafka: raft/.../QuorumState.java, `initialize`).

        A file with a vote for itself and another leader is of an election that is over.
        """
        read, number = self._read.get(machine.id, {}), machine.id
        epoch, leader_id = read.get("leaderEpoch", 0), read.get("leaderId", -1)
        voted_id = read.get("votedId", -1)
        if epoch < last_epoch:
            return "Unattached", last_epoch, -1, -1
        if leader_id == number:
            return "Resigned", epoch, number, -1
        if voted_id == number and leader_id < 0 and number in self._voters:
            return "Candidate", epoch, -1, number
        if leader_id in self._voters:
            return "Follower", epoch, leader_id, voted_id
        return "Unattached", epoch, leader_id, voted_id

    def started(self, machine: Machine, core: RaftCore) -> str | None:
        """Describe how a vote of this epoch that the process read was lost, None if none was.

        Forgets a leader that the disk does not name: a fault may bring an older file back.
        """
        stored = stored_election(machine)
        if stored.get("leaderEpoch") != core.epoch or stored.get("leaderId", -1) < 0:
            self._recorded.pop((machine.id, core.epoch), None)
        read, role = self._read.pop(machine.id, {}), core.role
        voted_id = read.get("votedId", -1)
        is_kept = read.get("leaderEpoch") != core.epoch or type(role) in (Leader, Resigned)
        if machine.id not in self._voters or voted_id < 0 or is_kept:
            return None
        kept = None if role.voted_key is None else int(role.voted_key.id)
        return None if kept == voted_id else f"it had voted for {voted_id}, restarted for {kept}"

    def broken(self, machine: Machine, core: RaftCore, *, is_new: bool) -> tuple[str, str] | None:
        """Return the invariant that a change of role broke, and how; None if all is well.

        Args:
            machine: the one whose role changed.
            core: its process's.
            is_new: False for what a process starts with.
        """
        role = core.role
        here = (machine.id, int(role.epoch))
        if type(role) is Candidate:
            position = (int(core.last_epoch), int(core.log_end_offset))
            mirror = self._mirrors[machine.id]
            if mirror.end_offset == position[1]:  # else it grew in this very step
                position = last_position(mirror, machine)
            self._candidate_logs[here] = min(position, self._candidate_logs.get(here, position))
        why = None
        if role.voted_key is not None:
            why = self._wrong_with_vote(machine, here, int(role.voted_key.id), is_new=is_new)
        if why is None and role.leader_id is not None:
            self._recorded[here] = int(role.leader_id)
        return why or self._not_durable(machine, core)

    def _wrong_with_vote(
        self, machine: Machine, here: tuple[int, int], voted_id: int, *, is_new: bool
    ) -> tuple[str, str] | None:
        epoch = here[1]
        first = self._votes.get(here)
        if first is None and here in self._recorded:
            led = f"recorded {self._recorded[here]} as leader of epoch {epoch}"
            return "I4", f"it {led}, then votes for {voted_id}"
        self._votes[here] = voted_id
        if first is not None and first != voted_id:
            return "I3", f"votes in epoch {epoch}: {first}, then {voted_id}"
        if voted_id == machine.id or not is_new:
            return None
        theirs = self._log_of_candidate(voted_id, epoch)
        ours = last_position(self._mirrors[machine.id], machine)
        if theirs is None or theirs >= ours:
            return None
        return "I4", f"it has {ours} and votes for {voted_id}, which has {theirs}"

    def _log_of_candidate(self, candidate_id: int, epoch: int) -> Position | None:
        """Log of a candidate by the bytes on its disk; None if it was never seen as one."""
        candidate = self._machines[candidate_id]
        position = self._candidate_logs.get((candidate_id, epoch))
        if candidate.kernel is None:
            return position
        core = candidate.kernel.core
        if core.epoch != epoch or type(core.role) is Follower:
            return position  # its log may have been cut since
        now = last_position(self._mirrors[candidate_id], candidate)
        return now if position is None else min(now, position)

    def _not_durable(self, machine: Machine, core: RaftCore) -> tuple[str, str] | None:
        """Compare epoch, vote and leader with what a power failure would leave: I2, I3, I4.

        Of an observer only the epoch: it does not vote, and may follow anyone after a restart.
        """
        role, stored = core.role, stored_election(machine)
        stored_epoch = stored.get("leaderEpoch", 0)
        if stored_epoch != role.epoch:
            return "I2", f"epoch {role.epoch} in memory, {stored_epoch} on the disk"
        if machine.id not in self._voters:
            return None
        stored_vote = stored.get("votedId", -1)
        if role.voted_key is not None and stored_vote != role.voted_key.id:
            return "I3", f"it voted for {role.voted_key.id}, the disk says {stored_vote}"
        stored_leader = stored.get("leaderId", -1)
        if role.leader_id is not None and stored_leader != role.leader_id:
            return "I4", f"it knows the leader {role.leader_id}, the disk says {stored_leader}"
        return None


def stored_election(machine: Machine) -> dict[str, int]:
    """Fields of quorum-state that every power failure leaves, none if there is no file."""
    content = machine.vfs.durable_content(QUORUM_STATE)
    found: dict[str, int] = {} if content is None else json.loads(bytes(content))
    return found


def last_position(mirror: LogMirror, machine: Machine) -> Position:
    """Position of the last record; of the snapshot where the log is empty."""
    if mirror.entries:
        return mirror.entries[-1].epoch, mirror.end_offset
    assert machine.kernel is not None
    core = machine.kernel.core
    return int(core.last_epoch), int(core.log_end_offset)
