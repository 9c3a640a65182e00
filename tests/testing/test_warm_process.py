"""Requests to the warm process that need no node."""

import json
from pathlib import Path

import pytest

from testing.warm_process import WarmProcess


@pytest.fixture
def warm(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return WarmProcess()


def ask(warm, op, **arguments):
    line = warm.answer(json.dumps({"op": op, **arguments}).encode())
    assert line.endswith(b"\n")
    return json.loads(line)


def test_it_answers_and_goes_on_behind_an_error(warm):
    assert ask(warm, "ping") == {"result": {}}
    assert ask(warm, "pong") == {"error": "KeyError: 'pong'"}
    assert ask(warm, "remove", folder="/none") == {"error": "KeyError: '/none'"}
    assert "error" in json.loads(warm.answer(b"{"))
    assert ask(warm, "ready", ports=[], nodes=0, timeout_s=0) == {"result": True}


def test_folders_are_removed_when_asked_and_at_the_end(warm):
    first, second = (Path(ask(warm, "folder")["result"]) for _ in range(2))
    assert first.is_dir()
    assert ask(warm, "remove", folder=str(first)) == {"result": None}
    assert not first.exists()
    assert second.is_dir()
    warm.end()
    assert not second.exists()


def test_no_signal_goes_to_a_process_that_is_not_its_node(warm):
    assert ask(warm, "signal", pid=1, number=0) == {"result": False}
    assert ask(warm, "alive", pids=[1]) == {"result": []}
    assert ask(warm, "wait", pid=1, timeout_s=9) == {"result": None}


def test_no_election_without_a_node(warm):
    request = {"ports": {}, "topic": "t", "partition": 0, "leader": 1, "timeout_s": 0}
    assert ask(warm, "elect", **request) == {"error": "no node is up"}


def test_the_reason_of_a_refusal_stands_alone(warm):
    request = {"ports": [], "topic": "t", "partition": 0}
    assert ask(warm, "leader", **request) == {"error": "no node is up"}
    refused = ask(warm, "fault", pid=1, action="drop", api="Produce")
    assert refused == {"error": "the node was started without faults, or has ended"}
