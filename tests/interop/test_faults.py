"""Clients that misbehave: their connection ends, the node lives, others are served."""

import contextlib
import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.quorum import Quorum

API_VERSIONS = 18
METADATA = 3
SECONDS = 5.0
IDLE_CONNECTIONS = 1000
RESIDENT_BYTES_MAX = 400 * 1024 * 1024
LISTENERS = pytest.mark.parametrize("distance", [0, 1000], ids=["kafka", "controller"])


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A framed request with the header that old versions have, without a client id."""
    payload = struct.pack(">hhih", api_key, version, correlation_id, -1) + body
    return struct.pack(">i", len(payload)) + payload


GARBAGE = {
    "random": struct.pack(">i", 64) + random.Random(1).randbytes(64),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "negative length": struct.pack(">i", -1) + bytes(16),
    "length zero": struct.pack(">i", 0) + bytes(16),
    "length too short for a header": struct.pack(">i", 3) + bytes(3),
    "length over 100 MiB": struct.pack(">i", 100 * 1024 * 1024 + 1) + bytes(16),
    "largest length": struct.pack(">i", 2**31 - 1) + bytes(16),
    "unknown api key": request(9999, 0, 1),
    "negative api key": request(-5, 0, 1),
    "unserved version": request(METADATA, 99, 1),
    "body cut": request(METADATA, 1, 1, struct.pack(">i", 5) + b"\x00"),
    "count beyond the body": request(METADATA, 1, 1, struct.pack(">i", 2**31 - 1)),
}


@pytest.fixture
def address(quorum: Quorum, distance: int) -> tuple[str, int]:
    return ("127.0.0.1", quorum.base_port + distance)


@pytest.fixture(autouse=True)
def nodes_live(quorum: Quorum) -> Iterator[None]:
    """Check after each test that the same processes run and answer."""
    before = {node["id"]: node["pid"] for node in quorum.status()["nodes"]}
    yield
    status = quorum.wait_healthy()
    assert {node["id"]: node["pid"] for node in status["nodes"]} == before, quorum.logs()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=SECONDS)


def receive(client: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = client.recv(count - len(content))
        assert part, f"closed after {len(content)} of {count} bytes"
        content += part
    return content


def assert_answers(client: socket.socket, correlation_id: int) -> None:
    """The answer to one ApiVersions request of version 0 arrives."""
    (size,) = struct.unpack(">i", receive(client, 4))
    assert struct.unpack(">ih", receive(client, size)[:6]) == (correlation_id, 0)


def assert_closed(client: socket.socket) -> None:
    """The other side closes without an answer."""
    with contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""


@LISTENERS
@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_closes_its_connection_only(address: tuple[str, int], content: bytes) -> None:
    with connect(address) as other, connect(address) as client:
        client.sendall(content)
        assert_closed(client)
        other.sendall(request(API_VERSIONS, 0, 7))
        assert_answers(other, 7)


@LISTENERS
def test_half_frames_are_put_together(address: tuple[str, int]) -> None:
    with connect(address) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request(API_VERSIONS, 0, 11):
            client.sendall(bytes([byte]))
        assert_answers(client, 11)


@LISTENERS
def test_half_a_frame_and_gone(address: tuple[str, int]) -> None:
    for length in (1, 3, 4, 9):
        with connect(address) as client:
            client.sendall(request(API_VERSIONS, 0, 1)[:length])
    with connect(address) as client:
        client.sendall(request(API_VERSIONS, 0, 12))
        assert_answers(client, 12)


@LISTENERS
def test_client_that_never_reads_is_bounded(
    quorum: Quorum, address: tuple[str, int], distance: int
) -> None:
    with connect(address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0.5)
        flood = b"".join(request(API_VERSIONS, 0, number) for number in range(10_000))
        # The node stops reading, or closes: either way this ends.
        with pytest.raises((TimeoutError, ConnectionError)):
            client.sendall(flood * 500)
        assert resident_bytes(quorum.node(1)["pid"]) < RESIDENT_BYTES_MAX
        with connect(address) as other:
            other.sendall(request(API_VERSIONS, 0, 13))
            assert_answers(other, 13)


@LISTENERS
def test_a_thousand_idle_connections(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(address)) for _ in range(IDLE_CONNECTIONS)]
        for number, client in enumerate((idle[0], idle[-1], stack.enter_context(connect(address)))):
            client.sendall(request(API_VERSIONS, 0, number))
            assert_answers(client, number)


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
