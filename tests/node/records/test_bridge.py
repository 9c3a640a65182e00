"""The port of a node's two values: what each effect becomes, and both around a real kernel."""

import asyncio
import random
import socket
import threading
import time
from contextlib import asynccontextmanager
from queue import Queue

import pytest
import uvloop

from broker import effects as records
from broker import events as records_events
from broker.clients.client_quotas import ClientQuotas
from broker.clients.front import Front
from broker.clients.request_metrics import RequestMetrics
from inspection.recorder import Recorder
from kernel import effects as kernel
from kernel import events as kernel_events
from kernel.kernel import Kernel
from kernel.port import RecordsPort
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from network.clock import Clock
from network.memory_pool import MemoryPool
from network.sampled_rate import QuotaWindow
from network.timers import NEVER_MS
from network.turn_budget import TurnBudget
from node.clocks import now
from node.driver import Driver
from node.measuring import measured_decoding
from node.records.bridge import CLOSED_BY_KERNEL, TO_KERNEL, TO_RECORDS, ToKernel, ToRecords
from node.records.broker_side import BrokerSide
from node.records.record_sockets import FIRST_CONNECTION_ID
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.fronts import services_of
from tests.kernel.harness import CLUSTER_ID, config_of
from tests.node.test_driver import Client
from wire.api_keys import ALLOCATE_PRODUCER_IDS, INIT_PRODUCER_ID
from wire.connections.framing import frame
from wire.messages import codec
from wire.types import BrokerEpoch, DirectoryId, Endpoint

LIMIT_S = 10
FIRST = FIRST_CONNECTION_ID
DIRECTORY = DirectoryId(bytes([1]) * 16)
DELTA = MetadataDelta()


def ask_for_ids(epoch):
    new = codec.newest(ALLOCATE_PRODUCER_IDS, "request")
    return new.AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)


@pytest.mark.parametrize(
    ("effect", "event"),
    [
        (records.OpenAtKernel(5, "A", "::1"), kernel_events.ConnectionOpened(5, "A", "::1")),
        (records.SendToKernel(5, b"x"), kernel_events.BytesReceived(5, b"x")),
        (records.UsedAtKernel(5), kernel_events.ConnectionUsed(5)),
        (records.CloseAtKernel(5), kernel_events.ConnectionClosed(5)),
        (records.Ready(), kernel_events.RecordsReady()),
        (records.Alive(), kernel_events.RecordsAlive()),
        (
            records.DirectoryFailed("/a", "full", is_last=True),
            kernel_events.RecordsDirectoryFailed("/a", is_last=True),
        ),
        (records.Stopped(("/a",)), kernel_events.RecordsStopped(("/a",))),
    ],
)
def test_an_effect_of_the_records_is_an_event_of_the_kernel(effect, event):
    posted = []
    end = ToKernel(posted.append)
    end.carry_out(effect)
    end.flush()
    assert posted == [[event]]
    assert {type(effect), records.Ask} <= TO_KERNEL


@pytest.mark.parametrize(
    ("effect", "event"),
    [
        (kernel.PublishImage(EMPTY, DELTA), records_events.ImagePublished(EMPTY, DELTA)),
        (
            kernel.TellBrokerEpoch(BrokerEpoch(7)),
            records_events.BrokerEpochChanged(BrokerEpoch(7)),
        ),
        (kernel.AnswerRecords(3, None), records_events.Answered(3, None)),
        (kernel.AnswerRecords(3, "answer"), records_events.Answered(3, "answer")),
        (kernel.StopRecords(), records_events.StopRequested()),
    ],
)
def test_an_effect_of_the_kernel_is_an_event_of_the_records(effect, event):
    posted = []
    end = ToRecords(lambda *what: posted.append(what))
    end.carry_out(effect)
    end.flush()
    assert posted == [([event], {})]
    assert type(effect) in TO_RECORDS


def test_every_effect_for_the_kernel_is_taken():
    assert set(kernel.RecordsEffect.__args__) == TO_RECORDS
    assert len(TO_KERNEL) == 9


def test_what_a_step_says_is_handed_over_at_once_and_in_order():
    posted = []
    end = ToKernel(posted.append)
    end.flush()
    for number in (2, 1, 3):
        end.carry_out(records.SendToKernel(number, b"x"))
    assert posted == []
    end.flush()
    end.flush()
    assert [[event.connection_id for event in batch] for batch in posted] == [[2, 1, 3]]


def test_a_twin_has_its_connection_read_and_keeps_the_order_of_its_bytes_and_its_end():
    posted = []
    end = ToRecords(lambda *what: posted.append(what))
    end.flush()
    twin, other = end.twin(5), end.twin(6)
    other.set_reading(is_wanted=True)
    other.set_reading(is_wanted=False)
    end.flush()
    twin.write(b"a", 7)
    twin.set_reading(is_wanted=False)
    end.carry_out(kernel.StopRecords())
    other.write(b"b")
    twin.set_reading(is_wanted=True)
    twin.close()
    end.flush()
    end.flush()
    events = [
        records_events.KernelBytes(5, b"a", 7),
        records_events.StopRequested(),
        records_events.KernelBytes(6, b"b"),
        records_events.KernelClosed(5, CLOSED_BY_KERNEL),
    ]
    assert posted == [([], {5: True, 6: False}), (events, {5: True})]


# ---- around a real kernel ----------------------------------------------------------------------


class Records:
    """A front without handlers: ready with the first image, stopped at once when asked."""

    def __init__(self):
        self.events = Queue()
        self.effects = []
        self.clock = Clock(now())
        self.memory = MemoryPool(1 << 20)
        quotas = ClientQuotas(self.clock, QuotaWindow(), lambda: 0)
        metrics = RequestMetrics(time.monotonic_ns)
        self.front = Front(
            {},
            self.memory,
            services_of(self.clock, self.effects, TurnBudget(1 << 30)),
            quotas=quotas,
            metrics=metrics,
        )
        self.is_ready = self.is_broken = False
        self.threads = set()

    def take(self, events, now):
        self.clock.set(now)
        self.threads.add(threading.current_thread().name)
        for event in events:
            self._take(event)
            self.events.put(event)
        return self._taken()

    def _take(self, event):
        front = self.front
        match event:
            case records_events.ConnectionOpened():
                front.opened(event.connection_id, event.listener, event.client_host)
            case records_events.FramesReceived():
                front.received(event.connection_id, event.frames)
            case records_events.ConnectionClosed():
                front.closed(event.connection_id)
            case records_events.KernelBytes():
                front.kernel_bytes(event.connection_id, event.data)
            case records_events.KernelClosed():
                front.kernel_closed(event.connection_id, event.reason)
            case records_events.BrokerEpochChanged():
                body = ask_for_ids(event.epoch)
                self.effects.append(records.Ask(9, ALLOCATE_PRODUCER_IDS, body))
            case records_events.ImagePublished() if not self.is_ready:
                self.is_ready = True
                self.effects.append(records.Ready())
            case records_events.StopRequested():
                self.effects.append(records.Stopped(("/data",)))
            case records_events.TimeAdvanced() if self.is_broken:
                raise ValueError("a bug")

    def settle(self):
        return self._taken()

    def _taken(self):
        self.front.go_on()
        effects, self.effects[:] = self.effects[:], []
        return effects

    def next_deadline_ms(self):
        return NEVER_MS

    async def wait(self, kind):
        while True:
            event = await asyncio.to_thread(self.events.get, timeout=LIMIT_S)
            if type(event) is kind:
                return event


class Node:
    """A kernel and records of one node, on two loops."""

    def __init__(self, data_loop):
        loop = asyncio.get_running_loop()
        vfs = MemoryVfs()
        vfs.make_directory("/data")
        vfs.sync_directory("/")
        recorder = Recorder(time.monotonic_ns())
        self.records = Records()
        self.kernel = Kernel(
            config_of(1, 1), vfs, random.Random(1), cluster_id=CLUSTER_ID,
            directory_ids={"/data": DIRECTORY}, now=now(), decoding=measured_decoding(recorder),
            port=RecordsPort(frozenset({INIT_PRODUCER_ID})),
        )  # fmt: skip
        self.side = BrokerSide(
            self.records, loop, data_loop, frame_bytes_max=1 << 20, pool=self.records.memory
        )
        self.driver = Driver(self.kernel, loop, recorder, self.side.end)
        (bound,) = self.side.listen(Endpoint("PLAINTEXT", "127.0.0.1", 0))
        self.address = bound.getsockname()

    def start(self):
        self.driver.start()
        self.side.start(self.driver)

    def close(self):
        self.side.close()
        self.driver.close()


@asynccontextmanager
async def connected(node):
    reader, writer = await asyncio.open_connection(*node.address)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.Loop], ids=["asyncio", "uvloop"])
def run(request):
    def runs(scenario):
        async def limited():
            node = Node(request.param())
            try:
                async with asyncio.timeout(LIMIT_S):
                    await scenario(node)
            finally:
                node.close()

        asyncio.run(limited())

    return runs


def test_a_client_of_the_data_loop_is_served_by_the_kernel(run):
    async def scenario(node):
        node.start()
        async with connected(node) as client:
            await client.create("orders")
            assert node.kernel.is_unfenced
        opened = await node.records.wait(records_events.ConnectionOpened)
        assert opened.connection_id == FIRST
        await node.records.wait(records_events.ConnectionClosed)
        while len(node.kernel.connections):
            await asyncio.to_thread(lambda: None)
        assert node.records.threads == {"records"}
        assert not node.driver.exit.done()

    run(scenario)


def test_images_epochs_and_answers_reach_the_records(run):
    async def scenario(node):
        node.start()
        epoch = (await node.records.wait(records_events.BrokerEpochChanged)).epoch
        answer = await node.records.wait(records_events.Answered)
        assert (answer.token, answer.answer.error_code) == (9, 0)
        assert epoch == node.kernel.cache.image.brokers[1].epoch
        assert node.records.is_ready

    run(scenario)


def test_a_connection_that_the_kernel_refuses_is_closed(run):
    async def scenario(node):
        node.start()
        async with connected(node) as client:
            client.writer.write(frame(b"\x7f\xff\0\0\0\0\0\0"))
            await client.reader.read()  # the answer to its ApiVersions, then the end
        closed = await node.records.wait(records_events.KernelClosed)
        assert closed == records_events.KernelClosed(FIRST, CLOSED_BY_KERNEL)
        assert len(node.driver._inbound) == 0

    run(scenario)


def test_a_client_is_not_read_before_the_kernel_serves_it(run):
    """The kernel has not started: its first step holds back the broker listeners."""

    async def scenario(node):
        node.side.start(node.driver)
        with socket.create_connection(node.address, LIMIT_S) as client:
            await node.records.wait(records_events.ConnectionOpened)
            while not node.kernel.connections:
                await asyncio.to_thread(lambda: None)
            (one,) = node.side._data._sockets._by_id.values()
            while one._is_read_by_kernel:
                await asyncio.to_thread(lambda: None)
            client.sendall(b"x")
            assert not one._has_reader

    run(scenario)


def test_a_node_stops_its_records_before_it_exits(run):
    async def scenario(node):
        node.start()
        await node.records.wait(records_events.Answered)
        node.driver.post(kernel_events.ShutdownRequested())
        await node.records.wait(records_events.StopRequested)
        ended = await node.driver.exit
        assert ended.code == 0

    run(scenario)


def test_an_error_of_the_records_ends_the_node(run, capsys):
    async def scenario(node):
        node.start()
        node.records.is_broken = True
        node.side._data.post_threadsafe([records_events.TimeAdvanced()], {})
        ended = await node.driver.exit
        assert (ended.code, ended.reason) == (1, "ValueError: a bug")

    run(scenario)
    assert "node_failed" in capsys.readouterr().err
