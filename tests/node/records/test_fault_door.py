"""The door for faults of a node, and the end of it that the warm process keeps."""

import asyncio
import socket
from contextlib import contextmanager

import msgspec
import pytest

from broker.clients.faults import Action, Fault, Faults
from node.records.fault_door import Answer, FaultDoor, performed
from testing.door import Door, FaultError

DROP = Fault(action=Action.DROP, topic="t")


def line(op, **more):
    return msgspec.json.encode({"op": op, **more})


def test_a_fault_comes_as_it_was_said():
    faults = Faults()
    assert performed(faults, line("add", fault=DROP)) == Answer(1)
    assert faults._faults == {1: DROP}
    faults._hits[1] = 3
    assert performed(faults, line("hits", number=1)) == Answer(3)
    assert performed(faults, line("end", number=1)) == Answer(3)
    assert len(faults) == 0
    performed(faults, line("add", fault=DROP))
    assert performed(faults, line("clear")) == Answer(0)
    assert len(faults) == 0


@pytest.mark.parametrize("request_", [b"{", line("what"), line("add"), line("add", fault={})])
def test_what_is_no_request_is_answered(request_):
    answer = performed(Faults(), request_)
    assert answer.error
    assert answer.result == 0


@contextmanager
def ends(answer_s=5.0):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Door(ours, answer_s), FaultDoor(theirs)


def test_requests_through_the_loop_of_a_node():
    async def scenario(door, node):
        node.start(asyncio.get_running_loop(), lambda call: call())
        assert await asyncio.to_thread(door.ask, "add", fault=DROP) == 1
        assert await asyncio.to_thread(door.ask, "hits", number=1) == 0
        with pytest.raises(FaultError, match="Invalid enum value"):
            await asyncio.to_thread(door.ask, "what")
        door.stream.sendall(line("add", fault=DROP)[:9])
        while not node._received:
            await asyncio.to_thread(lambda: None)
        door.stream.sendall(line("add", fault=DROP)[9:] + b"\n" + line("clear") + b"\n")
        door._late = 2
        assert await asyncio.to_thread(door.ask, "add", fault=DROP) == 3
        door.close()
        while node._stream.fileno() >= 0:
            await asyncio.to_thread(lambda: None)

    with ends() as (door, node):
        asyncio.run(scenario(door, node))
        assert len(node.faults) == 1


def test_an_answer_that_was_not_waited_for_is_not_the_next_one():
    with ends(answer_s=0.0001) as (door, node):
        with pytest.raises(FaultError, match="is it paused"):
            door.ask("hits", number=1)
        node._answer(line("add", fault=DROP))
        node._answer(line("add", fault=DROP))
        assert door.ask("add", fault=DROP) == 2
        with pytest.raises(FaultError, match="is it paused"):
            door.ask("hits", number=1)


def test_a_node_that_is_gone():
    with ends() as (door, node):
        node._stream.close()
        with pytest.raises(FaultError, match="the node has ended"):
            door.ask("clear")


def test_a_node_that_goes_meanwhile():
    with ends() as (door, node):
        node._stream.shutdown(socket.SHUT_WR)
        with pytest.raises(FaultError, match="the node has ended: its door is closed"):
            door.ask("clear")
        door.close()
        node._answer(line("clear"))
