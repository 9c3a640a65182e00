"""Connections to broker listeners over loopback, on both kinds of loop."""

import os
import socket
import struct
import time
from functools import partial

import pytest

from broker.events import ConnectionBroken, ConnectionClosed, ConnectionOpened
from node.records import record_listener, record_sockets
from node.records.record_listener import bind
from node.records.record_sockets import FRAMES_PER_TURN
from simulator.cluster.memory_vfs import MemoryVfs
from storage.os_vfs import OsVfs
from storage.segments.file_slice import FileSlice
from tests.node.records.sockets import FIRST, FRAME_BYTES_MAX
from wire.connections.framing import frame
from wire.types import Endpoint


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(os.urandom(1 << 20) * 8)
    return OsVfs().open(str(path))


def slice_of(file, size, position=0):
    return FileSlice(file.share(), position, size, 0, 0)


def test_a_client_is_opened_read_and_reported_when_it_leaves(run):
    async def scenario(node):
        client = await node.opened()
        host = client.getsockname()[0]
        await node.loop.sock_sendall(client, frame(b"one") + frame(b"") + frame(b"three")[:5])
        await node.posted(lambda: len(node.frames()) == 2)
        await node.loop.sock_sendall(client, b"hree")
        client.close()
        await node.posted(lambda: type(node.events[-1]) is ConnectionClosed)
        assert node.events[0] == ConnectionOpened(FIRST, "PLAINTEXT", host)
        assert node.frames() == [b"one", b"", b"three"]
        assert node.events[-1] == ConnectionClosed(FIRST)
        assert [type(event) for event in node.events].count(ConnectionClosed) == 1
        await node.ended()

    run(scenario)


def test_sockets_do_not_wait_to_fill_packets(run):
    async def scenario(node):
        await node.opened()
        (one,) = node.sockets._sockets
        assert one._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert not one._socket.getblocking()

    run(scenario)


def test_a_frame_of_5_mib_comes_in_one_piece_and_half_a_frame_not_at_all(run):
    async def scenario(node):
        content = os.urandom(1 << 20) * 5
        client, other = await node.opened(), await node.opened()
        await node.loop.sock_sendall(other, frame(content)[: 3 << 20])
        await node.loop.sock_sendall(client, frame(content) + frame(b"next"))
        await node.posted(lambda: len(node.frames()) == 2)
        other.close()
        await node.posted(lambda: type(node.events[-1]) is ConnectionClosed)
        assert node.frames() == [content, b"next"]
        assert node.events[-1] == ConnectionClosed(FIRST + 1)

    run(scenario)


def test_a_bad_length_breaks_the_connection_behind_its_frames_and_nothing_is_read(run):
    async def scenario(node):
        client = await node.opened()
        whole = b"".join(frame(bytes([number])) for number in range(2 * FRAMES_PER_TURN))
        await node.loop.sock_sendall(client, whole + struct.pack(">i", FRAME_BYTES_MAX + 1))
        await node.posted(lambda: type(node.events[-1]) is ConnectionBroken)
        assert len(node.frames()) == 2 * FRAMES_PER_TURN
        assert "6291457 is not between" in node.events[-1].reason
        node.sockets.add(FIRST, (b"last answer",))
        node.sockets.send()
        node.sockets.close_connection(FIRST)
        assert await node.rest(client) == b"last answer"
        await node.ended()
        assert type(node.events[-1]) is ConnectionBroken

    run(scenario)


def test_a_turn_gives_few_frames_and_a_paused_connection_none(run):
    async def scenario(node):
        client = await node.opened()
        count = 3 * FRAMES_PER_TURN + 5
        node.sockets.set_reading(FIRST, is_wanted=False)
        await node.loop.sock_sendall(client, frame(b"x") * count)
        other = await node.opened()
        await node.loop.sock_sendall(other, frame(b"y"))
        await node.posted(lambda: b"y" in node.frames())
        assert node.frames() == [b"y"]
        first = node.sockets._by_id[FIRST]
        await node.posted(lambda: not first._is_watched)  # or the loop would come back for ever
        node.sockets.set_reading(FIRST, is_wanted=True)
        await node.posted(lambda: len(node.frames()) > 1)
        node.sockets.set_reading(FIRST, is_wanted=False)
        await node.loop.sock_sendall(other, frame(b"z"))
        await node.posted(lambda: b"z" in node.frames())
        assert len(node.frames()) == 2 + FRAMES_PER_TURN
        node.sockets.set_reading(FIRST, is_wanted=True)
        await node.posted(lambda: len(node.frames()) == 2 + count)
        assert max(node.turns()) == FRAMES_PER_TURN

    run(scenario)


def test_a_connection_is_not_read_before_the_kernel_has_taken_it(run):
    """It may be one too many, or come too early."""

    async def scenario(node):
        node.is_admitting = False
        first, second = await node.opened(), await node.opened()
        await node.loop.sock_sendall(first, frame(b"first"))
        await node.loop.sock_sendall(second, frame(b"second"))
        node.sockets.set_reading(FIRST, is_wanted=True)
        node.sockets.set_reading_by_kernel(FIRST + 1, is_wanted=True)
        await node.posted(node.frames)
        assert node.frames() == [b"second"]
        node.sockets.set_reading_by_kernel(FIRST, is_wanted=True)
        await node.posted(lambda: len(node.frames()) == 2)

    run(scenario)


@pytest.mark.parametrize("last", ["set_reading", "set_reading_by_kernel"])
def test_a_connection_is_read_only_if_broker_and_kernel_want_it(run, last):
    async def scenario(node):
        client, other = await node.opened(), await node.opened()
        (first,) = {"set_reading", "set_reading_by_kernel"} - {last}
        node.sockets.set_reading(FIRST, is_wanted=False)
        node.sockets.set_reading_by_kernel(FIRST, is_wanted=False)
        await node.loop.sock_sendall(client, frame(b"x"))
        getattr(node.sockets, first)(FIRST, is_wanted=True)
        await node.loop.sock_sendall(other, frame(b"y"))
        await node.posted(lambda: node.frames() == [b"y"])
        getattr(node.sockets, last)(FIRST, is_wanted=True)
        await node.posted(lambda: node.frames() == [b"y", b"x"])
        node.sockets.set_reading_by_kernel(FIRST + 2, is_wanted=False)

    run(scenario)


def test_parts_leave_together_and_a_closed_connection_sends_them_first(run, log):
    async def scenario(node):
        client = await node.opened()
        large = slice_of(log, 7 << 20, 5)
        node.sockets.add(FIRST, (b"head", large))
        node.sockets.add(FIRST, (b"tail",))
        node.sockets.send()
        node.sockets.close_connection(FIRST)
        assert len(node.sockets) == 1
        late = slice_of(log, 9)
        node.sockets.add(FIRST, (b"late", late))
        node.sockets.send()
        assert late.file._descriptor is None
        assert await node.rest(client) == b"head" + log.pread(7 << 20, 5) + b"tail"
        await node.ended()
        assert large.file._descriptor is None
        assert [type(event) for event in node.events] == [ConnectionOpened]

    run(scenario)


def test_a_closed_connection_whose_client_does_not_read_is_reset_in_time(run, log, monkeypatch):
    monkeypatch.setattr(record_sockets, "CLOSE_SECONDS_MAX", 0.01)

    async def scenario(node):
        client = await node.opened()
        part = slice_of(log, 8 << 20)
        node.sockets.add(FIRST, (part,))
        node.sockets.send()
        node.sockets.close_connection(FIRST)
        await node.ended()
        assert part.file._descriptor is None
        with pytest.raises(ConnectionResetError):
            await node.rest(client)

    run(scenario)


def test_a_truncated_slice_resets_the_connection(run, log, capsys):
    async def scenario(node):
        client = await node.opened()
        log.truncate(1 << 20)
        node.sockets.add(FIRST, (b"head", slice_of(log, 2 << 20), b"never"))
        node.sockets.send()
        with pytest.raises(ConnectionResetError):
            await node.rest(client)
        await node.posted(lambda: node.events[-1] == ConnectionClosed(FIRST))
        await node.ended()

    run(scenario)
    assert "truncated" in capsys.readouterr().err


def test_a_client_that_does_not_read_is_not_read_and_at_last_cut(run, monkeypatch, capsys):
    monkeypatch.setattr(record_sockets, "OUTPUT_BYTES_MAX", 16 << 20)

    async def scenario(node):
        client = await node.opened()
        node.sockets.add(FIRST, (bytes(12 << 20),))
        node.sockets.send()
        await node.loop.sock_sendall(client, frame(b"x"))
        other = await node.opened()
        await node.loop.sock_sendall(other, frame(b"y"))
        await node.posted(lambda: b"y" in node.frames())
        assert node.frames() == [b"y"]
        for _ in range(12):
            await node.loop.sock_recv(client, 1 << 20)
        while b"x" not in node.frames():
            await node.loop.sock_recv(client, 1 << 20)
        node.sockets.add(FIRST, (bytes((16 << 20) + 1),))
        node.sockets.send()
        assert node.events[-1] == ConnectionClosed(FIRST)
        with pytest.raises(ConnectionResetError):
            await node.rest(client)

    run(scenario)
    assert "does not read" in capsys.readouterr().err


def test_files_take_no_memory_but_too_many_bytes_of_them_pause_reading_too(run, log, monkeypatch):
    monkeypatch.setattr(record_sockets, "SLICE_BYTES_HIGH", 12 << 20)

    async def scenario(node):
        client = await node.opened()
        node.sockets.add(FIRST, (slice_of(log, 8 << 20),))
        node.sockets.send()
        await node.loop.sock_sendall(client, frame(b"a"))
        await node.posted(lambda: node.frames() == [b"a"])
        node.sockets.add(FIRST, (slice_of(log, 8 << 20), slice_of(log, 8 << 20)))
        node.sockets.send()
        node.sockets.set_reading(FIRST, is_wanted=True)
        await node.loop.sock_sendall(client, frame(b"b"))
        other = await node.opened()
        await node.loop.sock_sendall(other, frame(b"y"))
        await node.posted(lambda: b"y" in node.frames())
        assert node.frames() == [b"a", b"y"]
        while b"b" not in node.frames():
            await node.loop.sock_recv(client, 1 << 20)

    run(scenario)


def test_bytes_on_the_disk_are_read_by_the_thread_and_sent(run, log):
    asked = []

    def is_cached(_file, position, size):
        asked.append((position, size))
        return False

    async def scenario(node):
        client = await node.opened()
        part = slice_of(log, 3 << 20, 1)
        node.sockets.add(FIRST, (b"head", part, b"tail"))
        node.sockets.send()
        asked_before = asked[:]
        node.sockets.add(FIRST, (b"next",))
        node.sockets.send()
        assert asked == asked_before, "the thread reads it already"
        node.sockets.close_connection(FIRST)
        assert await node.rest(client) == b"head" + log.pread(3 << 20, 1) + b"tailnext"
        assert len(asked) >= 6

    run(scenario, is_cached=is_cached)


def test_a_connection_that_ends_while_its_bytes_are_read_is_forgotten(run, log):
    async def scenario(node):
        await node.opened()
        node.sockets.add(FIRST, (slice_of(log, 3 << 20),))
        node.sockets.send()
        (one,) = node.sockets._sockets
        assert one._is_filling
        one.abort()
        await node.ended()
        await node.until(lambda: not one._is_filling)

    run(scenario, is_cached=lambda *_: False)


def test_records_of_a_disk_in_memory_are_sent_too(run):
    file = MemoryVfs().open("/log", create=True)
    content = os.urandom(1 << 20)
    file.pwrite(content, 0)

    async def scenario(node):
        client = await node.opened()
        node.sockets.add(FIRST, (slice_of(file, 1 << 20),))
        node.sockets.send()
        node.sockets.close_connection(FIRST)
        assert await node.rest(client) == content

    run(scenario)


def test_who_sent_parts_is_told_when_they_were_taken_and_when_all_had_left(run, log):
    async def scenario(node):
        client, told = await node.opened(), []
        begun_ns = time.perf_counter_ns()
        for name, parts in (
            ("small", (b"1",)),
            ("large", (bytes(8 << 20), slice_of(log, 4 << 20), b"2")),
            ("last", (b"3",)),
        ):
            note = partial(lambda name, *times_ns: told.append((name, times_ns)), name)
            node.sockets.add(FIRST, parts, note)
        node.sockets.send()
        assert [name for name, _ in told] == ["small"], "the client takes no more"
        received = await node.loop.sock_recv(client, 1 << 20)
        while len(received) < (12 << 20) + 3:
            assert [name for name, _ in told][1:] in ([], ["large"], ["large", "last"])
            received += await node.loop.sock_recv(client, 1 << 20)
        assert [name for name, _ in told] == ["small", "large", "last"]
        taken_ns = {times_ns[0] for _, times_ns in told}
        assert len(taken_ns) == 1, "one look at the clock"
        sent_ns = [times_ns[1] for _, times_ns in told]
        assert [begun_ns, *taken_ns, *sent_ns] == sorted([begun_ns, *taken_ns, *sent_ns])
        assert sent_ns[0] < sent_ns[1]
        node.sockets.add(FIRST, (b"later",), lambda *times_ns: told.append(("later", times_ns)))
        node.sockets.send()
        assert told[-1][1][0] > sent_ns[-1]

    run(scenario)


def test_who_sent_parts_is_told_when_the_connection_ends_before(run):
    async def scenario(node):
        told = []
        node.sockets.add(FIRST, (b"nobody",), lambda *times_ns: told.append(times_ns))
        (one,) = told
        assert one[0] == one[1] > 0
        await node.opened()
        node.sockets.add(FIRST, (bytes(12 << 20),), lambda *times_ns: told.append(times_ns))
        node.sockets.send()
        assert len(told) == 1
        node.sockets.close()
        assert len(told) == 2

    run(scenario)


def test_a_client_that_resets_is_reported_and_its_output_dropped(run, log):
    async def scenario(node):
        client = await node.opened()
        part = slice_of(log, 8 << 20)
        node.sockets.add(FIRST, (part,))
        node.sockets.send()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await node.posted(lambda: node.events[-1] == ConnectionClosed(FIRST))
        assert part.file._descriptor is None
        assert len(node.sockets) == 0

    run(scenario)


def test_effects_of_unknown_connections_are_dropped(run):
    async def scenario(node):
        node.sockets.set_reading(FIRST, is_wanted=True)
        node.sockets.close_connection(FIRST)
        node.sockets.add(FIRST, (b"x",))
        node.sockets.send()
        assert node.events == []

    run(scenario)


def test_the_end_closes_listeners_and_connections(run, log):
    async def scenario(node):
        client = await node.opened()
        node.sockets.add(FIRST, (slice_of(log, 8 << 20),))
        node.sockets.send()
        node.sockets.close()
        assert len(node.sockets) == 0
        content = await node.rest(client)
        assert 0 < len(content) < 8 << 20, "what was sent is not taken back"
        assert log.pread(len(content), 0) == content
        with pytest.raises(ConnectionRefusedError):
            await node.connect()
        assert [type(event) for event in node.events] == [ConnectionOpened]

    run(scenario)


def test_a_listener_rests_when_there_is_no_descriptor(run, monkeypatch, capsys):
    monkeypatch.setattr(record_listener, "ACCEPT_PAUSE_S", 0.01)

    async def scenario(node):
        (listener,) = node.sockets._listeners
        listener._rest(OSError("too many open files"))
        await node.opened()
        assert listener._pause is None
        listener._rest(OSError("too many open files"))

    run(scenario)
    assert "accepting_paused" in capsys.readouterr().err


def test_every_address_of_a_host_is_bound_to_one_port():
    bound = bind(Endpoint("PLAINTEXT", "", 0))
    try:
        ports = {one.getsockname()[1] for one in bound}
        assert len(ports) == 1
        assert 0 not in ports
        for one in bound:
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR), "for the next start"
        with pytest.raises(OSError, match="in use"):
            bind(Endpoint("PLAINTEXT", "", ports.pop()))
    finally:
        for one in bound:
            one.close()
