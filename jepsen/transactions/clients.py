"""Clients of the workload txn: applications with transactions, and final reads of their partitions.

Every thread is an application of its own: its transactional id, its consumer. At the end all
transactions have to be ended, the abandoned ones by their time-outs, and every partition is read
from every node, with the markers in it.
"""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Final

from jepsen.clients import LeaderWatch, Refused
from jepsen.cluster import Cluster
from jepsen.connections import CallError
from jepsen.cycles.transactions import FINAL_READ, TXN
from jepsen.generator import client_rng, think_time_s
from jepsen.history import Recorder
from jepsen.linearizability.history import FAIL, INFO, OK
from jepsen.records.brokers import Brokers
from jepsen.records.clients import END_S, FETCH_WAIT_MS, IN_SYNC_S, POLL_S
from jepsen.records.coordinators import TRANSACTIONS, Coordinators
from jepsen.records.payload import value_of
from jepsen.records.requests import TopicPartition, create_logs
from jepsen.records.topics import REPLICAS, created, in_sync
from jepsen.transactions.final_log import DamageError, Resolving
from jepsen.transactions.generator import Draw
from jepsen.transactions.topics import PARTITIONS_PER_TOPIC, TOPICS
from jepsen.transactions.worker import TRANSACTION_TIMEOUT_MS, Done, Worker

ENDED_S: Final = 60.0
"""Longer than the time-out of a transaction and the interval at which coordinators look."""


class TxnClients:
    """Applications and final reads of a run."""

    def __init__(
        self,
        cluster: Cluster,
        watch: LeaderWatch,
        recorder: Recorder,
        *,
        seed: int,
        rate: float,
        applications: int,
        is_committed_only: bool,
    ) -> None:
        """Open nothing yet.

        Args:
            cluster: The nodes.
            watch: Knows the controller that leads, for the creation of the topics.
            recorder: Takes the operations.
            seed: Decides what they are.
            rate: Transactions per second of all applications together.
            applications: One thread each.
            is_committed_only: They read what is committed alone; else everything (a control).
        """
        assert TRANSACTION_TIMEOUT_MS < 1000 * ENDED_S
        self.threads: Final = applications
        self._cluster = cluster
        self._watch = watch
        self._recorder = recorder
        self._seed = seed
        self._rate = rate
        self._draw = Draw()
        self._processes = list(range(applications + 1))
        """Process of every application, and that of the final reads."""
        isolation = "read_committed" if is_committed_only else "read_uncommitted"
        bootstrap = ",".join(
            f"{node.broker.host}:{node.broker.port}" for node in cluster.nodes.values()
        )
        self._workers = [Worker(bootstrap, number, isolation) for number in range(applications)]
        self._executor = ThreadPoolExecutor(applications)
        ids = [f"txn-{number}-0" for number in range(applications)]
        self.coordinators: Final = Coordinators(cluster, TRANSACTIONS, ids)

    async def set_up(self) -> None:
        """Create the topics, and wait until their partitions have leaders.

        Raises:
            ClusterError: that failed.
        """
        replicas = min(len(self._cluster.nodes), REPLICAS)
        configs = {"min.insync.replicas": str(min(2, replicas)), "segment.ms": "5000"}
        request = create_logs(TOPICS, PARTITIONS_PER_TOPIC, replicas, configs)
        brokers = self._brokers()
        try:
            await created(request, self._cluster, self._watch, brokers)
        finally:
            brokers.close()

    async def thread(self, number: int, until_s: float) -> None:
        """Carry out transactions until a time of the loop."""
        rng = client_rng(self._seed, number)
        worker = self._workers[number]
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(think_time_s(rng, self._rate, self.threads))
            if loop.time() >= until_s:
                break
            asked, ending = self._draw.transaction(rng)
            process = self._processes[number]
            index = self._recorder.invoke(process, TXN, asked, session=f"thread {number}")
            work = functools.partial(worker.run, asked, ending)
            done: Done = await loop.run_in_executor(self._executor, work)
            self._recorder.complete(index, done.type, done.value, done.error, offsets=done.offsets)
            if done.type == INFO:
                self._processes[number] += len(self._processes)
        await loop.run_in_executor(self._executor, worker.close)

    async def read_finally(self) -> str | None:
        """Read every partition from every node; the reason where transactions do not end."""
        brokers = self._brokers()
        try:
            views = await in_sync(brokers, IN_SYNC_S)
            if views is None:
                return f"replicas are not in sync {IN_SYNC_S:.0f} s after the healing"
            ends = await self._ended(brokers)
            if isinstance(ends, str):
                return ends
            for node_id in brokers.node_ids:
                for partition, view in views.items():
                    if node_id in view.replicas:
                        await self._read(brokers, partition, node_id, ends[partition])
        finally:
            brokers.close()
        return None

    async def close(self) -> None:
        """End what is under way; the threads end within some seconds."""
        for worker in self._workers:
            worker.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _brokers(self) -> Brokers:
        rng = Random(f"{self._seed}/brokers")  # noqa: S311  # reproducible, not secret
        return Brokers(self._cluster.nodes, TOPICS, rng)

    # -- the end ---------------------------------------------------------------------------------

    async def _ended(self, brokers: Brokers) -> dict[TopicPartition, int] | str:
        """Wait until no transaction is open: the ends of the partitions, or what is still open."""
        until_s = _now_s() + ENDED_S
        while True:
            try:
                ends, stable = {}, {}
                for partition, view in (await brokers.views()).items():
                    leader = view.leader_id
                    stable[partition] = await brokers.end_offset(leader, partition, is_stable=True)
                    ends[partition] = await brokers.end_offset(leader, partition)
                reason = ", ".join(
                    f"{key} from {stable[key]} to {end}"
                    for key, end in ends.items()
                    if stable[key] < end
                )
                if not reason:
                    return ends
            except (CallError, Refused, KeyError) as error:
                reason = str(error)
            if _now_s() >= until_s:
                return f"transactions are open {ENDED_S:.0f} s after the healing: {reason}"
            await asyncio.sleep(POLL_S)

    async def _read(
        self, brokers: Brokers, partition: TopicPartition, node_id: int, end_offset: int
    ) -> None:
        process, key = self._processes[-1], str(partition)
        index = self._recorder.invoke(process, FINAL_READ, None, key=key, node=node_id)
        until_s = _now_s() + END_S
        found = Resolving()
        reason = "the end is not reached"
        while _now_s() < until_s:
            if found.position >= end_offset:
                rows = found.rows()
                values = [value_of(row.content) for row in rows]
                offsets = [row.offset for row in rows]
                self._recorder.complete(index, OK, values, offsets=offsets)
                return
            try:
                view = (await brokers.views())[partition]
                content = await brokers.fetch_batches(
                    node_id, view, partition.number, found.position, FETCH_WAIT_MS
                )
                found.take(content)
            except (CallError, Refused, KeyError, DamageError) as error:
                reason = str(error)
                await asyncio.sleep(POLL_S)
        self._recorder.complete(index, FAIL, None, f"{reason}, at offset {found.position}")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
