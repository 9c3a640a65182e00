"""Memory of frames at the sockets: who waits for it, and who gives it back."""

import asyncio
import socket
import struct

import pytest

from broker.events import ConnectionBroken, FramesReceived
from network.frame_assembly import SHARED_BYTES
from tests.node.records.sockets import FIRST
from wire.connections.framing import frame


def produce(size_bytes):
    """A frame that takes memory of the pool."""
    return frame(b"\0\0".ljust(size_bytes, b"p"))


def test_connections_wait_for_memory_in_the_order_in_which_they_came(run):
    async def scenario(node):
        half, first, second = [await node.opened() for _ in range(3)]
        await node.loop.sock_sendall(half, produce(900)[:100])
        await node.until(lambda: node.pool.used_bytes == 900)
        await node.loop.sock_sendall(first, frame(b"small") + produce(200) + produce(300))
        await node.until(lambda: node.pool.is_waiting(FIRST + 1))
        await node.loop.sock_sendall(second, produce(50))
        await node.until(lambda: node.pool.is_waiting(FIRST + 2))
        node.sockets.grant()
        await node.posted(lambda: node.frames() == [b"small"])
        await node.loop.sock_sendall(half, produce(900)[100:])
        await node.posted(lambda: len(node.frames()) == 2)
        node.sockets.grant()
        assert node.pool.used_bytes == 900, "until who got the frame gives it back"
        node.pool.release(900)
        node.sockets.grant()
        await node.posted(lambda: len(node.frames()) == 5)
        assert [len(one) for one in node.frames()] == [5, 900, 200, 300, 50]
        assert node.pool.used_bytes == 550

    run(scenario, pool_bytes=1_000)


@pytest.mark.parametrize("end", ["by the client", "by the broker", "reset"])
def test_who_ends_within_a_frame_makes_room_for_who_waits(run, end):
    async def scenario(node):
        half, waiting = await node.opened(), await node.opened()
        await node.loop.sock_sendall(half, produce(900)[:100])
        await node.until(lambda: node.pool.used_bytes == 900)
        await node.loop.sock_sendall(waiting, produce(200))
        await node.until(lambda: node.pool.is_waiting(FIRST + 1))
        if end == "by the broker":
            node.sockets.close_connection(FIRST)
        else:
            if end == "reset":
                half.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            half.close()
        await node.posted(lambda: len(node.frames()) == 1)
        assert node.pool.used_bytes == 200

    run(scenario, pool_bytes=1_000)


def test_who_waits_for_memory_and_ends_makes_room(run):
    async def scenario(node):
        held, waiting, last = [await node.opened() for _ in range(3)]
        await node.loop.sock_sendall(held, produce(500))
        await node.loop.sock_sendall(waiting, produce(900))
        await node.until(lambda: node.pool.is_waiting(FIRST + 1))
        await node.loop.sock_sendall(last, produce(200))
        await node.until(lambda: node.pool.is_waiting(FIRST + 2))
        node.sockets.close_connection(FIRST + 1)
        await node.posted(lambda: len(node.frames()) == 2)
        assert node.pool.used_bytes == 700

    run(scenario, pool_bytes=1_000)


def test_a_frame_that_got_memory_waits_until_the_broker_reads_again(run):
    async def scenario(node):
        await node.opened()
        client = await node.opened()
        assert node.pool.take(0, 1_000)
        await node.loop.sock_sendall(client, produce(200))
        await node.until(lambda: node.pool.is_waiting(FIRST + 1))
        node.sockets.set_reading(FIRST + 1, is_wanted=False)
        node.pool.release(1_000)
        node.sockets.grant()
        assert (node.frames(), node.pool.used_bytes) == ([], 200)
        node.sockets.set_reading(FIRST + 1, is_wanted=True)
        await node.posted(lambda: len(node.frames()) == 1)
        node.sockets.set_reading(FIRST + 1, is_wanted=False)
        node.pool.release(200)
        client.close()

    run(scenario, pool_bytes=1_000)


def test_what_is_closed_before_it_is_delivered_gives_its_memory_back(run):
    async def scenario(node):
        client = await node.opened()
        assert node.pool.take(0, 1_000)
        await node.loop.sock_sendall(client, produce(200))
        await node.until(lambda: node.pool.is_waiting(FIRST))
        node.sockets.set_reading(FIRST, is_wanted=False)
        node.pool.release(1_000)
        node.sockets.grant()
        assert node.pool.used_bytes == 200
        node.sockets.close_connection(FIRST)
        assert node.pool.used_bytes == 0
        await node.ended()
        assert (node.frames(), node.pool.used_bytes) == ([], 0)

    run(scenario, pool_bytes=1_000)


def test_nothing_more_is_received_while_a_frame_waits_for_memory(run):
    async def scenario(node):
        errors = []
        node.loop.set_exception_handler(lambda _, context: errors.append(context))
        client, other = await node.opened(), await node.opened()
        size_bytes = 2 * SHARED_BYTES
        assert node.pool.take(0, size_bytes)
        await node.loop.sock_sendall(client, frame(b"small") + produce(size_bytes))
        await node.posted(lambda: node.frames() == [b"small"])
        await node.loop.sock_sendall(client, frame(b"next"))
        await node.loop.sock_sendall(other, frame(b"other"))
        await node.posted(lambda: len(node.frames()) == 2)
        assert errors == []
        node.pool.release(size_bytes)
        node.sockets.grant()
        await node.posted(lambda: len(node.frames()) == 4)
        assert [len(one) for one in node.frames()[2:]] == [size_bytes, 4]
        assert errors == []

    run(scenario, pool_bytes=2 * SHARED_BYTES)


def test_a_bad_length_behind_a_frame_that_waited_breaks_the_connection(run):
    async def scenario(node):
        client = await node.opened()
        assert node.pool.take(0, 1_000)
        await node.loop.sock_sendall(client, produce(200) + struct.pack(">i", -1))
        await node.until(lambda: node.pool.is_waiting(FIRST))
        node.pool.release(1_000)
        node.sockets.grant()
        assert [type(event) for event in node.events[1:]] == [FramesReceived, ConnectionBroken]

    run(scenario, pool_bytes=1_000)


def test_a_large_frame_ends_its_turn_so_that_the_next_one_takes_no_memory_of_a_muted_one(run):
    async def scenario(node):
        client = await node.opened()
        size_bytes = 1 << 20
        sending = asyncio.ensure_future(node.loop.sock_sendall(client, produce(size_bytes) * 3))
        await node.posted(node.frames)
        assert (node.turns(), node.pool.used_bytes) == ([1], size_bytes)
        node.sockets.set_reading(FIRST, is_wanted=False)
        node.sockets.set_reading(FIRST, is_wanted=True)
        await node.posted(lambda: len(node.frames()) == 3)
        assert node.turns() == [1, 1, 1]
        await sending

    run(scenario)
