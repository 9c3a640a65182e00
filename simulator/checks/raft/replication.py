"""Rules between every leader and its followers, checked on both sides at once.

- I6: what a follower appends is in the log of the leader that it follows.
- I10: a leader counts a voter only by a fetch of its own epoch, so the voter knows that epoch.
- liveness: a leader without fetches of a majority resigns (check quorum).
- liveness: a leader that flushed nothing for its fetch time-out resigns, if a voter has more.
"""

from typing import Final

from raft.core import RaftCore
from raft.fetching.progress import Progress
from raft.roles import Follower, Leader
from simulator.checks.raft.log_mirror import Entry, LogMirror
from simulator.cluster.machine import Machine

LOOKED_AT_EVERY_US: Final = 100_000
SLACK_MS: Final = 50


class ReplicationChecks:
    """Memory of the newest epoch of every node, and of the epochs that each node led."""

    def __init__(
        self, machines: dict[int, Machine], mirrors: dict[int, LogMirror], voters: frozenset[int]
    ) -> None:
        self._machines = machines
        self._mirrors = mirrors
        self._voters = voters
        self._epochs = dict.fromkeys(machines, 0)
        self._led: dict[tuple[int, int], int] = {}
        """(node, epoch) -> start of its leadership, by its own clock."""
        self._known_by_all = dict.fromkeys(machines, -1)
        """Leader -> its epoch, once all voters know it: known epochs never fall."""
        self._look_us = dict.fromkeys(machines, 0)
        self._awaited: dict[int, tuple[int, int, int, int]] = {}
        """Leader -> process, epoch, flushed end below its written end, first look at that."""

    def note_epoch(self, number: int, epoch: int) -> None:
        """Note the epoch of a node."""
        self._epochs[number] = max(self._epochs[number], epoch)

    def broken(self, machine: Machine, role: Leader) -> tuple[str, str] | None:
        """Return the invariant that a step of a leader broke, and how; None if all is well."""
        number = machine.id
        if self._known_by_all[number] != role.epoch:
            counted = self._wrongly_counted(number, role)
            if counted is not None:
                return "I10", counted
        now_us = machine.scheduler.now_us
        if self._look_us[number] <= now_us and len(self._voters) > 1:
            self._look_us[number] = now_us + LOOKED_AT_EVERY_US
            since_ms = max(self._led[number, role.epoch], machine.resumed_ms)
            return self._isolated(machine, role, since_ms) or self._stalled(machine, role)
        return None

    def _wrongly_counted(self, number: int, role: Leader) -> str | None:
        """Describe a voter that a leader counts in an epoch which that voter does not know."""
        if (number, role.epoch) not in self._led:
            self._led[number, role.epoch] = self._machines[number].now().monotonic_ms
        for voter, seen in role.progress.items():
            if seen.end_offset is not None and self._epochs[voter.id] < role.epoch:
                known = f"which knows epoch {self._epochs[voter.id]}"
                return f"it counts {voter.id} in epoch {role.epoch}, {known}"
        if all(self._epochs[voter] >= role.epoch for voter in self._voters):
            self._known_by_all[number] = role.epoch
        return None

    def _isolated(self, machine: Machine, role: Leader, since_ms: int) -> tuple[str, str] | None:
        """Allow twice the time of check quorum: its timer restarts at the last needed fetch."""
        now_ms = machine.now().monotonic_ms
        contacts_ms = sorted(max(n.last_contact_ms or 0, since_ms) for n in role.progress.values())
        oldest_ms = contacts_ms[-(len(self._voters) // 2)]
        allowed_ms = 3 * machine.config.quorum.fetch_timeout_ms + SLACK_MS
        if now_ms - oldest_ms <= allowed_ms:
            return None
        return (
            "liveness",
            f"no majority fetched from it in epoch {role.epoch} for {now_ms - oldest_ms} ms",
        )

    def _stalled(self, machine: Machine, role: Leader) -> tuple[str, str] | None:
        """Time each flushed end that is below the written one, from the first look at it.

        A process that was stopped may finish a turn before its core steps again.
        """
        raft, now_ms = machine.raft, machine.now().monotonic_ms
        assert raft is not None
        flushed, written = raft.log.flushed_end_offset, raft.log.written_end_offset
        if flushed == written:
            self._awaited.pop(machine.id, None)
            return None
        found = (machine.incarnation, role.epoch, flushed)
        *known, since_ms = self._awaited.get(machine.id, (*found, now_ms))
        if tuple(known) != found:
            since_ms = now_ms
        self._awaited[machine.id] = (*found, since_ms)
        ahead = [voter.id for voter, seen in role.progress.items() if _end(seen) > flushed]
        since_ms = max(since_ms, machine.resumed_ms)
        if now_ms - since_ms <= machine.config.quorum.fetch_timeout_ms + SLACK_MS or not ahead:
            return None
        took = f"{flushed} to {written} is not flushed after {now_ms - since_ms} ms"
        return "liveness", f"it leads epoch {role.epoch}, {took}, voters {ahead} have more"

    def wrongly_appended(self, machine: Machine, core: RaftCore, fresh: list[Entry]) -> str | None:
        """Describe a new batch of a follower that its leader does not have.

        Batches that it made as leader are not judged: one turn may append and depose it.
        """
        role = core.role
        if not fresh or type(role) is Leader:
            return None
        if type(role) is not Follower:
            others = [entry for entry in fresh if (machine.id, entry.epoch) not in self._led]
            return f"it appended {others[0]} and is no follower" if others else None
        leader = self._machines[int(role.leader_id)]
        if leader.kernel is None:
            return None
        theirs = leader.kernel.core
        if type(theirs.role) is not Leader or theirs.epoch != role.epoch:
            return None
        mirror = self._mirrors[leader.id]
        for entry in fresh if len(fresh) == 1 else (fresh[0], fresh[-1]):
            is_cleaned = entry.base_offset < theirs.log_start_offset
            is_own = (machine.id, entry.epoch) in self._led
            if not is_cleaned and not is_own and mirror.find(entry.base_offset) != entry:
                found = mirror.find(entry.base_offset)
                return f"it appended {entry}, its leader {leader.id} has {found}"
        return None


def _end(seen: Progress) -> int:
    return -1 if seen.end_offset is None else seen.end_offset
