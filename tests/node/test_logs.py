"""Log lines: key=value for people at a terminal, one JSON object a line for everything else."""

import io
import json
import logging
import sys

import pytest

from kernel.effects import Log, LogLevel
from node.logs import write_log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_levels_are_those_of_logging() -> None:
    for level in LogLevel:
        assert logging.getLevelName(level.value) == level.name.replace("WARN", "WARNING")


def test_a_terminal_gets_key_value(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    write_log(Log(LogLevel.INFO, "leader_changed", {"leader_id": 2, "reason": "two words"}))
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(' INFO leader_changed leader_id=2 reason="two words"')


@pytest.mark.parametrize(("value", "text"), [
    (None, "null"), (True, "true"), (7, "7"), ("a", "a"), ("", '""'), ("a b", '"a b"'),
    ("a\nb", r'"a\nb"'), ("a=b", '"a=b"'), ('a"b', r'"a\"b"'), (["a", 1], "a,1"),
    ("\x1b[31m", r'"\u001b[31m"'), ("\u2028", r'"\u2028"'),
])  # fmt: skip
def test_a_value_stays_one_value_on_one_line(
    value: object, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    write_log(Log(LogLevel.INFO, "event", {"key": value}))
    assert stream.getvalue().endswith(f" INFO event key={text}\n")
    write_log(Log(LogLevel.ERROR, "node_failed"), ValueError("a\nb"))
    assert len(stream.getvalue().splitlines()) == 2


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_of_the_log_that_left_does_not_end_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", Closed())
    write_log(Log(LogLevel.INFO, "leader_changed", {"leader_id": 2}))


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
