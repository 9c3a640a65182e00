"""The API on real sockets, also for too many, too large, too slow and nonsensical requests."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

import inspection
from inspection.openapi import document
from inspection.resources import Service
from inspection.running_node import RunningNode
from inspection.server import HEADERS_MAX, LINE_BYTES_MAX, REFUSALS_MAX, HttpServer, Limits
from tests.kernel.harness import World

LIMIT_S = 20
GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


RESPONSES = document()["components"]["responses"]


def is_documented(path: str, status: int, content_type: str) -> bool:
    """True if the document says that this resource may answer so."""
    described = document()["paths"][path]["get"]["responses"].get(str(status), {})
    if "$ref" in described:
        described = RESPONSES[described["$ref"].removeprefix("#/components/responses/")]
    return content_type.partition(";")[0] in described.get("content", {})


class Served:
    """A server of a started node, where it listens, and what it reported."""

    def __init__(self, server: HttpServer, address: tuple[str, int], errors: list[str]) -> None:
        self.server = server
        self.address = address
        self.errors = errors

    async def ask(self, content: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send bytes on a connection of their own; gives the answer once the server closes it."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(content)
        answer = await reader.read(-1)
        writer.close()
        status, headers, body = parsed(answer)
        path = content.split(b" ")[1].decode("latin-1") if content.startswith(b"GET ") else "/"
        resource = path if path in document()["paths"] else "/"
        assert is_documented(resource, status, headers["Content-Type"]), (resource, status)
        return status, headers, body


def parsed(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(status.split(" ")[1]), headers, body


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Served]:
    world = World(1)
    world.start_all()
    world.run_until(world.is_ready)
    errors: list[str] = []
    node = RunningNode(world.kernel(1), world._now)
    server = HttpServer(Service(node), Limits(**limits), lambda path, _: errors.append(path))
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    address = listening.getsockname()
    async with asyncio.timeout(LIMIT_S):
        await server.start(listening)
        try:
            yield Served(server, address, errors)
        finally:
            await server.close()
    assert errors == []


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the limit of the server's test ends it."""
    loop = asyncio.get_running_loop()
    while not condition():
        turned = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


async def opened(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that was answered once and stays open."""
    reader, writer = await asyncio.open_connection(*served.address)
    writer.write(GET)
    head = await reader.readuntil(b"\r\n\r\n")
    _, headers, _ = parsed(head)
    await reader.readexactly(int(headers["Content-Length"]))
    assert head.startswith(b"HTTP/1.1 200")
    return reader, writer


async def test_one_connection_too_many_is_told_so_and_those_before_go_on() -> None:
    async with serving(connections_max=2) as served:
        first, second = await opened(served), await opened(served)
        status, headers, body = await served.ask(GET)
        assert status == 503
        assert headers["Content-Type"] == "application/problem+json"
        assert headers["Connection"] == "close"
        problem = json.loads(body)
        assert problem["status"] == 503
        assert "2 connections" in problem["detail"]
        assert "inspection.max.connections" in problem["detail"]
        first[1].write(GET)
        assert (await first[0].readline()).startswith(b"HTTP/1.1 200")
        second[1].close()
        await until(lambda: len(served.server._open) < 2)
        third = await opened(served)
        for _, writer in (first, third):
            writer.close()


async def test_refused_connections_that_say_nothing_are_bounded_too() -> None:
    async with serving(connections_max=1) as served:
        _, kept = await opened(served)
        silent = [await asyncio.open_connection(*served.address) for _ in range(REFUSALS_MAX + 10)]
        await until(lambda: len(served.server._refused) <= REFUSALS_MAX)
        closed = 0
        for reader, _ in silent[REFUSALS_MAX:]:
            try:
                closed += await reader.read(-1) == b""
            except ConnectionResetError:
                closed += 1
        assert closed == 10
        for writer in (kept, *(writer for _, writer in silent)):
            writer.close()


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"GET /" + b"x" * LINE_BYTES_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, "8190"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (LINE_BYTES_MAX + 1) + b"\r\n\r\n", 431, "8190"),
        (
            b"GET / HTTP/1.1\r\n"
            + b"".join(b"X%d: 1\r\n" % i for i in range(HEADERS_MAX + 1))
            + b"\r\n",
            400,
            "eaders",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "no request"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "no request"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "no request"),
    ],
)
async def test_nonsense_and_long_headers_get_a_problem_and_the_end(
    content: bytes, status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving() as served:
        got, headers, body = await served.ask(content)
        assert got == status
        assert headers["Content-Type"] == "application/problem+json"
        problem = json.loads(body)
        assert problem["status"] == status
        assert said in problem["detail"]
        assert len(problem["detail"]) < 300
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Content-Length: 99999999999\r\n\r\n" + b"x" * 100_000,
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nfffff\r\nhello",
    ],
)
async def test_a_body_is_refused_and_not_waited_for(body: bytes) -> None:
    async with serving(idle_ms_max=100) as served:
        status, headers, answer = await served.ask(b"GET /livez HTTP/1.1\r\nHost: x\r\n" + body)
        assert status == 413
        assert headers["Content-Type"] == "application/problem+json"
        assert json.loads(answer)["parameter"] == "body"


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/v1/metadata/stream"])
async def test_an_expectation_is_refused_but_for_that_of_a_body(path: str) -> None:
    async with serving(idle_ms_max=100) as served:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: ".encode()
        status, headers, answer = await served.ask(head + b"miracles\r\n\r\n")
        assert (status, headers["Content-Type"]) == (417, "application/problem+json")
        assert json.loads(answer)["value"] == "miracles"
        body = b"100-continue\r\nContent-Length: 3\r\n\r\n"
        assert (await served.ask(head + body))[0] == 413, "nobody waits for a body"


@pytest.mark.parametrize(
    ("path", "name", "status"),
    [
        ("/v1/topics", "Accept", 406),
        ("/v1/metadata/stream", "Accept", 406),
        ("/v1/metadata/stream", "Last-Event-ID", 400),
        ("/v1/topics", "Expect", 417),
        ("/v1/topics", "If-None-Match", 200),
        ("/v1/topics", "Accept-Encoding", 200),
    ],
)
async def test_a_header_that_is_no_utf_8(path: str, name: str, status: int) -> None:
    async with serving(idle_ms_max=100) as served:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{name}: ".encode()
        found, _, answer = await served.ask(head + b"\xff\xfe x\r\n\r\n")
        assert found == status
        if status != 200:
            problem = json.loads(answer)
            assert (problem["parameter"], problem["value"]) == (name, r"\udcff\udcfe x")


def test_every_status_of_the_code_is_in_the_document() -> None:
    names = {
        name
        for module in Path(inspection.__file__).parent.glob("*.py")
        if module.name != "openapi.py"
        for name in re.findall(r"HTTPStatus\.([A-Z_]+)", module.read_text(encoding="utf-8"))
    }
    in_code = {HTTPStatus[name].value for name in names}
    operations = [path["get"] for path in document()["paths"].values()]
    described = {int(status) for one in operations for status in one["responses"]}
    another_method = HTTPStatus.METHOD_NOT_ALLOWED.value  # is no operation of the document
    assert in_code - {another_method} == described
    assert str(another_method) in document()["info"]["description"]
    for operation in operations:
        refusals = {status for status in operation["responses"] if status >= "4"}
        assert refusals >= {"400", "413", "417", "431", "500", "503"}, operation["operationId"]


async def test_an_empty_body_is_none() -> None:
    async with serving(idle_ms_max=100) as served:
        head = b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        assert (await served.ask(head))[0] == 200


@pytest.mark.parametrize("content", [b"", b"GET /livez HT", b"GET /livez HTTP/1.1\r\nHost: x\r\n"])
async def test_a_header_that_is_not_finished_ends_its_connection(content: bytes) -> None:
    async with serving(idle_ms_max=50) as served:
        reader, writer = await asyncio.open_connection(*served.address)
        writer.write(content)
        assert await reader.read(-1) == b""
        writer.close()


async def test_a_connection_without_a_further_request_is_closed() -> None:
    async with serving(idle_ms_max=50) as served:
        reader, writer = await opened(served)
        assert await reader.read(-1) == b""
        writer.close()


async def test_who_does_not_read_its_answers_is_cut_off() -> None:
    async with serving(idle_ms_max=50) as served:
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, served.address)
            request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
            with suppress(ConnectionError):
                while True:  # until the node cuts it off
                    await loop.sock_sendall(client, request)
        await until(lambda: not served.server._open)


async def test_streams_leave_half_of_the_connections() -> None:
    async with serving(connections_max=4) as served:
        streams = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(b"GET /v1/metadata/stream?from=0 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            streams.append(writer)
        end = b"GET /v1/metadata/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        status, _, body = await served.ask(end)
        assert status == 503
        assert "2 streams" in json.loads(body)["detail"]
        _, writer = await opened(served)
        for open_writer in (*streams, writer):
            open_writer.close()
