"""Clients of the workloads about metadata: one operation at a time, judged for linearizability."""

import asyncio
from typing import Any, Final

from jepsen.clients import (
    CREATE_TOPICS,
    OPERATION_TIMEOUT_S,
    LeaderWatch,
    Refused,
    Session,
    create_topics,
    raise_for,
)
from jepsen.cluster import Cluster, ClusterError
from jepsen.connections import CallError
from jepsen.generator import Ask, client_rng, think_time_s
from jepsen.history import Recorder
from jepsen.linearizability.history import OK
from jepsen.workloads import (
    Completion,
    Workload,
    reads_at,
    refused,
    setup_topics,
    unanswered,
)

FINAL_READ_S: Final = 30.0
SETUP_S: Final = 30.0


class MetadataClients:
    """Client threads of a run: their operations and final reads."""

    def __init__(
        self,
        cluster: Cluster,
        watch: LeaderWatch,
        recorder: Recorder,
        workload: Workload,
        *,
        seed: int,
        rate: float,
        threads: int,
    ) -> None:
        """Open nothing yet.

        Args:
            cluster: The nodes.
            watch: Knows the controller that leads.
            recorder: Takes the operations.
            workload: Draws and carries out the operations.
            seed: Decides what they are.
            rate: Operations per second of all threads together.
            threads: Clients at a time.
        """
        self.threads: Final = threads
        self._nodes = cluster.nodes
        self._watch = watch
        self._recorder = recorder
        self._workload = workload
        self._seed = seed
        self._rate = rate
        self._processes = list(range(threads + 1))
        """Process of every thread; the last thread does setup and final reads."""

    async def set_up(self) -> None:
        """Create the topics that must exist before the first operation.

        Raises:
            ClusterError: that failed.
        """
        names = setup_topics(self._workload, self.threads + 1)
        session = self._session(self.threads)
        try:
            leader_id = await self._watch.wait_leader(_now_s() + SETUP_S)
            if leader_id is None:
                raise ClusterError(f"no leader within {SETUP_S:.0f} s of the start")
            answer = await session.write(leader_id, CREATE_TOPICS, create_topics(names))
            for topic in answer.topics:
                raise_for(topic.error_code)
        except (CallError, Refused) as error:
            raise ClusterError(f"the topics of the run cannot be created: {error}") from error
        finally:
            session.close()

    async def thread(self, number: int, until_s: float) -> None:
        """Do operations until a time of the loop."""
        rng = client_rng(self._seed, number)
        session = self._session(number)
        try:
            while True:
                pause_s = think_time_s(rng, self._rate, self.threads)
                await asyncio.sleep(pause_s)
                leader_id = await self._watch.wait_leader(until_s)
                if leader_id is None:
                    return
                ask = self._workload.draw(rng)
                node_id = reads_at(ask, rng, leader_id, session.node_ids)
                await self._do(session, number, ask, leader_id, node_id)
        finally:
            session.close()

    async def _do(
        self, session: Session, thread: int, ask: Ask, leader_id: int, node_id: int
    ) -> Completion:
        extra: dict[str, Any] = {"node": node_id if ask.f in ("read", "exists") else leader_id}
        if self._workload.has_key_field:
            extra["key"] = ask.key
        process = self._processes[thread]
        index = self._recorder.invoke(process, ask.f, ask.value, **extra)
        try:
            async with asyncio.timeout(2 * OPERATION_TIMEOUT_S):
                value = await self._workload.invoke(session, ask, leader_id, node_id)
            ended = Completion(OK, value)
        except CallError as error:
            ended = unanswered(ask, is_sent=error.is_sent, reason=error.reason)
        except TimeoutError:
            ended = unanswered(ask, is_sent=True, reason="timeout")
        except Refused as error:
            self._watch.forget(leader_id)
            ended = refused(ask, error.code)
        self._recorder.complete(index, ended.type, ended.value, ended.error)
        if ended.type == "info":
            self._processes[thread] += len(self._processes)
        return ended

    async def read_finally(self) -> str | None:
        """Read every key from every node up to the first unreadable one, which the checks see."""
        thread = self.threads
        session = self._session(thread)
        try:
            for node_id in session.node_ids:
                for key in self._workload.keys:
                    if not await self._read_once(session, thread, key, node_id):
                        return None
        finally:
            session.close()
        return None

    async def close(self) -> None:
        """Nothing of theirs outlives the tasks."""

    async def _read_once(self, session: Session, thread: int, key: str, node_id: int) -> bool:
        """Read a key at a node; True once it answered. A repeated read is another operation."""
        until_s = _now_s() + FINAL_READ_S
        while (leader_id := await self._watch.wait_leader(until_s)) is not None:
            ask = self._workload.final_read(key)
            if (await self._do(session, thread, ask, leader_id, node_id)).type == OK:
                return True
        return False

    def _session(self, thread: int) -> Session:
        return Session(thread, self._nodes, self._watch)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
