"""Clients of the workload append-log: producers and consumers of several partitions.

A thread's batch of several values is several operations that begin and end together, each of a
process of its own. The last threads consume: they fetch what is committed while it is written, from
leaders and from followers. At the end every partition is read from every node.
"""

import asyncio
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from jepsen.clients import LeaderWatch, Refused
from jepsen.cluster import Cluster
from jepsen.connections import CallError
from jepsen.generator import client_rng, think_time_s
from jepsen.history import Recorder
from jepsen.linearizability.history import FAIL, INFO, OK
from jepsen.records.brokers import NO_LEADER, Brokers, PartitionView, Row
from jepsen.records.payload import value_of
from jepsen.records.producer import Acknowledged, GivenUp, Producer
from jepsen.records.requests import TopicPartition, create_logs
from jepsen.records.topics import REPLICAS, created, in_sync
from wire.batches.compression import Codec

TOPICS: Final = ("log-a", "log-b")
PARTITIONS_PER_TOPIC: Final = 4
KEYS: Final = tuple(
    TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS_PER_TOPIC)
)
BATCH_RECORDS_MAX: Final = 5
BATCH_RECORDS_MEAN: Final = (BATCH_RECORDS_MAX + 1) / 2
CONSUMERS: Final = 2
FETCH_WAIT_MS: Final = 200
FETCH_PAUSE_S: Final = 0.1
FROM_FOLLOWER: Final = 0.3
"""Share of the fetches that any replica is asked."""
IN_SYNC_S: Final = 60.0
END_S: Final = 30.0
POLL_S: Final = 0.2
NODE_SETTINGS: Final = (
    "broker.session.timeout.ms=3000",
    "broker.heartbeat.interval.ms=500",
    "replica.lag.time.max.ms=4000",
)
"""A pause of three fetch time-outs is longer than the session, so that others become leader."""
UNCLEAN_REPLICAS: Final = 2


class AppendLogClients:
    """Producers, consumers and final reads of a run."""

    def __init__(
        self,
        cluster: Cluster,
        watch: LeaderWatch,
        recorder: Recorder,
        *,
        seed: int,
        rate: float,
        producers: int,
        is_idempotent: bool,
        is_unclean: bool,
    ) -> None:
        """Open nothing yet.

        Args:
            cluster: The nodes.
            watch: Knows the controller that leads, for the creation of the topics.
            recorder: Takes the operations.
            seed: Decides what they are.
            rate: Records per second of all producers together.
            producers: Threads that produce; those that consume come on top.
            is_idempotent: Producers are; else a retry may write a second time.
            is_unclean: The topics may lose records: two replicas, of which one suffices, and
                unclean elections.
        """
        self.threads: Final = producers + CONSUMERS
        self._cluster = cluster
        self._watch = watch
        self._recorder = recorder
        self._seed = seed
        self._rate = rate
        self._producers = producers
        self._is_idempotent = is_idempotent
        self._is_unclean = is_unclean
        self._value = 0
        slots = producers * BATCH_RECORDS_MAX + CONSUMERS + 1
        self._processes = list(range(slots))
        """Process of every slot: those of the producers, the consumers', that of final reads."""

    async def set_up(self) -> None:
        """Create the topics, and wait until their partitions have leaders.

        Raises:
            ClusterError: that failed.
        """
        count = len(self._cluster.nodes)
        replicas = min(count, UNCLEAN_REPLICAS if self._is_unclean else REPLICAS)
        configs = {
            "min.insync.replicas": str(1 if self._is_unclean else min(2, replicas)),
            "unclean.leader.election.enable": str(self._is_unclean).lower(),
            "segment.ms": "5000",
        }
        request = create_logs(TOPICS, PARTITIONS_PER_TOPIC, replicas, configs)
        brokers = self._brokers(self.threads)
        try:
            await created(request, self._cluster, self._watch, brokers)
        finally:
            brokers.close()

    async def thread(self, number: int, until_s: float) -> None:
        """Produce or consume until a time of the loop."""
        brokers = self._brokers(number)
        rng = client_rng(self._seed, number)
        try:
            if number < self._producers:
                await self._produce(brokers, number, rng, until_s)
            else:
                await self._consume(brokers, number, rng, until_s)
        finally:
            brokers.close()

    async def read_finally(self) -> str | None:
        """Read every partition from every node; the reason where they do not get in sync."""
        brokers = self._brokers(self.threads)
        try:
            views = await in_sync(brokers, IN_SYNC_S)
            if views is None:
                return f"replicas are not in sync {IN_SYNC_S:.0f} s after the healing"
            for node_id in brokers.node_ids:
                for partition, view in views.items():
                    if node_id in view.replicas:
                        await self._read(brokers, partition, node_id)
        finally:
            brokers.close()
        return None

    async def close(self) -> None:
        """Nothing of theirs outlives the tasks."""

    def _brokers(self, number: int) -> Brokers:
        rng = Random(f"{self._seed}/brokers/{number}")  # noqa: S311  # reproducible, not secret
        return Brokers(self._cluster.nodes, TOPICS, rng)

    # -- producers -------------------------------------------------------------------------------

    async def _produce(self, brokers: Brokers, number: int, rng: Random, until_s: float) -> None:
        codec = list(Codec)[number % len(Codec)]
        producer = Producer(brokers, codec, is_idempotent=self._is_idempotent)
        while True:
            await asyncio.sleep(think_time_s(rng, self._rate / BATCH_RECORDS_MEAN, self._producers))
            if _now_s() >= until_s:
                return
            partition, count = rng.choice(KEYS), rng.randint(1, BATCH_RECORDS_MAX)
            values = range(self._value, self._value + count)
            self._value += count
            await self._append(producer, number, partition, values)

    async def _append(
        self, producer: Producer, number: int, partition: TopicPartition, values: Sequence[int]
    ) -> None:
        first = number * BATCH_RECORDS_MAX
        indexes = [
            self._invoke(first + place, "append", value, partition)
            for place, value in enumerate(values)
        ]
        try:
            told = await producer.append(partition, values, time.time_ns() // 1_000_000)
        except GivenUp as error:
            kind = FAIL if error.is_certain else INFO
            for place, (index, value) in enumerate(zip(indexes, values, strict=True)):
                self._complete(first + place, index, kind, value, error.reason)
            return
        for place, (index, value) in enumerate(zip(indexes, values, strict=True)):
            found = [value, _offset(told, place)]
            extra = {"epoch": told.leader_epoch, "attempts": told.attempts}
            self._complete(first + place, index, OK, found, None, **extra)

    # -- consumers -------------------------------------------------------------------------------

    async def _consume(self, brokers: Brokers, number: int, rng: Random, until_s: float) -> None:
        slot = self._producers * BATCH_RECORDS_MAX + number - self._producers
        positions = dict.fromkeys(KEYS, 0)
        views: dict[TopicPartition, PartitionView] = {}
        while _now_s() < until_s:
            partition = rng.choice(KEYS)
            chance, place = rng.random(), rng.random()
            try:
                views = views or await brokers.views()
            except (CallError, Refused):
                await asyncio.sleep(FETCH_PAUSE_S)
                continue
            view = views[partition]
            node_id = view.leader_id
            if chance < FROM_FOLLOWER or node_id == NO_LEADER:
                node_id = view.replicas[int(place * len(view.replicas))]
            position = positions[partition]
            index = self._invoke(slot, "fetch", position, partition, node=node_id)
            try:
                rows = await brokers.fetch(node_id, view, partition.number, position, FETCH_WAIT_MS)
            except (CallError, Refused) as error:
                self._complete(slot, index, FAIL, position, str(error))
                views = {}
                await asyncio.sleep(FETCH_PAUSE_S)
                continue
            self._complete_read(slot, index, rows, position)
            if rows:
                positions[partition] = rows[-1].offset + 1
            await asyncio.sleep(FETCH_PAUSE_S)

    # -- the end ---------------------------------------------------------------------------------

    async def _read(self, brokers: Brokers, partition: TopicPartition, node_id: int) -> None:
        slot = len(self._processes) - 1
        index = self._invoke(slot, "read", None, partition, node=node_id)
        until_s = _now_s() + END_S
        rows: list[Row] = []
        reason = "the end is not reached"
        while _now_s() < until_s:
            try:
                view = (await brokers.views())[partition]
                end_offset = await brokers.end_offset(view.leader_id, partition)
                position = rows[-1].offset + 1 if rows else 0
                if position >= end_offset:
                    self._complete_read(slot, index, rows, 0)
                    return
                number = partition.number
                rows += await brokers.fetch(node_id, view, number, position, FETCH_WAIT_MS)
            except (CallError, Refused, KeyError) as error:
                reason = str(error)
                await asyncio.sleep(POLL_S)
        self._complete(slot, index, FAIL, None, f"{reason}, after {len(rows)} records")

    # -- events ----------------------------------------------------------------------------------

    def _invoke(
        self, slot: int, f: str, value: Any, partition: TopicPartition, **extra: Any
    ) -> int:
        return self._recorder.invoke(self._processes[slot], f, value, key=str(partition), **extra)

    def _complete(
        self, slot: int, index: int, kind: str, value: Any, error: str | None, **found: Any
    ) -> None:
        self._recorder.complete(index, kind, value, error, **found)
        if kind == INFO:
            self._processes[slot] += len(self._processes)

    def _complete_read(self, slot: int, index: int, rows: Sequence[Row], start: int) -> None:
        """Complete a fetch or read; offsets are told only where they are not dense."""
        offsets = [row.offset for row in rows]
        found: dict[str, Any] = {"epochs": _epochs(rows)}
        if offsets != list(range(start, start + len(rows))):
            found["offsets"] = offsets
        values = [value_of(row.content) for row in rows]
        self._complete(slot, index, OK, values, None, **found)


def _offset(told: Acknowledged, place: int) -> int | None:
    return None if told.base_offset is None else told.base_offset + place


def _epochs(rows: Sequence[Row]) -> list[list[int]]:
    """`[offset epoch]` of the first record and of each whose epoch is another."""
    found: list[list[int]] = []
    for row in rows:
        if not found or found[-1][1] != row.leader_epoch:
            found.append([row.offset, row.leader_epoch])
    return found


def _now_s() -> float:
    return asyncio.get_running_loop().time()
