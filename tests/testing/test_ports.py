"""Ports that are held for nodes."""

import socket

import pytest

from testing.ports import HeldPorts
from testing.settings import HOST


def listener(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((HOST, port))
    made.listen()
    return made


def test_all_differ_and_a_node_can_listen_twice():
    held = HeldPorts(3)
    ports = [port for node in held.nodes for port in (node.broker, node.controller)]
    assert len(set(ports)) == 6
    for _ in range(2):
        listener(held.nodes[0].broker).close()
    held.close()


def test_a_port_that_was_asked_for():
    held = HeldPorts(1)
    first = held.nodes[0].broker
    held.close()
    again = HeldPorts(2, first)
    assert again.nodes[0].broker == first
    assert len({port for node in again.nodes for port in (node.broker, node.controller)}) == 4
    again.close()


def test_a_port_on_which_somebody_listens_is_refused():
    held = HeldPorts(1)
    with listener(held.nodes[0].broker), pytest.raises(OSError, match="in use"):
        HeldPorts(1, held.nodes[0].broker)
    held.close()


def test_another_without_reuse_does_not_get_it_until_close():
    held = HeldPorts(1)
    port = held.nodes[0].controller
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    held.close()
    with socket.socket() as other:
        other.bind((HOST, port))
