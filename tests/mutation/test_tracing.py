"""Statements that each test runs, as the tracer sees them."""

import builtins

import pytest

from scripts.mutation.tracing import HITS, Trace, Tracer, read_trace

SOURCE = '''\
"""Text of the module."""

from __future__ import annotations


def sign(number):
    """Text of the function."""
    if number > 0:
        return 1
    elif number < 0:
        return -1
    else:
        total = 0
    try:
        return total // number
    except ZeroDivisionError:
        return 0
    finally:
        total = 1
'''


@pytest.fixture
def tracer():
    before = getattr(builtins, HITS, None)
    yield Tracer()
    delattr(builtins, HITS)
    if before is not None:
        setattr(builtins, HITS, before)


def lines(tracer):
    return sorted(int(place.partition(":")[2]) for place in tracer.take())


def test_each_statement_leaves_its_mark(tracer):
    names = {}
    exec(compile(tracer.instrument("raft/sign.py", SOURCE.encode()), "sign", "exec"), names)
    assert lines(tracer) == [6]
    assert names["__doc__"] == "Text of the module."
    assert names["sign"].__doc__ == "Text of the function."
    assert names["sign"](5) == 1
    assert lines(tracer) == [8, 9]
    assert names["sign"](-5) == -1
    assert lines(tracer) == [8, 10, 11]
    assert names["sign"](0) == 0
    assert lines(tracer) == [8, 10, 13, 14, 15, 17, 19]
    assert lines(tracer) == []


def test_two_modules_have_marks_of_their_own(tracer):
    for module in ("raft/a.py", "raft/b.py"):
        exec(compile(tracer.instrument(module, b"x = 1\n"), module, "exec"), {})
    assert list(tracer.take()) == ["raft/a.py:1", "raft/b.py:1"]


def test_traces_of_two_workers_become_one(tmp_path):
    whole = Trace()
    whole.add(Trace(["a", "b"], [0.2, 0.1], {0}, {"x:1": 0b11}, {"x:9"}))
    whole.add(Trace(["c"], [0.3], {0}, {"x:1": 0b1, "x:2": 0b1}, {"x:8"}))
    assert whole.tests == ["a", "b", "c"]
    assert whole.runs == {"x:1": 0b111, "x:2": 0b100}
    assert whole.failed == {0, 2}
    assert whole.imported == {"x:9", "x:8"}
    whole.write(tmp_path / "trace.gz")
    assert read_trace(tmp_path / "trace.gz") == whole


def test_passing_tests_of_a_bit_set_the_fastest_first():
    trace = Trace(["a", "b", "c", "d"], [0.3, 0.1, 0.0, 0.1], {2})
    assert trace.numbers(0b1111) == [1, 3, 0]
    assert trace.numbers(0b0101) == [0]
    assert trace.numbers(0) == []
