"""Linearizable reads of three controllers: how many share a round, what they wait, what they cost.

    python -m benchmarks.read_index [--json] [--rates 10,100,1000,5000] [--seconds 3]

Three controllers in one process, with loopback sockets between them and disks in memory. Reads come
at a rate, evenly, at the leader, as the inspection API asks for them but without HTTP.

- reads, rounds: confirmed in a second; a round is a fetch of every other voter
- p50, p99: from the read to its confirmation; a read waits for the round before it
- cpu: of the process with all three nodes, in a second, beyond what it takes without reads
"""

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from typing_extensions import override

from benchmarks.report import parser, show, summary_ms
from inspection.recorder import Recorder
from kernel.config import NodeConfig, Voter
from kernel.effects import Exit
from kernel.kernel import Kernel
from node.clocks import now
from node.driver import Driver
from raft import effects as raft
from simulator.cluster.memory_vfs import MemoryVfs
from wire.types import DirectoryId, Endpoint, NodeId

HOST: Final = "127.0.0.1"
LISTENER: Final = "CONTROLLER"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
FOLDER: Final = "/data"
VOTERS: Final = 3
TICK_S: Final = 0.001
LEADER_S: Final = 10.0
QUIET_S: Final = 1.0


class CountingKernel(Kernel):
    """Counts the rounds that it confirmed."""

    rounds = 0

    @override
    def _on_notify(self, effect: raft.NotifyEffect) -> None:
        self.rounds += type(effect) is raft.ReadIndexConfirmed
        super()._on_notify(effect)


def _config(number: int, ports: Sequence[int]) -> NodeConfig:
    listeners = (Endpoint(LISTENER, HOST, ports[number - 1]),)
    return NodeConfig(
        node_id=NodeId(number),
        is_broker=False,
        is_controller=True,
        voters=tuple(Voter(NodeId(i), HOST, port) for i, port in enumerate(ports, 1)),
        controller_listener_names=(LISTENER,),
        listeners=listeners,
        advertised_listeners=listeners,
        log_dirs=(FOLDER,),
        metadata_log_dir=FOLDER,
    )


@contextlib.asynccontextmanager
async def _running() -> AsyncIterator[tuple[CountingKernel, Driver]]:
    """The leader of three nodes."""
    loop = asyncio.get_running_loop()
    sockets = [socket.create_server((HOST, 0)) for _ in range(VOTERS)]
    ports = [bound.getsockname()[1] for bound in sockets]
    nodes = []
    for number, bound in enumerate(sockets, 1):
        vfs = MemoryVfs()
        vfs.make_directory(FOLDER)
        kernel = CountingKernel(
            _config(number, ports),
            vfs,
            random.Random(number),
            cluster_id=CLUSTER_ID,
            directory_ids={FOLDER: DirectoryId(bytes([number]) * 16)},
            now=now(),
        )
        driver = Driver(kernel, loop, Recorder(time.monotonic_ns()))
        nodes.append((kernel, driver))
        await loop.create_server(partial(driver.accept, LISTENER), sock=bound)
    for _, driver in nodes:
        driver.start()
    try:
        async with asyncio.timeout(LEADER_S):
            while not any(kernel.state.is_active for kernel, _ in nodes):  # noqa: ASYNC110
                await asyncio.sleep(TICK_S)
        yield next(node for node in nodes if node[0].state.is_active)
    finally:
        for _, driver in nodes:
            driver.exit.set_result(Exit(0, "the benchmark is over"))
        for _, driver in nodes:
            driver.close()


async def _measured(rate: int, seconds: float, kernel: CountingKernel, driver: Driver) -> Any:
    """Read at a rate; the figures but for CPU are of confirmed reads."""
    loop = asyncio.get_running_loop()
    waited_s: list[float] = []

    async def read() -> None:
        begun_s = loop.time()
        refusal = await driver.reads.confirm()
        assert refusal is None, f"{refusal=}"
        waited_s.append(loop.time() - begun_s)

    rounds, cpu_s, begun_s = kernel.rounds, time.process_time(), loop.time()
    asked = 0
    async with asyncio.TaskGroup() as reads:
        while (gone_s := loop.time() - begun_s) < seconds:
            while asked < rate * gone_s:
                asked += 1
                reads.create_task(read())
            await asyncio.sleep(TICK_S)
    took_s = loop.time() - begun_s
    figures = {
        "reads/s": round(len(waited_s) / took_s),
        "rounds/s": round((kernel.rounds - rounds) / took_s),
        "cpu": round((time.process_time() - cpu_s) / took_s, 3),
    }
    return figures | (summary_ms(waited_s) if waited_s else {})


async def _rows(rates: Sequence[int], seconds: float) -> dict[str, dict[str, Any]]:
    rows = {}
    async with _running() as (kernel, driver):
        await asyncio.sleep(QUIET_S)
        without = (await _measured(0, seconds, kernel, driver))["cpu"]
        for rate in rates:
            row = await _measured(rate, seconds, kernel, driver)
            row["cpu"] = round(row["cpu"] - without, 3)
            rows[f"{rate} reads/s"] = row
    return rows


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__)
    arguments.add_argument("--rates", default="10,100,1000,5000", help="reads a second")
    arguments.add_argument("--seconds", type=float, default=3.0)
    options = arguments.parse_args()
    rates = [int(rate) for rate in options.rates.split(",")]
    rows = asyncio.run(_rows(rates, options.seconds))
    show("read_index", rows, as_json=options.json)


if __name__ == "__main__":
    main()
