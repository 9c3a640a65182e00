"""The database under test: nodes as processes of this machine, run by `scripts/quorum`.

Every command is a process of the script, in a session of its own, so that Ctrl-C reaches only the
harness, which then undoes everything itself.
"""

import asyncio
import json
import re
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from jepsen.connections import Address
from jepsen.names import NODES_MAX

ROOT: Final = Path(__file__).resolve().parent.parent
SCRIPT: Final = ROOT / "scripts" / "quorum"
HOST: Final = "127.0.0.1"
PORT_DISTANCE: Final = 1000
"""Distance of Kafka, controller and inspection listener of a node (scripts/launcher/layout.py)."""
BASE_PORTS: Final = range(11_000, 12_000, 10)
STOPPED: Final = "T"
START_FIELD: Final = 19
"""Index in `_process_stat` of the start of the process, in clock ticks since boot."""
SCRIPT_TIMEOUT_S: Final = 90.0


class ClusterError(Exception):
    """The nodes could not be started, watched or signalled; the text is for people."""


class NodeAddresses(msgspec.Struct, frozen=True):
    """Listeners of one node."""

    broker: Address
    controller: Address
    inspection: Address


class Cluster:
    """Combined nodes 1..n in a folder; every change to them is one command of the script."""

    def __init__(
        self, folder: Path, node_count: int, base_port: int, settings: Sequence[str] = ()
    ) -> None:
        """Start nothing yet.

        Args:
            folder: The quorum's, made by `start`.
            node_count: Nodes with both roles.
            base_port: Kafka port of node 1.
            settings: `KEY=VALUE` for every server.properties.
        """
        assert 1 <= node_count <= NODES_MAX, f"{node_count=}"
        self.folder: Final = folder
        self.nodes: Final = {
            number + 1: NodeAddresses(
                Address(HOST, base_port + number),
                Address(HOST, base_port + PORT_DISTANCE + number),
                Address(HOST, base_port + 2 * PORT_DISTANCE + number),
            )
            for number in range(node_count)
        }
        self._base_port = base_port
        self._settings = tuple(settings)
        self._running: set[asyncio.Task[tuple[int, str, str]]] = set()

    async def start(self) -> None:
        """Start all nodes and wait until they serve."""
        if not SCRIPT.is_file():
            raise ClusterError("nodes are started by scripts/quorum, which the source tree has")
        count = str(len(self.nodes))
        settings = [word for setting in self._settings for word in ("--set", setting)]
        await self._do("up", "--nodes", count, "--base-port", str(self._base_port), *settings)

    async def kill(self, node_id: int) -> None:
        """Send SIGKILL; the node is gone on return."""
        await self._do("kill", str(node_id))

    async def restart(self, node_id: int) -> None:
        """Start a node that is down and wait until it serves."""
        await self._do("restart", str(node_id))

    async def pause(self, node_id: int) -> None:
        """Send SIGSTOP; raise ClusterError if the process does not stop."""
        output = await self._do("pause", str(node_id))
        pid = re.search(r"pid (\d+)", output)
        stat = [] if pid is None else _process_stat(int(pid.group(1)))
        state = stat[0] if stat else None
        if state != STOPPED:
            raise ClusterError(f"node {node_id} was sent SIGSTOP and its state is {state}")

    async def resume(self, node_id: int) -> None:
        """Send SIGCONT."""
        await self._do("resume", str(node_id))

    async def status(self) -> dict[str, Any]:
        """Return the object of `scripts/quorum status --json`, healthy or not."""
        code, output, errors = await self._run("status", "--json")
        if code not in (0, 3):
            raise ClusterError(f"quorum status ended with {code}: {errors.strip()}")
        found: dict[str, Any] = json.loads(output)
        return found

    async def wait_converged(self, timeout_s: float) -> int | None:
        """Wait until all nodes run with a leader and all below the high watermark; return that.

        None if that does not happen in time.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while asyncio.get_running_loop().time() < deadline:
            code, output, _ = await self._run("status", "--json")
            status = json.loads(output) if code == 0 else {"nodes": [], "high_watermark": None}
            mark = status["high_watermark"]
            ends = [node["log_end_offset"] for node in status["nodes"]]
            if mark is not None and all(end is not None and end >= mark for end in ends):
                return int(mark)
            await asyncio.sleep(0.2)
        return None

    async def settle(self) -> None:
        """Wait for commands whose caller was cancelled."""
        if self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """End every process, whatever its state; commands under way end first.

        Raises:
            ClusterError: processes are left; the text names them.
        """
        await self.settle()
        if not (self.folder / "cluster.json").exists():
            return
        reason = ""
        try:
            await self._do("down")
        except (ClusterError, OSError) as error:
            reason = f" ({error})"
        if left := self.left():
            named = ", ".join(f"{node} (pid {pid})" for node, pid in left.items())
            raise ClusterError(f"nodes are left running: {named}{reason}")

    def left(self) -> dict[int, int]:
        """Live processes of nodes, by node, from `nodeN/node.pid` and /proc."""
        found: dict[int, int] = {}
        for node, folder in self.node_folders().items():
            try:
                pid, started = (folder / "node.pid").read_text(encoding="ascii").split()
                stat = _process_stat(int(pid))
            except (OSError, ValueError):
                continue
            if stat and stat[0] not in "ZX" and stat[START_FIELD] == started:
                found[node] = int(pid)
        return found

    def node_folders(self) -> dict[int, Path]:
        """Folder of every node."""
        return {node: self.folder / f"node{node}" for node in self.nodes}

    async def _do(self, *words: str) -> str:
        code, output, errors = await self._run(*words)
        if code != 0:
            lines = errors.strip().splitlines() or [f"exit code {code}"]
            raise ClusterError(f"quorum {' '.join(words)}: {lines[-1]}")
        return output

    async def _run(self, *words: str) -> tuple[int, str, str]:
        """Run the script to its end, also when the caller is cancelled: no half-started node."""
        task = asyncio.create_task(self._script(*words))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _script(self, *words: str) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            words[0],
            "--dir",
            str(self.folder),
            *words[1:],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(SCRIPT_TIMEOUT_S):
                output, errors = await process.communicate()
        except TimeoutError as error:
            process.send_signal(signal.SIGINT)  # the script then kills what it started
            await process.wait()
            raise ClusterError(f"quorum {words[0]} takes over {SCRIPT_TIMEOUT_S:.0f} s") from error
        assert process.returncode is not None
        return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")


def _process_stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name, the state first; none without such a process."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return content[content.rindex(")") + 2 :].split()


def free_base_port(node_count: int, rng: Random) -> int:
    """Find a base port at which nothing listens, for all three listeners of every node.

    Raises:
        ClusterError: there is none.
    """
    bases = list(BASE_PORTS)
    rng.shuffle(bases)
    for base in bases:
        ports = [base + kind * PORT_DISTANCE + k for kind in range(3) for k in range(node_count)]
        if all(_is_free(port) for port in ports):
            return base
    raise ClusterError(f"no free ports from {BASE_PORTS.start} on; give --base-port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
