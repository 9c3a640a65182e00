"""Listening sockets of the broker listeners, where one of them cannot be had."""

import socket

import pytest

from node.records import record_listener
from node.records.record_listener import bind
from wire.types import Endpoint


def test_a_port_that_is_taken_leaves_no_socket_open(monkeypatch):
    made = []

    class Noted(socket.socket):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(record_listener.socket, "socket", Noted)
        with pytest.raises(OSError, match="in use"):
            bind(Endpoint("PLAINTEXT", "127.0.0.1", taken.getsockname()[1]))
    assert [one.fileno() for one in made] == [-1]
