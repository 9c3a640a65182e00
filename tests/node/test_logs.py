"""Log lines: key=value for people at a terminal, one JSON object a line for everything else."""

import io
import json
import sys

import pytest

from kernel.effects import Log, LogLevel
from node.logs import write_log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_key_value(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    write_log(Log(LogLevel.INFO, "leader_changed", {"leader_id": 2, "reason": "two words"}))
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(' INFO leader_changed leader_id=2 reason="two words"')


def test_everything_else_gets_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    write_log(Log(LogLevel.ERROR, "node_failed", {"error": "x"}), ValueError("line\nbreak"))
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert (record["level"], record["event"], record["error"]) == ("ERROR", "node_failed", "x")
    assert "ValueError: line" in record["stack"]


def test_a_healthy_node_says_nothing_below_info(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    write_log(Log(LogLevel.DEBUG, "fetched", {}))
    assert stream.getvalue() == ""
