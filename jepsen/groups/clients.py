"""Clients of the workload group: producers of append-log, and groups whose members come and go.

The operations of append-log go on as in that workload, which judges the records. Beside them every
group has a thread that starts, stops, kills and pauses its members from the seed. At the end each
group has to catch up with the producers.
"""

import asyncio
import functools
from random import Random
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from jepsen.clients import LeaderWatch, Refused
from jepsen.cluster import Cluster
from jepsen.connections import CallError
from jepsen.generator import client_rng
from jepsen.groups.generator import (
    JOIN,
    KILL,
    LEAVE,
    MEMBERS_AT_FIRST,
    PAUSE_S,
    Change,
    next_change,
)
from jepsen.groups.names import BEHIND, CAUGHT_UP, PROTOCOLS
from jepsen.groups.patience import Patience
from jepsen.groups.processes import Member
from jepsen.history import Recorder
from jepsen.records.brokers import Brokers
from jepsen.records.clients import KEYS, TOPICS, AppendLogClients
from jepsen.records.coordinators import GROUPS, Coordinators

ERRORS_FILE: Final = "members.log"
ANSWER_S: Final = 5.0
POLL_S: Final = 0.5


class GroupClients:
    """Producers, groups and final reads of a run."""

    def __init__(
        self,
        cluster: Cluster,
        watch: LeaderWatch,
        recorder: Recorder,
        *,
        seed: int,
        rate: float,
        producers: int,
        commits_early: bool,
    ) -> None:
        """Open nothing yet.

        Args:
            cluster: The nodes.
            watch: Knows the controller that leads.
            recorder: Takes the operations and what members tell.
            seed: Decides what they are.
            rate: Records per second of all producers together.
            producers: Threads that produce.
            commits_early: Members commit a record more than they have read (a control).
        """
        self._records = AppendLogClients(
            cluster,
            watch,
            recorder,
            seed=seed,
            rate=rate,
            producers=producers,
            is_idempotent=True,
            is_unclean=False,
        )
        self.threads: Final = self._records.threads + len(PROTOCOLS)
        self._cluster = cluster
        self._recorder = recorder
        self._seed = seed
        self._ahead = int(commits_early)
        self._bootstrap = ",".join(
            f"{node.broker.host}:{node.broker.port}" for node in cluster.nodes.values()
        )
        self._members: dict[str, list[Member]] = {group: [] for group in PROTOCOLS}
        self._errors = cluster.folder.parent / ERRORS_FILE
        self._started = dict.fromkeys(PROTOCOLS, 0)
        self.coordinators: Final = Coordinators(cluster, GROUPS, tuple(PROTOCOLS))

    async def set_up(self) -> None:
        """Create the topics; raises ClusterError."""
        await self._records.set_up()

    async def thread(self, number: int, until_s: float) -> None:
        """Produce, consume, or change the members of a group until a time of the loop."""
        if number < self._records.threads:
            await self._records.thread(number, until_s)
            return
        group = list(PROTOCOLS)[number - self._records.threads]
        rng = client_rng(self._seed, number)
        for _ in range(MEMBERS_AT_FIRST):
            await self._join(group)
        async with asyncio.TaskGroup() as tasks:
            while True:
                change = next_change(rng)
                if _now_s() + change.pause_s >= until_s:
                    break
                await asyncio.sleep(change.pause_s)
                tasks.create_task(self._change(group, change))
            await asyncio.sleep(until_s - _now_s())

    async def read_finally(self) -> str | None:
        """Wait until the groups have caught up and left; then read every partition."""
        for group in PROTOCOLS:
            for member in self._members[group]:
                member.resume()
            if not self._alive(group):
                await self._join(group)
        brokers = Brokers(self._cluster.nodes, TOPICS, Random(0))  # noqa: S311  # whom to ask
        try:
            await asyncio.gather(*(self._catch_up(group, brokers) for group in PROTOCOLS))
        finally:
            brokers.close()
        everybody = [member for group in PROTOCOLS for member in self._alive(group)]
        await asyncio.gather(*(member.leave() for member in everybody))
        return await self._records.read_finally()

    async def close(self) -> None:
        """Kill what is left of the members."""
        for group in PROTOCOLS:
            for member in self._alive(group):
                await member.kill()
        await self._records.close()

    # -- members ---------------------------------------------------------------------------------

    def _alive(self, group: str) -> list[Member]:
        return [member for member in self._members[group] if member.is_alive]

    async def _join(self, group: str) -> None:
        member = Member(self._recorder, self._errors, group, self._started[group])
        self._started[group] += 1
        self._members[group].append(member)
        await member.start(self._bootstrap, PROTOCOLS[group], TOPICS, ahead=self._ahead)

    async def _change(self, group: str, change: Change) -> None:
        alive = self._alive(group)
        able = [member for member in alive if not member.is_paused]
        kind = change.kind_for(len(alive), len(able))
        if kind == JOIN:
            await self._join(group)
            return
        member = able[int(change.choice * len(able))]
        if kind == LEAVE:
            await member.leave()
        elif kind == KILL:
            await member.kill()
        else:
            member.pause()
            await asyncio.sleep(PAUSE_S)
            member.resume()

    # -- the end ---------------------------------------------------------------------------------

    async def _catch_up(self, group: str, brokers: Brokers) -> None:
        """Wait until the group has committed the ends of all partitions, or no more for long."""
        patience = Patience(_now_s())
        ends: dict[str, int] = {}
        offsets: dict[str, int | None] = {}
        while True:
            try:
                async with self._one_at_a_time:
                    ends = await _ends(brokers)
                offsets = await asyncio.to_thread(
                    functools.partial(_committed, self._bootstrap, group)
                )
            except (CallError, Refused, KeyError, KafkaException):
                pass
            wanted = {key: end + self._ahead for key, end in ends.items()}
            is_there = bool(ends) and all(offsets.get(key) == wanted[key] for key in wanted)
            if is_there or patience.is_over(offsets, _now_s()):
                break
            await asyncio.sleep(POLL_S)
        if not self._alive(group):
            return  # whoever ended them, it was not the nodes
        value = {
            "group": group,
            "at": self._recorder.now_ns(),
            "offsets": offsets,
            "ends": ends,
        }
        self._recorder.note(group, CAUGHT_UP if is_there else BEHIND, value)

    @functools.cached_property
    def _one_at_a_time(self) -> asyncio.Lock:
        """A connection takes one request."""
        return asyncio.Lock()


async def _ends(brokers: Brokers) -> dict[str, int]:
    """End of every partition; raises as `Brokers.views`, KeyError where one is missing."""
    views = await brokers.views()
    return {str(key): await brokers.end_offset(views[key].leader_id, key) for key in KEYS}


def _committed(bootstrap: str, group: str) -> dict[str, int | None]:
    """Offsets of a group as its coordinator has them; raises KafkaException."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        rows = consumer.committed([TopicPartition(*key) for key in KEYS], ANSWER_S)
    finally:
        consumer.close()
    return {f"{row.topic}-{row.partition}": row.offset if row.offset >= 0 else None for row in rows}


def _now_s() -> float:
    return asyncio.get_running_loop().time()
