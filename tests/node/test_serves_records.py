"""A whole node that serves records: its own process's loop, a second thread, a real disk."""

import asyncio
import os
import signal
import socket
import time

import pytest

from inspection.recorder import Recorder
from node.configs.config import node_config
from node.process import _loop_factory, _open, _serve
from storage.os_vfs import OsVfs
from tests.kernel.harness import CLUSTER_ID
from tests.node.test_driver import Client

LIMIT_S = 20


def free_ports(count):
    """Ports that nobody listens on; all are held until the last is found."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def settings(path, clients, controllers):
    """Settings of a node, which is a controller alone without a port for clients."""
    listeners = [f"CONTROLLER://127.0.0.1:{controllers}"]
    if clients is not None:
        listeners.append(f"PLAINTEXT://127.0.0.1:{clients}")
    return node_config(
        {
            "process.roles": "controller" if clients is None else "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controllers}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "log.dirs": str(path),
        }
    )


def run(scenario):
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(asyncio.wait_for(scenario(), LIMIT_S))


def test_a_node_with_records_opens_its_logs_and_closes_them_at_the_end(
    tmp_path, capsys, monkeypatch
):
    opened, begin = [], object()
    monkeypatch.setattr("node.process.system_start", lambda: begin)
    monkeypatch.setattr(
        "node.process.vfs_with_writeback",
        lambda start: OsVfs(lambda: opened.append(start) or (lambda *_written: None)),
    )
    clients, controllers = free_ports(2)
    config = settings(tmp_path, clients, controllers)
    recorder = Recorder(time.monotonic_ns())
    identity, kernel, broker = _open(config, CLUSTER_ID, recorder)
    assert broker is not None

    async def scenario():
        node = asyncio.create_task(_serve(config, kernel, recorder, broker))
        await asyncio.wait_for(listening(clients, node), LIMIT_S)
        reader, writer = await asyncio.open_connection("127.0.0.1", clients)
        await Client(reader, writer).create("orders")
        while not (tmp_path / "orders-0").is_dir():
            await asyncio.to_thread(lambda: None)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await node == 0
        assert await reader.read() == b"", "the node has closed it"
        writer.close()

    run(scenario)
    for lock in identity.locks:
        lock.release()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert "node_failed" not in capsys.readouterr().err
    assert set(opened) == {begin}, "files of records are written early"


async def listening(port, node):
    """Wait until a node accepts connections."""
    while not node.done():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.to_thread(lambda: None)
        else:
            writer.close()
            return
    pytest.fail("the node ended")


def test_a_controller_has_no_second_value(tmp_path):
    config = settings(tmp_path, None, *free_ports(1))
    identity, kernel, broker = _open(config, CLUSTER_ID, Recorder(time.monotonic_ns()))
    assert broker is None
    kernel.close()
    for lock in identity.locks:
        lock.release()


@pytest.mark.parametrize("is_broker", [True, False])
def test_a_listener_that_is_taken_refuses_the_start(tmp_path, capsys, is_broker):
    """It is the last one to be bound; a loop with the others open would never close."""
    clients, controllers = free_ports(2)
    config = settings(tmp_path, clients if is_broker else None, controllers)
    recorder = Recorder(time.monotonic_ns())
    identity, kernel, broker = _open(config, CLUSTER_ID, recorder)
    name, port = ("PLAINTEXT", clients) if is_broker else ("CONTROLLER", controllers)

    async def scenario():
        with socket.create_server(("127.0.0.1", port)):
            assert await _serve(config, kernel, recorder, broker) == 1

    run(scenario)
    for lock in identity.locks:
        lock.release()
    refusal = f"listener {name}: 127.0.0.1:{port} is taken by another process\n"
    assert capsys.readouterr().err == refusal
