"""A Kafka cluster of real nodes for as long as a `with` block, or between `start` and `stop`."""

import os
import signal
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, Unpack
from uuid import UUID

from testing.errors import ClusterError, WarmError
from testing.faults import Fault, Where
from testing.ports import HeldPorts
from testing.settings import HOST, check, properties
from testing.warm_client import Warm, warm_up

RUNNING: Final[list["Cluster"]] = []
"""Clusters of this process that are up or starting, in the order of their starts."""
READY_S: Final = 30.0
STOP_S: Final = 5.0
LOG_BYTES_SHOWN: Final = 20_000


class Cluster:
    """Nodes with ids from 1, each broker and controller, in a folder that goes with them.

    Args:
        nodes: 1 to 9; replicas of new topics: as many, at most three.
        configs: Kafka's keys for every node, as in server.properties.
        port: of the first broker; None takes a free one.
        folder: where logs and records stay when it ends; None: a temporary one, removed.
        faults: whether its nodes take `refuse`, `delay` and `drop`.

    Raises:
        SettingsError: it cannot be made so.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        configs: Mapping[str, str] | None = None,
        port: int | None = None,
        folder: Path | None = None,
        faults: bool = True,
    ) -> None:
        self._configs = {key: str(value) for key, value in (configs or {}).items()}
        check(nodes, self._configs)
        self.nodes = nodes
        self._port = port
        self._kept = folder
        self._has_doors = faults
        self._has_faults = False
        """True if some were asked for and may go on."""
        self._folder: Path | None = None
        self._warm: Warm | None = None
        self._ports: HeldPorts | None = None
        self._pids: dict[int, int] = {}
        self._killed: set[int] = set()
        self._cluster_id = ""

    # ---- its life --------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start all nodes; they are ready for clients when this returns."""
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """End all nodes and remove their folder."""
        self.stop()

    async def __aenter__(self) -> Self:
        """As `__enter__`, while the loop goes on; ended if the task is cancelled meanwhile."""
        import asyncio  # noqa: PLC0415 - 20 ms, which others need not

        starting = asyncio.create_task(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])  # a thread cannot be cancelled
            if starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """As `__exit__`, while the loop goes on."""
        import asyncio  # noqa: PLC0415 - as in `__aenter__`

        await asyncio.to_thread(self.stop)

    def start(self) -> None:
        """Start all nodes and wait until each sees all brokers.

        Raises:
            ClusterError: they do not come up; the text has the ends of their logs.
        """
        assert self._ports is None, "a cluster starts once"
        try:
            self._ports = HeldPorts(self.nodes, self._port)
        except OSError as error:
            raise ClusterError(f"port {self._port}: {error.strerror}") from error
        try:
            self._warm = warm_up()
            if self._kept is None:
                self._folder = Path(self._warm.ask("folder"))
            else:
                self._folder = self._kept.absolute()
                self._folder.mkdir(parents=True, exist_ok=True)
            RUNNING.append(self)  # with a folder: its logs may be asked for
            self._cluster_id = self._stored_cluster_id()
            for node_id in self.ids:
                self._start_node(node_id)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all nodes at once and remove the folder; a kept one is left in a clean state."""
        warm, self._warm = self._warm, None
        if self in RUNNING:
            RUNNING.remove(self)
        try:
            if warm is not None and warm.is_usable:
                self._end_nodes(warm)
        finally:
            self._pids.clear()
            if self._ports is not None:
                self._ports.close()
                self._ports = None

    # ---- what clients need -----------------------------------------------------------------

    @property
    def ids(self) -> range:
        """Ids of all nodes, up or not."""
        return range(1, self.nodes + 1)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, HOST:PORT separated by commas."""
        return ",".join(f"{HOST}:{self._port_of(node_id)}" for node_id in self.ids)

    @property
    def folder(self) -> Path:
        """Folder of server.properties, log and data of each node."""
        assert self._folder is not None, "a cluster has a folder once it is started"
        return self._folder

    def logs(self, bytes_max: int = LOG_BYTES_SHOWN) -> dict[int, str]:
        """The end of each node's log, by id."""
        found = {}
        for node_id in self.ids:
            path = self.folder / f"node{node_id}.log"
            content = path.read_bytes() if path.exists() else b""
            found[node_id] = content[-bytes_max:].decode(errors="replace")
        return found

    def pids(self) -> dict[int, int]:
        """Process ids of the nodes that live, by node id."""
        alive = self._asked().ask("alive", pids=list(self._pids.values()))
        return {node_id: pid for node_id, pid in self._pids.items() if pid in alive}

    # ---- faults ----------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """End a node as SIGKILL does; it is gone when this returns."""
        pid = self._pid_of(node_id)
        self._killed.add(node_id)
        self._asked().ask("signal", pid=pid, number=signal.SIGKILL)
        self._asked().ask("wait", pid=pid, timeout_s=STOP_S)

    def pause(self, node_id: int) -> None:
        """Stop a node as SIGSTOP does: it holds its connections and answers nobody."""
        self._asked().ask("signal", pid=self._pid_of(node_id), number=signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""
        self._asked().ask("signal", pid=self._pid_of(node_id), number=signal.SIGCONT)

    def restart(self, node_id: int) -> None:
        """End a node in order if it lives, start it again on its folder, wait until all is well.

        While no majority is up nothing can be well: then it only starts the node.
        """
        pid = self._pid_of(node_id)
        for number in (signal.SIGCONT, signal.SIGTERM):
            self._asked().ask("signal", pid=pid, number=number)
        if self._asked().ask("wait", pid=pid, timeout_s=STOP_S) is None:
            self.kill(node_id)
        self._start_node(node_id)
        if 2 * len(self.pids()) > self.nodes:
            self.wait_ready()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Id of the broker that leads a partition, as a node that lives sees it; -1 for none.

        A leader that was killed leads until `broker.session.timeout.ms` is over, 2 s here.

        Raises:
            WarmError: there is no such partition, or no node answers; the text says which.
        """
        ports = [self._port_of(node_id) for node_id in self.pids()]
        found: int = self._asked().ask("leader", ports=ports, topic=topic, partition=partition)
        return found

    def elect(self, topic: str, partition: int, leader: int, timeout_s: float = 10.0) -> None:
        """Make a broker that holds a replica in sync the leader of a partition.

        Raises:
            WarmError: it holds none, or does not lead in time; the text says which.
        """
        ports = {str(node_id): self._port_of(node_id) for node_id in self.pids()}
        self._asked().ask(
            "elect", ports=ports, topic=topic, partition=partition, leader=leader,
            timeout_s=timeout_s,
        )  # fmt: skip

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the leader of a partition; its id.

        Raises:
            ClusterError: it has none.
        """
        leader = self.leader(topic, partition)
        if leader not in self.pids():
            raise ClusterError(f"{topic}-{partition} has no leader that lives: {leader}")
        self.kill(leader)
        return leader

    # ---- faults at the door of requests ----------------------------------------------------

    def refuse(
        self, api: str, error: str, *, times: int | None = 1, **where: Unpack[Where]
    ) -> Fault:
        """Have requests answered with an error, and nothing done.

        Args:
            api: Kafka's name: Produce, Fetch, OffsetCommit, CreateTopics ...
            error: Kafka's name: NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT ...
            times: requests that each node refuses; None until the fault ends.
            where: requests that name a topic or partition, those of a node; none for all.

        Raises:
            WarmError: there is no such API or error.
            ClusterError: the nodes take no faults.
        """
        return self._fault(where, action="refuse", api=api, error=error, times=times)

    def delay(
        self, api: str | None, delay_ms: int, *, times: int | None = None, **where: Unpack[Where]
    ) -> Fault:
        """Have answers come later: what is asked for is done at once (docs/testing.md).

        Args:
            api: Kafka's name; None for every API.
            delay_ms: time.
            times: requests of each node; None until the fault ends.
            where: as for `refuse`.

        Raises:
            WarmError, ClusterError: as `refuse`.
        """
        return self._fault(where, action="delay", api=api, delay_ms=delay_ms, times=times)

    def drop(
        self,
        api: str | None,
        *,
        times: int | None = 1,
        done: bool = False,
        **where: Unpack[Where],
    ) -> Fault:
        """Have the connection closed instead of an answer.

        Args:
            api: Kafka's name; None for every API.
            times: requests of each node; None until the fault ends.
            done: True if what is asked for is done, and only the answer is lost.
            where: as for `refuse`.

        Raises:
            WarmError, ClusterError: as `refuse`.
        """
        return self._fault(where, action="lose" if done else "drop", api=api, times=times)

    def end_faults(self) -> None:
        """End what `refuse`, `delay` and `drop` began."""
        if self._has_faults:
            for pid in self.pids().values():
                self._asked().ask("faults_end", pid=pid)
        self._has_faults = False

    def _fault(self, where: Where, **said: Any) -> Fault:
        if not self._has_doors:
            raise ClusterError("the nodes take no faults: they were started with faults=False")
        said |= {"topic": where.get("topic"), "partition": where.get("partition")}
        node_id = where.get("node_id")
        pids = list(self.pids().values()) if node_id is None else [self._pid_of(node_id)]
        ask, self._has_faults = self._asked().ask, True
        return Fault(ask, {pid: ask("fault", pid=pid, **said) for pid in pids})

    # ---- its nodes -------------------------------------------------------------------------

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until every node that was not killed sees all of these as brokers, and no other.

        Raises:
            ClusterError: one has ended or it took too long; the text has the ends of the logs.
        """
        until = time.monotonic() + timeout_s
        wanted = self._pids.keys() - self._killed
        ports = [self._port_of(node_id) for node_id in wanted]
        while True:
            if ended := wanted - self.pids().keys():
                raise self._error(f"nodes have ended: {sorted(ended)}")
            if self._asked().ask("ready", ports=ports, nodes=len(ports), timeout_s=0.2):
                return
            if time.monotonic() > until:
                raise self._error(f"the nodes do not find each other in {timeout_s} s")

    # ---- inside ----------------------------------------------------------------------------

    def _end_nodes(self, warm: Warm) -> None:
        if self._kept is not None:
            for pid in self._pids.values():
                warm.ask("signal", pid=pid, number=signal.SIGCONT)
                warm.ask("signal", pid=pid, number=signal.SIGTERM)
            for pid in self._pids.values():
                warm.ask("wait", pid=pid, timeout_s=STOP_S)
        for pid in self._pids.values():
            warm.ask("signal", pid=pid, number=signal.SIGKILL)
        for pid in self._pids.values():
            warm.ask("wait", pid=pid, timeout_s=STOP_S)
        if self._kept is None and self._folder is not None:
            warm.ask("remove", folder=str(self._folder))

    def _error(self, reason: str) -> ClusterError:
        logs = "".join(f"\n--- node {i}\n{text}" for i, text in self.logs(2000).items())
        return ClusterError(reason + logs)

    def _asked(self) -> Warm:
        if self._warm is None:
            raise ClusterError("the cluster is not started, or stopped")
        return self._warm

    def _port_of(self, node_id: int) -> int:
        if self._ports is None:
            raise ClusterError("the cluster is not started, or stopped")
        return self._ports.nodes[node_id - 1].broker

    def _pid_of(self, node_id: int) -> int:
        if node_id not in self._pids:
            raise ClusterError(f"no node {node_id}; there are {list(self.ids)}")
        return self._pids[node_id]

    def _stored_cluster_id(self) -> str:
        """The cluster id of a folder that was kept, or a new one for a new folder."""
        path = self.folder / "cluster.id"
        if not path.exists():
            path.write_text(new_cluster_id())
        return path.read_text()

    def _start_node(self, node_id: int) -> None:
        assert self._ports is not None
        self._killed.discard(node_id)
        data = self.folder / f"node{node_id}"
        file = self.folder / f"node{node_id}.properties"
        file.write_text(properties(node_id, self._ports.nodes, str(data), self._configs))
        self._pids[node_id] = self._asked().ask(
            "start", properties=str(file), cluster_id=self._cluster_id,
            log=str(self.folder / f"node{node_id}.log"), faults=self._has_doors,
        )  # fmt: skip


def new_cluster_id() -> str:
    """A new id of 22 characters, as `kraftline storage random-uuid` makes."""
    while True:
        content = UUID(bytes=os.urandom(16), version=4).bytes
        text = urlsafe_b64encode(content)[:22].decode()
        if not text.startswith("-"):  # it would look like a flag
            return text


__all__ = ["Cluster", "ClusterError", "WarmError"]
