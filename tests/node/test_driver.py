"""The asyncio driver around a real kernel: one voter, a disk in memory, loopback sockets."""

import asyncio
import errno
import random
import threading
import time
from contextlib import asynccontextmanager

import pytest

from inspection.recorder import Recorder
from kernel.effects import (
    AnswerRead,
    CloseConnection,
    Exit,
    RunLocalChanges,
    RunSnapshot,
    SendBytes,
)
from kernel.events import (
    BytesReceived,
    ConnectionClosed,
    ConnectionOpened,
    FlushDone,
    PeerConnected,
    PeerDisconnected,
    ReadAsked,
    TimeAdvanced,
)
from kernel.kernel import Kernel
from node.clocks import now
from node.connections import connect
from node.driver import Driver
from node.linearizable_reads import LinearizableReads
from node.measuring import measured_decoding
from raft.fetching.reads import ReadRefusal
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.harness import CLUSTER_ID, config_of, create_topic_body
from wire.connections.client_connection import ClientConnection
from wire.types import DirectoryId

LOG_FILE = "/data/__cluster_metadata-0/00000000000000000000.log"
LIMIT_S = 20
CREATE_TOPICS = 19


class WatchedKernel(Kernel):
    """Notes the events of each turn."""

    turns: list[list[type]]

    def take(self, events, now):
        self.turns.append([type(event) for event in events])
        return super().take(events, now)


class RecordingEnd:
    """The other end of a connection that has no socket."""

    def __init__(self):
        self.calls = []

    def write(self, content, spent_ns):
        self.calls.append(("write", content, spent_ns))

    def close(self):
        self.calls.append(("close",))

    def set_reading(self, *, is_wanted):
        self.calls.append(("set_reading", is_wanted))


@asynccontextmanager
async def running(failing=None):
    """A started driver of a quorum of one, its kernel and its disk; faults begin at the start."""
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    vfs.sync_directory("/")
    identity = {"/data": DirectoryId(bytes([1]) * 16)}
    WatchedKernel.turns = []
    recorder = Recorder(time.monotonic_ns())
    kernel = WatchedKernel(
        config_of(1, 1), vfs, random.Random(1), cluster_id=CLUSTER_ID, directory_ids=identity,
        now=now(), decoding=measured_decoding(recorder),
    )  # fmt: skip
    driver = Driver(kernel, asyncio.get_running_loop(), recorder)
    vfs.failing = failing
    driver.start()
    try:
        yield driver, kernel, vfs
    finally:
        driver._turn.perform([Exit(0, "the test is over")])
        driver.close()


async def turn_over():
    """Everything that was scheduled before has run."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


class Client:
    """A Kafka client over a loopback socket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.connection = ClientConnection("test")
        writer.write(self.connection.opening_bytes())

    async def call(self, api_key, body):
        correlation_id, content = self.connection.request(api_key, body)
        self.writer.write(content)
        while True:
            data = await self.reader.read(65_536)
            if not data:
                raise ConnectionResetError
            for response in self.connection.receive(data):
                if response.correlation_id == correlation_id:
                    return response.body
            self.writer.write(self.connection.bytes_to_send())

    async def create(self, name):
        """Create a topic as soon as the node's own broker may hold it."""
        while True:
            answer = await self.call(CREATE_TOPICS, create_topic_body(name))
            if answer.topics[0].error_code == 0:
                return


@asynccontextmanager
async def connected(driver, listener="CONTROLLER"):
    """A client of a listener of the driver."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: driver.accept(listener), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        server.close()


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


def test_events_of_one_turn_are_stepped_together_and_in_order():
    async def scenario():
        async with running() as (driver, kernel, _):
            await turn_over()
            kernel.turns.clear()
            connection_id = driver.attach("CONTROLLER", RecordingEnd())
            driver.post(BytesReceived(connection_id, b""))
            driver.post(TimeAdvanced())
            assert kernel.turns == []
            await turn_over()
            assert [ConnectionOpened, BytesReceived, TimeAdvanced] in [
                [kind for kind in turn if kind is not FlushDone][:3]  # then perhaps a timer
                for turn in kernel.turns
            ]

    run(scenario)


def test_an_answer_leaves_when_what_it_says_is_durable():
    async def scenario():
        async with running() as (driver, kernel, vfs), connected(driver) as client:
            await client.create("orders")
            durable = vfs.durable_content(LOG_FILE)
            assert durable is not None
            assert b"orders" in durable
            assert any(FlushDone in turn for turn in kernel.turns)
            assert not driver.exit.done()

    run(scenario)


@pytest.mark.parametrize("kind", ["sync", "write"])
def test_a_failing_disk_ends_the_node_before_any_answer(kind):
    async def scenario():
        async with running() as (driver, kernel, vfs), connected(driver) as client:
            await client.create("before")
            vfs.failing = lambda done, path: (
                errno.EIO if done == kind and path == LOG_FILE else None
            )
            call = asyncio.create_task(client.create("after"))
            ended = await driver.exit
            assert isinstance(ended, Exit)
            assert ended.code == 1
            assert "injected into" in ended.reason
            stepped = len(kernel.turns)
            driver.post(TimeAdvanced())
            await turn_over()
            assert len(kernel.turns) == stepped, "a node that failed is not stepped again"
            driver.close()
            with pytest.raises(ConnectionResetError):
                await call

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "code", "named"),
    [("sync", errno.EIO, "FsyncError"), ("write", errno.ENOSPC, "OutOfSpaceError")],
)
def test_a_disk_that_fails_in_the_first_step_ends_the_node(capsys, kind, code, named):
    """A sole voter is elected in it, which takes a new quorum-state; the disk has none for it."""

    def failing(done, path):
        return code if done == kind and "quorum-state" in path else None

    async def scenario():
        async with running(failing) as (driver, kernel, _):
            assert driver.exit.done()
            assert driver.exit.result().code == 1
            assert "quorum-state" in driver.exit.result().reason
            assert driver.exit.result().reason.startswith(named)
            stepped = len(kernel.turns)
            driver.post(TimeAdvanced())
            await turn_over()
            assert len(kernel.turns) == stepped

    run(scenario)
    assert "node_failed" in capsys.readouterr().err


def test_effects_are_performed_in_their_order_and_late_ones_are_dropped():
    async def scenario():
        async with running() as (driver, _, _):
            end = RecordingEnd()
            connection_id = driver.attach("CONTROLLER", end)
            driver._turn.perform(
                [
                    SendBytes(connection_id, b"first", 7),
                    SendBytes(connection_id, b"second"),
                    CloseConnection(connection_id, "test"),
                    SendBytes(connection_id, b"late"),
                ]
            )
            assert end.calls == [("write", b"first", 7), ("write", b"second", 0), ("close",)]

    run(scenario)


def test_nonsense_closes_its_connection_and_no_other():
    async def scenario():
        async with running() as (driver, kernel, _), connected(driver) as other:
            async with connected(driver) as client:
                client.writer.write(b"\xff" * 64)
                await client.reader.read(-1)
            await other.create("orders")
            assert not driver.exit.done()
            assert not any(ConnectionClosed in turn for turn in kernel.turns), "closed by the node"

    run(scenario)


def test_a_client_that_leaves_is_reported():
    async def scenario():
        async with running() as (driver, kernel, _):
            async with connected(driver) as client:
                await client.create("orders")
            while not any(ConnectionClosed in turn for turn in kernel.turns):
                await turn_over()

    run(scenario)


def test_a_peer_is_refused_only_when_every_address_refuses():
    async def scenario():
        loop = asyncio.get_running_loop()
        posted = []
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        outbound = {}
        await connect(posted.append, outbound, 2, host, port)
        assert posted == [PeerConnected(2)]
        outbound.pop(2).close()
        server.close()
        await server.wait_closed()
        posted.clear()
        await connect(posted.append, {}, 3, host, port)
        assert posted == [PeerDisconnected(3, refused=True)]

    run(scenario)


def test_a_name_that_does_not_resolve_is_no_refusal(monkeypatch):
    async def scenario():
        async def unresolved(*_args, **_options):
            raise OSError("no such name")

        posted = []
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unresolved)
        await connect(posted.append, {}, 2, "nowhere", 9093)
        assert posted == [PeerDisconnected(2, refused=False)]

    run(scenario)


def test_a_snapshot_is_synced_while_folders_are_made():
    """Thousands of folders take many seconds; the log must not grow for as long."""

    async def scenario():
        async with running() as (driver, *_):
            are_made, is_synced = threading.Event(), threading.Event()
            driver._turn.perform(
                [
                    RunLocalChanges(1, are_made.wait),
                    RunSnapshot(1, is_synced.set),
                    Exit(0, "nothing more is asked of the kernel"),
                ]
            )
            was_synced = await asyncio.to_thread(is_synced.wait, LIMIT_S / 4)
            are_made.set()
            assert was_synced

    run(scenario)


def test_a_driver_measures_its_events_its_turns_and_its_commits():
    async def scenario():
        async with running() as (driver, kernel, _), connected(driver) as client:
            for name in ("orders", "payments", "users"):
                await client.create(name)
            recorder, now_ns = driver.recorder, time.monotonic_ns()
            assert recorder.queue_ns.count == sum(map(len, kernel.turns)) - 1  # Started
            assert 0 < recorder.turn_ns.count <= len(kernel.turns)
            assert 0 <= recorder.queue_ns.quantiles((1.0,))[0] < LIMIT_S * 1e9
            assert 0 < recorder.turn_ns.quantiles((0.5,))[0] < LIMIT_S * 1e9
            assert 0 < recorder.idle_ratio(now_ns) < 1
            assert recorder.leaders_seen == 1
            assert recorder.election_ns.highest(now_ns) > 0
            assert recorder.appended_records.total(now_ns) == kernel.core.log_end_offset
            assert recorder.fetched_records.total(now_ns) == 0
            assert 0 < recorder.commit_ns.average(now_ns) <= recorder.commit_ns.highest(now_ns)
            assert not recorder._uncommitted, "everything was committed"

    run(scenario)


def test_a_driver_measures_batches_that_it_applies_from_the_log():
    async def scenario():
        async with running() as (driver, kernel, _), connected(driver) as client:
            await client.create("orders")
            content = kernel.log.read(0, 1_000_000)
            recorder = driver.recorder
            before, sizes = recorder.batch_ns.count, []
            for batch in kernel.state._read_batches(content):
                assert recorder.batch_ns.count == before + len(sizes), "it is not applied yet"
                sizes.append(len(batch.records))
            assert len(sizes) > 2
            assert recorder.batch_ns.count == recorder.batch_records.count == before + len(sizes)
            assert list(recorder.batch_records.newest)[before:] == sizes
            assert min(recorder.batch_ns.newest) > 0

    run(scenario)


def test_a_written_snapshot_is_dated():
    async def scenario():
        async with running() as (driver, *_):
            before_ns = driver.recorder.snapshot_ns
            driver._turn.perform([RunSnapshot(1, lambda: None), Exit(0, "no kernel is told")])
            while driver.recorder.snapshot_ns == before_ns:
                await turn_over()
            assert before_ns < driver.recorder.snapshot_ns <= time.monotonic_ns()

    run(scenario)


def test_a_linearizable_read_is_confirmed_and_one_without_a_client_is_forgotten():
    async def scenario():
        async with running() as (driver, kernel, _):
            while not kernel.state.is_active:
                await turn_over()
            given_up = asyncio.ensure_future(driver.reads.confirm())
            await turn_over()
            given_up.cancel()
            reads = await asyncio.gather(*[driver.reads.confirm() for _ in range(3)])
            assert reads == [None, None, None]
            assert not driver.reads._waiting

    run(scenario)


def test_a_refused_read_has_the_reason():
    async def scenario():
        asked = []
        reads = LinearizableReads(asked.append)
        first, second = [asyncio.ensure_future(reads.confirm()) for _ in range(2)]
        await turn_over()
        assert [type(event) for event in asked] == [ReadAsked, ReadAsked]
        reads.answer(AnswerRead(asked[1].token, ReadRefusal.NO_MAJORITY))
        assert await second is ReadRefusal.NO_MAJORITY
        assert not first.done()
        reads.answer(AnswerRead(asked[0].token))
        assert await first is None

    run(scenario)
