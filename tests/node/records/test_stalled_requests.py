"""Requests that hold memory, for which others wait, and do not go on."""

import pytest

from broker.events import ConnectionClosed
from network.memory_pool import MemoryPool
from node.records.stalled_requests import StalledRequests
from tests.node.records.sockets import FIRST
from wire.connections.framing import frame


class Loop:
    """Timers that go off when they are told to."""

    def __init__(self):
        self.timers = []

    def call_later(self, delay_s, act):
        self.timers.append((delay_s, act))
        return self

    def cancel(self):
        self.timers.clear()

    def pass_time(self):
        ((_, act),) = self.timers
        self.timers.clear()
        act()


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def pool():
    pool = MemoryPool(10)
    assert pool.take(1, 9)
    assert not pool.take(2, 5)
    return pool


def test_what_does_not_go_on_between_two_looks_ends(loop, pool):
    far, cut = {1: (1, 100), 3: (1, 7)}, []
    stalled = StalledRequests(loop, pool, lambda: dict(far), cut.append, 5.0)
    stalled.watch()
    stalled.watch()
    assert [delay_s for delay_s, _ in loop.timers] == [5.0]
    loop.pass_time()
    assert cut == []
    far[3] = (1, 8)
    loop.pass_time()
    assert cut == [1]
    del far[1]
    far[3] = (2, 8)
    loop.pass_time()
    assert cut == [1]
    loop.pass_time()
    assert cut == [1, 3]
    stalled.stop()
    assert loop.timers == []
    stalled.stop()
    stalled.watch()
    assert len(loop.timers) == 1


def test_what_goes_on_and_is_there_at_a_third_look_ends(loop, pool):
    far, cut = {1: (1, 100), 3: (1, 7)}, []
    stalled = StalledRequests(loop, pool, lambda: dict(far), cut.append)
    stalled.watch()
    for look in range(3):
        assert cut == []
        far |= {1: (1, 100 + look), 3: (1 + look, 7)}
        loop.pass_time()
    assert cut == [1]


def test_nothing_ends_while_nobody_waits_for_memory(loop, pool):
    cut, far = [], iter(range(100, 200))
    stalled = StalledRequests(loop, pool, lambda: {1: (1, next(far))}, cut.append)
    stalled.watch()
    loop.pass_time()
    loop.pass_time()
    pool.leave(2)
    loop.pass_time()
    assert (cut, loop.timers) == ([], [])
    assert not pool.take(2, 5)
    stalled.watch()
    loop.pass_time()
    assert cut == [], "seen in another shortage"
    loop.pass_time()
    assert cut == []
    loop.pass_time()
    assert cut == [1]


def produce(size_bytes):
    return frame(b"\0\0".ljust(size_bytes, b"p"))


def test_looking_ends_with_the_sockets(run):
    async def scenario(node):
        client = await node.opened()
        assert node.pool.take(0, 1_000)
        await node.loop.sock_sendall(client, produce(200))
        await node.until(lambda: node.pool.is_waiting(FIRST))
        assert node.sockets._stalled._timer is not None
        node.sockets.close()
        assert node.sockets._stalled._timer is None

    run(scenario, pool_bytes=1_000)


def test_half_a_request_ends_for_one_that_waits(run):
    async def scenario(node):
        half, muted, waiting = [await node.opened() for _ in range(3)]
        await node.loop.sock_sendall(half, produce(500)[:100])
        await node.until(lambda: node.pool.used_bytes == 500)
        await node.loop.sock_sendall(muted, produce(400)[:100])
        await node.until(lambda: node.pool.used_bytes == 900)
        node.sockets.set_reading(FIRST + 1, is_wanted=False)
        await node.loop.sock_sendall(waiting, produce(200))
        await node.posted(lambda: len(node.frames()) == 1)
        assert [e for e in node.events if type(e) is ConnectionClosed] == [ConnectionClosed(FIRST)]
        assert node.pool.used_bytes == 600
        await node.loop.sock_sendall(muted, produce(400)[100:])
        node.sockets.set_reading(FIRST + 1, is_wanted=True)
        await node.posted(lambda: len(node.frames()) == 2)

    run(scenario, pool_bytes=1_000, stalled_s=0.002)
