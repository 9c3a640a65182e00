"""The listener of the inspection API: from properties to an answer over a socket."""

import asyncio
import json
import random
import socket
import sys
import time
from contextlib import suppress

import pytest

from inspection.recorder import Recorder
from inspection.running_node import RunningNode
from kernel.kernel import Kernel
from node.clocks import now
from node.configs.config import inspection_limits, node_config
from node.driver import Driver
from node.errors import ConfigError, StartError
from node.http import HttpListener
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.harness import CLUSTER_ID, config_of
from tests.node.configs.test_config import COMBINED
from wire.types import DirectoryId, Endpoint

LIMIT_S = 20


def test_limits_come_from_the_properties():
    assert inspection_limits(COMBINED) == {}
    given = {
        **COMBINED,
        "inspection.max.connections": " 7 ",
        "inspection.connections.max.idle.ms": "2000",
    }
    assert inspection_limits(given) == {"connections_max": 7, "idle_ms_max": 2000}
    assert node_config(given).unknown_keys == ()
    assert inspection_limits(dict(node_config(given).properties)) == inspection_limits(given)


@pytest.mark.parametrize(
    "key", ["inspection.max.connections", "inspection.connections.max.idle.ms"]
)
def test_a_limit_of_nothing_is_refused(key):
    with pytest.raises(ConfigError, match=rf"0 for configuration {key}.*at least 1"):
        node_config({**COMBINED, key: "0"})


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def kernel_of_one():
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    vfs.sync_directory("/")
    identity = {"/data": DirectoryId(bytes([1]) * 16)}
    return Kernel(
        config_of(1, 1), vfs, random.Random(1), cluster_id=CLUSTER_ID, directory_ids=identity,
        now=now(),
    )  # fmt: skip


async def ask(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    writer.write(request.encode())
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), body


async def test_a_running_node_is_measured_and_its_clients_are_limited():
    loop = asyncio.get_running_loop()
    kernel = kernel_of_one()
    driver = Driver(kernel, loop, Recorder(time.monotonic_ns()))
    port = free_port()
    node = RunningNode(kernel, now, None, driver.recorder)
    listener = HttpListener(node, Endpoint("HTTP", "127.0.0.1", port), {"connections_max": 1})
    async with asyncio.timeout(LIMIT_S):
        listener.start()
        driver.start()
        while not driver.recorder.commit_ns.total(time.monotonic_ns()):
            turned = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned
        status, body = await ask(port, "/metrics")
        assert status == 200
        values = dict(line.rsplit(" ", 1) for line in body.decode().splitlines())
        assert float(values["kafka_controller_kafkacontroller_newactivecontrollerscount"]) == 1
        assert float(values["kafka_server_raft_metrics_append_records_rate"]) > 0
        assert float(values["kafka_server_raft_metrics_commit_latency_max"]) > 0
        assert float(values["kafka_controller_controllereventmanager_eventqueuetimems_count"]) > 0
        _, kept = await asyncio.open_connection("127.0.0.1", port)
        status, body = await ask(port, "/livez")
        assert status == 503
        assert "1 connections" in json.loads(body)["detail"]
        kept.close()
        await listener.close()
    driver.close()


async def test_a_taken_address_is_refused_by_name():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = RunningNode(kernel_of_one(), now)
        with pytest.raises(StartError, match=rf"inspection.listener: 127.0.0.1:{port}"):
            HttpListener(node, Endpoint("HTTP", "127.0.0.1", port))


async def test_a_server_that_cannot_be_loaded_is_logged_and_does_not_hinder_the_end(
    monkeypatch, capsys
):
    """The node goes on without it: close, after which the log is closed, raises nothing."""
    monkeypatch.setitem(sys.modules, "inspection.server", None)
    port = free_port()
    listener = HttpListener(RunningNode(kernel_of_one(), now), Endpoint("HTTP", "127.0.0.1", port))
    async with asyncio.timeout(LIMIT_S):
        listener.start()
        with suppress(ConnectionResetError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read(-1) == b""
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await listener.close()
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["event"]) == ("ERROR", "inspection_failed")
    assert "inspection.server" in line["error"]
    assert "import_module" in line["stack"]
