"""One turn: what is taken together, what leaves before the log is flushed, where it is flushed."""

import pytest

from kernel.effects import Log, LogLevel, RunFlush, SendBytes, SendPeerBytes
from kernel.turn import Turn

SAID = Log(LogLevel.INFO, "said")
ANSWER = SendBytes(1, b"answer")
FETCH = SendPeerBytes(1, b"fetch")


class Plan:
    def run(self):
        raise AssertionError("the driver of this test flushes nothing")


def flush(token, *, has_followers=False):
    return RunFlush(token, Plan(), has_followers)


class Scripted:
    """A driver that gives the effects of a list, half by half, and notes what it is asked for."""

    def __init__(self, *halves, is_quick=True, ends_at=None):
        self.halves = list(halves)
        self.is_quick = is_quick
        self.ends_at = ends_at
        self.calls = []
        self.waiting = []
        self.turn = Turn(self)

    def _noted(self, *call):
        self.calls.append(call)
        return len(self.calls) != self.ends_at

    def take(self):
        self.waiting.clear()
        return self.halves.pop(0) if self._noted("take") else None

    def settle(self):
        return self.halves.pop(0) if self._noted("settle") else None

    def carry_out(self, effect):
        return self._noted("carry out", type(effect))

    @property
    def has_waiting(self):
        return bool(self.waiting)

    @property
    def is_disk_quick(self):
        self.calls.append(("is quick",))
        return self.is_quick

    def flush_here(self, effect):
        self.waiting.append("FlushDone")
        return self._noted("here", effect.token)

    def flush_on_thread(self, effect):
        self._noted("thread", effect.token)

    def flush_behind(self, effect):
        self._noted("behind", effect.token)


@pytest.mark.parametrize(
    ("before", "has_followers", "is_quick", "way"),
    [
        ([], False, True, "here"),
        ([SAID], False, True, "here"),
        ([], False, False, "thread"),
        ([], True, True, "thread"),
        ([], True, False, "thread"),
        ([ANSWER], False, True, "behind"),
        ([FETCH], False, True, "behind"),
        ([FETCH], True, True, "behind"),
        ([FETCH], True, False, "thread"),
        ([ANSWER, SAID], False, True, "behind"),
        ([ANSWER], False, False, "thread"),
    ],
)
def test_the_way_of_a_flush(before, has_followers, is_quick, way):
    for half in ("take", "settle"):
        effects = [*before, flush(7, has_followers=has_followers)]
        driver = Scripted(effects, [], is_quick=is_quick)
        assert getattr(driver.turn, half)()
        ways = [call for call in driver.calls if call[0] in ("here", "behind", "thread")]
        assert ways == [(way, 7)]


def test_a_disk_is_asked_once_and_only_if_it_counts():
    driver = Scripted([flush(1, has_followers=True)], [SAID])
    driver.turn.take()
    assert ("is quick",) not in driver.calls
    driver = Scripted([FETCH, flush(1, has_followers=True)])
    driver.turn.take()
    assert driver.calls.count(("is quick",)) == 1


def test_what_follows_from_a_flush_in_the_loop_is_taken_in_the_same_half():
    driver = Scripted([flush(1)], [ANSWER], [])
    assert driver.turn.take()
    assert driver.turn.settle()
    assert driver.calls == [
        ("take",),
        ("is quick",),
        ("here", 1),
        ("take",),
        ("carry out", SendBytes),
        ("settle",),
    ]


def test_it_is_taken_once_more_and_not_for_ever():
    driver = Scripted([flush(1)], [flush(2)], [flush(3)])
    assert driver.turn.take()
    assert [call for call in driver.calls if call == ("take",)] == [("take",)] * 2


@pytest.mark.parametrize(
    "effects", [[], [SAID], [ANSWER, flush(1)], [flush(1, has_followers=True)]]
)
def test_nothing_else_is_taken_twice(effects):
    driver = Scripted(effects, [])
    assert driver.turn.take()
    assert driver.calls.count(("take",)) == 1


def test_what_the_first_half_sent_leaves_before_a_flush_of_the_second():
    driver = Scripted([ANSWER], [flush(1)])
    driver.turn.take()
    driver.turn.settle()
    assert driver.calls[-1] == ("behind", 1)


def test_what_an_earlier_turn_sent_has_left():
    driver = Scripted([ANSWER], [], [flush(1)], [])
    driver.turn.take()
    driver.turn.settle()
    driver.turn.take()
    assert ("here", 1) in driver.calls


def test_a_flush_behind_a_turn_gives_way_to_other_work():
    driver = Scripted()
    assert driver.turn.flush_behind(flush(1))
    assert driver.calls == [("here", 1)]
    driver = Scripted()
    driver.waiting.append("a fetch")
    assert driver.turn.flush_behind(flush(1))
    assert driver.calls == [("thread", 1)]


def test_nothing_follows_when_the_process_is_gone():
    for ends_at, last in [
        (1, "take"),
        (2, "carry out"),
        (4, "here"),
        (5, "take"),
        (6, "carry out"),
    ]:
        driver = Scripted([SAID, flush(1)], [ANSWER, SAID], ends_at=ends_at)
        assert not driver.turn.take()
        assert (driver.calls[-1][0], len(driver.calls)) == (last, ends_at)
    driver = Scripted(ends_at=1)
    assert not driver.turn.settle()
    driver = Scripted([SAID, SAID], ends_at=2)
    assert not driver.turn.settle()
    assert len(driver.calls) == 2
    driver = Scripted(ends_at=1)
    assert not driver.turn.flush_behind(flush(1))
