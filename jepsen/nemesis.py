"""Faults: a schedule drawn from the seed, and the nemesis that carries it out.

| fault | what | undone by |
|---|---|---|
| `kill` | SIGKILL of a node | `start`: the same folder again |
| `pause` | SIGSTOP of a node, for 1 or 3 fetch time-outs | `resume` |
| `coordinator` | SIGKILL of the node that coordinates a group or a transaction | `start` |
| `leader` | the next replica of every partition becomes its leader; no process is harmed | |
| `overtake` | see below | `start` |

Every third kill is a *beheading* where both kinds are asked for: all followers are paused, the
leader lives on for a while without being able to commit anything, it is killed, the followers
resume. What it acknowledged in that time is lost: so an answer before the commit is found.

An *overtaking* loses records where unclean elections are allowed, and is a control of the harness:
the follower of a partition is killed, the leader takes records alone, is killed too, and the
follower that never had them comes back first.

Each kind has its own schedule, so faults of two kinds may overlap; most of those that would take
the majority away wait until others are undone, so that there is progress to observe.
The leader is looked up at the time of a fault: the schedule says only `leader` or `follower`.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from jepsen.clients import LeaderWatch, Refused
from jepsen.cluster import Cluster, ClusterError
from jepsen.connections import CallError
from jepsen.history import Recorder
from jepsen.names import COORDINATOR, KILL, KINDS, LEADER, OVERTAKE, PAUSE
from jepsen.records.coordinators import Coordinators
from jepsen.records.leadership import Leadership

UNDONE_BY: Final = {KILL: "start", COORDINATOR: "start", PAUSE: "resume"}
FETCH_TIMEOUT_S: Final = 2.0
"""controller.quorum.fetch.timeout.ms of the nodes, its default."""
INTERVAL_S: Final = 5.0
"""Mean time from the end of a fault to the next of its kind."""
FIRST_S: Final = 2.0
DOWN_S_MAX: Final = 4.0
MAJORITY_LOSS: Final = 0.3
"""Share of the faults that may take the majority away."""
LEADER_WAIT_S: Final = 3.0
TARGET_POLL_S: Final = 0.1
BEHEADING_EVERY: Final = 3
ALONE_S_MAX: Final = 2.5
"""Shorter than the time after which a leader without followers resigns (1.5 fetch time-outs)."""
OVERTAKE_S: Final = 20.0
"""Longer than the session of a broker and a start."""
ALONE_WRITES_S: Final = 1.5
QUIET_S: Final = 2.0
"""Time before the end in which no fault begins."""


class Fault(msgspec.Struct, frozen=True):
    """One fault of the schedule; times in seconds from the start of the clients."""

    at_s: float
    kind: str
    target: str
    """`leader` or `follower`."""
    duration_s: float
    choice: float
    """In [0, 1): choice among several followers."""
    may_take_majority: bool
    alone_s: float = 0.0
    """Time that a leader lives without followers before it is killed; 0: no beheading."""


def schedule(seed: int, kinds: Sequence[str], time_limit_s: float) -> list[Fault]:
    """Draw the faults of a run, by time; the same for the same arguments."""
    faults: list[Fault] = []
    for kind in kinds:
        assert kind in KINDS, f"{kind=}"
        rng = Random(f"{seed}/nemesis/{kind}")  # noqa: S311  # reproducible, not secret
        at_s = FIRST_S + rng.expovariate(2 / INTERVAL_S)
        number = 0
        while at_s < time_limit_s - QUIET_S:
            can_behead = kind == KILL and PAUSE in kinds and number % BEHEADING_EVERY == 0
            number += 1
            fault = Fault(
                at_s=at_s,
                kind=kind,
                target="leader" if rng.random() < 0.6 else "follower",
                duration_s=_duration_s(kind, rng),
                choice=rng.random(),
                may_take_majority=rng.random() < MAJORITY_LOSS,
                alone_s=rng.uniform(1.0, ALONE_S_MAX) if can_behead else 0.0,
            )
            faults.append(fault)
            at_s += fault.duration_s + rng.expovariate(1 / INTERVAL_S)
    return sorted(faults, key=lambda fault: (fault.at_s, fault.kind))


def _duration_s(kind: str, rng: Random) -> float:
    if kind == LEADER:
        return 0.0
    if kind == OVERTAKE:
        return OVERTAKE_S
    if kind in (KILL, COORDINATOR):
        return rng.uniform(0.0, DOWN_S_MAX)
    return FETCH_TIMEOUT_S * rng.choice((1, 1, 3))


class Nemesis:
    """Carries out a schedule and undoes every fault, at the latest in `heal`."""

    def __init__(
        self,
        cluster: Cluster,
        watch: LeaderWatch,
        recorder: Recorder,
        leadership: Leadership | None = None,
        coordinators: Coordinators | None = None,
    ) -> None:
        """Harm nothing yet.

        Args:
            cluster: The nodes.
            watch: Knows the controller that leads.
            recorder: Takes the faults.
            leadership: Of the partitions, if the run has any.
            coordinators: Of its groups or transactions, if it has any.
        """
        self._leadership = leadership
        self._coordinators = coordinators
        self._cluster = cluster
        self._watch = watch
        self._recorder = recorder
        self._faulty: dict[int, str] = {}
        self.bites: Final = dict.fromkeys(KINDS, 0)
        """Faults that are known to have taken effect: the process was gone, or stopped."""

    async def run(self, faults: Sequence[Fault]) -> None:
        """Carry out faults until the last one is undone or this is cancelled."""
        started_s = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                tasks.create_task(self._at(started_s + fault.at_s, fault))

    async def heal(self) -> None:
        """Undo what is left, by the present state of the nodes.

        Raises:
            ClusterError: a node does not come back.
        """
        await self._cluster.settle()
        for each in (self._leadership, self._coordinators):
            if each is not None:
                each.close()
        for node in (await self._cluster.status())["nodes"]:
            if node["state"] == "paused":
                await self._cluster.resume(node["id"])
                self._recorder.fault(UNDONE_BY[PAUSE], node["id"])
            elif not node["alive"]:
                await self._cluster.restart(node["id"])
                self._recorder.fault(UNDONE_BY[KILL], node["id"])
        self._faulty.clear()

    async def _at(self, at_s: float, fault: Fault) -> None:
        await asyncio.sleep(at_s - asyncio.get_running_loop().time())
        if fault.kind == LEADER:
            await self._move_leaders()
            return
        if fault.kind == OVERTAKE:
            await self._overtake(fault.choice)
            return
        node_id = await self._wait_target(fault)
        others = [other for other in self._cluster.nodes if other != node_id and fault.alone_s]
        self._faulty |= {node_id: fault.kind, **dict.fromkeys(others, PAUSE)}
        for other in others:
            await self._do(PAUSE, other)
        await asyncio.sleep(fault.alone_s)
        await self._do(fault.kind, node_id)
        for other in others:
            await self._undo(other, PAUSE)
        await asyncio.sleep(fault.duration_s)
        await self._undo(node_id, fault.kind)

    async def _do(self, kind: str, node_id: int) -> None:
        assert node_id in self._faulty, "a node is taken before anything is done to it"
        role = "leader" if node_id == self._watch.leader_id else "follower"
        try:
            await (self._cluster.pause if kind == PAUSE else self._cluster.kill)(node_id)
        except ClusterError as error:
            self._recorder.fault(kind, node_id, str(error))
            return
        self.bites[kind] += 1
        self._recorder.fault(kind, {"node": node_id, "role": role})

    async def _move_leaders(self) -> None:
        assert self._leadership is not None, "the run has partitions"
        try:
            moved = await self._leadership.move()
        except (CallError, Refused) as error:
            self._recorder.fault(LEADER, None, str(error))
            return
        self.bites[LEADER] += moved > 0
        self._recorder.fault(LEADER, {"moved": moved}, None if moved else "no election")

    async def _overtake(self, choice: float) -> None:
        leadership = self._leadership
        assert leadership is not None, "the run has partitions"
        while self._faulty:  # noqa: ASYNC110  # as `_wait_target`
            await asyncio.sleep(TARGET_POLL_S)
        try:
            partition = await leadership.any_partition(choice)
        except (CallError, Refused) as error:
            self._recorder.fault(OVERTAKE, None, str(error))
            return
        view = await leadership.view_when(partition, lambda view: len(view.isr) > 1, OVERTAKE_S)
        if view is None or self._faulty:
            self._recorder.fault(OVERTAKE, str(partition), "one replica in sync")
            return
        leader_id = view.leader_id
        other = next(node for node in view.replicas if node != leader_id)
        self._faulty |= {leader_id: KILL, other: KILL}
        await self._do(KILL, other)
        alone = await leadership.view_when(partition, lambda view: len(view.isr) == 1, OVERTAKE_S)
        await asyncio.sleep(ALONE_WRITES_S)
        await self._do(KILL, leader_id)
        await self._undo(other, KILL)
        after = await leadership.view_when(
            partition, lambda view: view.leader_id == other, OVERTAKE_S
        )
        await asyncio.sleep(ALONE_WRITES_S)
        is_done = alone is not None and after is not None
        self.bites[OVERTAKE] += is_done
        value = {"partition": str(partition), "leader": leader_id, "by": other}
        self._recorder.fault(OVERTAKE, value, None if is_done else "the other did not lead")
        await self._undo(leader_id, KILL)

    async def _wait_target(self, fault: Fault) -> int:
        while True:
            if (node_id := await self._target(fault)) is not None:
                return node_id
            await asyncio.sleep(TARGET_POLL_S)

    async def _target(self, fault: Fault) -> int | None:
        """Choose a node without a fault; None: not now."""
        leader_id = await self._watch.wait_leader(asyncio.get_running_loop().time() + LEADER_WAIT_S)
        coordinator_id = None
        if fault.kind == COORDINATOR:
            assert self._coordinators is not None, "the run has coordinators"
            coordinator_id = await self._coordinators.find(fault.choice)
        nodes = self._cluster.nodes
        if fault.alone_s:
            return None if self._faulty else leader_id
        takes_majority = 2 * (len(self._faulty) + 1) >= len(nodes)
        if takes_majority and self._faulty and not fault.may_take_majority:
            return None
        free = [node_id for node_id in nodes if node_id not in self._faulty]
        if fault.kind == COORDINATOR:
            return coordinator_id if coordinator_id in free else None
        if fault.target == "leader" and leader_id in free:
            return leader_id
        followers = [node_id for node_id in free if node_id != leader_id]
        return followers[int(fault.choice * len(followers))] if followers else None

    async def _undo(self, node_id: int, kind: str) -> None:
        try:
            await (self._cluster.resume if kind == PAUSE else self._cluster.restart)(node_id)
        except ClusterError as error:  # `heal` tries again and is strict
            self._recorder.fault(UNDONE_BY[kind], node_id, str(error))
            return
        del self._faulty[node_id]
        self._recorder.fault(UNDONE_BY[kind], node_id)
