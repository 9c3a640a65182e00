"""Connections of harness clients against a server that misbehaves."""

import asyncio
import contextlib

import pytest

from jepsen.connections import Address, CallError, Connection, Connections
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.connections.connection import ServerConnection
from wire.errors import ErrorCode
from wire.messages.codec import default_request, newest

DESCRIBE_QUORUM = 55
API_VERSIONS = 18


@contextlib.asynccontextmanager
async def listening(serve):
    """A listener; its connections are gone at the end."""
    writers = []

    async def accept(reader, writer):
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield Address(*listener.sockets[0].getsockname())
    finally:
        listener.close()
        for writer in writers:
            writer.transport.abort()
        for _ in range(3):  # rounds of the loop in which transports close
            await asyncio.sleep(0)


def server(on_request):
    """A listener that answers ApiVersions; `on_request(writer, protocol, request)` the rest."""
    table = apis(ListenerKind.CONTROLLER, {DESCRIBE_QUORUM})

    async def serve(reader, writer):
        protocol = ServerConnection(table, 1 << 20)
        while received := await reader.read(1 << 16):
            for request in protocol.receive(received):
                if request.api_key == API_VERSIONS:
                    writer.write(protocol.respond(request.reply_slot, api_versions_body(table)))
                else:
                    on_request(writer, protocol, request)

    return listening(serve)


def answer(writer, protocol, request):
    body = newest(DESCRIBE_QUORUM, "response").DescribeQuorumResponse(
        error_code=ErrorCode.none, error_message=None, topics=(), nodes=()
    )
    writer.write(protocol.respond(request.reply_slot, body))


async def call(address, timeout_s=5.0):
    connection = await Connection.opened(address)
    try:
        return await connection.call(DESCRIBE_QUORUM, default_request(DESCRIBE_QUORUM), timeout_s)
    finally:
        connection.close()


async def test_an_answer():
    async with server(answer) as address:
        assert (await call(address)).topics == ()


async def test_closed_after_the_request_is_open():
    async with server(lambda writer, *_: writer.transport.abort()) as address:
        with pytest.raises(CallError, match="closed") as found:
            await call(address)
    assert found.value.is_sent


async def test_no_answer_is_open():
    async with server(lambda *_: None) as address:
        with pytest.raises(CallError, match="timeout") as found:
            await call(address, timeout_s=0.05)
    assert found.value.is_sent


async def test_nonsense_is_open():
    async with server(lambda writer, *_: writer.write(b"\0\0\0\4\0\0\0\x63")) as address:
        with pytest.raises(CallError, match="nonsense") as found:
            await call(address)
    assert found.value.is_sent


async def test_nobody_listens_nothing_was_sent():
    async with server(answer) as address:
        pass
    with pytest.raises(CallError, match="refused") as found:
        await call(address)
    assert not found.value.is_sent


async def test_a_listener_that_never_says_its_versions_nothing_was_sent():
    async with listening(lambda reader, _: reader.read()) as address:
        with pytest.raises(CallError, match="timeout") as found:
            await Connection.opened(address, timeout_s=0.05)
    assert not found.value.is_sent


async def test_a_connection_is_kept_until_a_request_fails():
    writers = []

    def on_request(writer, protocol, request):
        writers.append(writer)
        if len(writers) == 3:
            writer.transport.abort()
        else:
            answer(writer, protocol, request)

    async with server(on_request) as address:
        connections = Connections()

        def asked():
            body = default_request(DESCRIBE_QUORUM)
            return connections.call(address, DESCRIBE_QUORUM, body, 5.0)

        assert (await asked()).topics == (await asked()).topics == ()
        with pytest.raises(CallError, match="closed"):
            await asked()
        assert (await asked()).topics == ()
        connections.close()
    assert writers[0] is writers[1] is writers[2] is not writers[3]
