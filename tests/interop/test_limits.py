"""Limits of connections in a real process: idle ones, too many, and one that never reads."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.interop.quorum import Quorum, running, wait_until
from tests.interop.test_faults import API_VERSIONS, assert_answers, assert_closed, connect, request

IDLE_MS = 1500
CONNECTIONS_MAX = 30
CUT_SECONDS = 40.0


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    settings = [
        "--set", f"connections.max.idle.ms={IDLE_MS}",
        "--set", f"max.connections.per.ip={CONNECTIONS_MAX}",
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("limits") / "quorum"
    with running(folder, "--nodes", "1", *settings) as quorum:
        yield quorum


def log_of(quorum: Quorum) -> str:
    return (quorum.folder / "node1" / "node.log").read_text()


def test_an_idle_connection_is_closed(limited: Quorum) -> None:
    with connect(("127.0.0.1", limited.base_port)) as client:
        client.sendall(request(API_VERSIONS, 0, 1))
        assert_answers(client, 1)
        before = time.monotonic()
        assert_closed(client)
        assert time.monotonic() - before >= IDLE_MS / 1000 * 0.9


def test_too_many_connections_are_closed_with_one_line(limited: Quorum) -> None:
    address = ("127.0.0.1", limited.base_port)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(address)) for _ in range(CONNECTIONS_MAX)]
        for number, client in enumerate(clients):
            client.sendall(request(API_VERSIONS, 0, number))
            assert_answers(client, number)
        for _ in range(5):
            assert_closed(stack.enter_context(connect(address)))
    assert log_of(limited).count('"event": "connections_refused"') == 1
    assert f"already has the configured maximum of {CONNECTIONS_MAX}" in log_of(limited)

    def is_let_in() -> bool:
        with connect(address) as client, contextlib.suppress(ConnectionError, AssertionError):
            client.sendall(request(API_VERSIONS, 0, 7))
            assert_answers(client, 7)
            return True
        return False

    wait_until(is_let_in, 5, lambda: log_of(limited))


def test_a_client_that_never_reads_is_cut_off(limited: Quorum) -> None:
    with connect(("127.0.0.1", limited.base_port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(CUT_SECONDS)
        flood = b"".join(request(API_VERSIONS, 0, number) for number in range(10_000))
        # The node stops reading it, finds it idle, and gives up what it has not taken.
        with pytest.raises(ConnectionError):
            client.sendall(flood * 500)


def test_a_request_over_the_limit_is_not_waited_for(limited: Quorum) -> None:
    with connect(("127.0.0.1", limited.base_port)) as client:
        client.sendall(request(API_VERSIONS, 0, 1) + struct.pack(">i", 100 * 1024 * 1024 + 1))
        assert_answers(client, 1)
        assert_closed(client)
    assert "is not between 0 and 104857600" in log_of(limited)
