"""The stream of committed records: whole, resumable, bounded, with a defined end."""

import asyncio
import json
import socket
from typing import Any

import msgspec
import pytest

from inspection.api import STREAMS
from inspection.stream import STREAMS_MAX, start_offset
from tests.inspection.conftest import Site


async def next_event(response: Any) -> dict[str, Any]:
    """The next event that is not a comment."""
    fields: dict[str, Any] = {}
    while True:
        async with asyncio.timeout(5):
            line = (await response.content.readline()).decode().rstrip("\n")
        if not line and fields:
            return fields
        name, _, value = line.partition(": ")
        if name in ("id", "event", "data"):
            fields[name] = value


async def test_it_sends_what_is_there_and_what_comes(site: Site) -> None:
    async with site.client.get("/v1/metadata/stream?from=0") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        for offset in range(site.end_offset):
            event = await next_event(response)
            assert (event["event"], event["id"]) == ("record", str(offset))
        site.world.client(1).create_topic("late")
        types = []
        while "TOPIC_RECORD" not in types:
            event = await next_event(response)
            types.append(json.loads(event["data"])["type"])


async def test_it_is_resumed_behind_the_last_event(site: Site) -> None:
    headers = {"Last-Event-ID": "4"}
    async with site.client.get("/v1/metadata/stream", headers=headers) as response:
        assert (await next_event(response))["id"] == "5"


@pytest.mark.parametrize("start", [0, 2, 5, 9])
async def test_the_last_event_counts_and_not_where_the_stream_once_began(
    site: Site, start: int
) -> None:
    """A browser that connects again repeats the address with its `from`."""
    headers = {"Last-Event-ID": "4"}
    async with site.client.get(f"/v1/metadata/stream?from={start}", headers=headers) as response:
        assert (await next_event(response))["id"] == "5"


@pytest.mark.parametrize("header", [None, ""])
async def test_without_a_last_event_it_begins_as_asked(site: Site, header: str | None) -> None:
    assert start_offset(header, 0, 9) == 0
    assert start_offset(header, 3, 9) == 3
    assert start_offset(header, None, 9) == 9
    headers = {} if header is None else {"Last-Event-ID": header}
    async with site.client.get("/v1/metadata/stream?from=3", headers=headers) as response:
        assert (await next_event(response))["id"] == "3"


async def test_without_a_start_only_news_come(site: Site) -> None:
    end = site.end_offset
    async with site.client.get("/v1/metadata/stream") as response:
        site.world.client(1).create_topic("late")
        assert int((await next_event(response))["id"]) >= end


async def test_msgpack_values_follow_each_other(site: Site) -> None:
    headers = {"Accept": "application/msgpack"}
    async with site.client.get("/v1/metadata/stream?from=0", headers=headers) as response:
        content = b""
        while len(content) < 50:
            content += await response.content.readany()
        first = msgspec.msgpack.encode(msgspec.msgpack.decode(_first_value(content)))
        assert content.startswith(first)
        assert msgspec.msgpack.decode(first)["offset"] == 0


def _first_value(content: bytes) -> bytes:
    import msgpack

    unpacker = msgpack.Unpacker()
    unpacker.feed(content)
    unpacker.skip()
    return content[: unpacker.tell()]


async def test_it_ends_when_the_node_stops(site: Site) -> None:
    async with site.client.get("/v1/metadata/stream") as response:
        site.client.app[STREAMS].close()  # type: ignore[union-attr]
        event = await next_event(response)
        assert event["event"] == "end"
        assert json.loads(event["data"])["reason"] == "shutting_down"


async def test_a_bad_last_event_id_is_named(site: Site) -> None:
    problem = await site.get("/v1/metadata/stream", 400, **{"Last-Event-ID": "x"})
    assert problem["parameter"] == "Last-Event-ID"
    await site.get("/v1/metadata/stream", 404, **{"Last-Event-ID": "99999"})


async def test_the_number_of_streams_is_bounded(site: Site) -> None:
    opened = [await site.client.get("/v1/metadata/stream") for _ in range(STREAMS_MAX)]
    await site.get("/v1/metadata/stream", 503)
    for response in opened:
        response.close()


async def test_a_reader_that_takes_nothing_is_cut_off(site: Site) -> None:
    streams = site.client.app[STREAMS]  # type: ignore[union-attr]
    streams._slow_reader_s = 0.05
    idle = socket.socket()
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    idle.connect(("127.0.0.1", site.client.port))
    idle.sendall(b"GET /v1/metadata/stream?from=0 HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(20):
        while not streams._open:  # noqa: ASYNC110 - both ends run in this loop
            await asyncio.sleep(0)
        # Five megabytes of events: more than the socket buffers of both sides hold.
        site.world.client(1).create_topic("wide", partitions=9_900)
        while streams._open:  # noqa: ASYNC110
            await asyncio.sleep(0)
    idle.close()
