"""The timer of a driver, on a loop whose time is the test's."""

import pytest

from network.clock import Now
from node import deadline_timer
from node.deadline_timer import DeadlineTimer


class Handle:
    def __init__(self, at_ms, callback):
        self.at_ms, self.callback = at_ms, callback
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True


class Timed:
    """A loop with one timer at most, and a stepped value with a deadline."""

    def __init__(self, monkeypatch):
        self.now_ms = 100
        self.deadline_ms = 500
        self.handles = []
        self.due = []
        monkeypatch.setattr(deadline_timer, "now", lambda: Now(self.now_ms, 0))
        self.timer = DeadlineTimer(
            self, lambda: self.deadline_ms, lambda: self.due.append(self.now_ms)
        )
        self.timer.set()

    def call_later(self, delay_s, callback):
        self.handles.append(Handle(self.now_ms + round(delay_s * 1000), callback))
        return self.handles[-1]

    def set(self, deadline_ms):
        self.deadline_ms = deadline_ms
        self.timer.set()

    def fire(self):
        """Let time pass up to the timer that is set."""
        (handle,) = self.waiting()
        self.handles.remove(handle)
        self.now_ms = handle.at_ms
        handle.callback()

    def waiting(self):
        return [handle for handle in self.handles if not handle.is_cancelled]

    def times_ms(self):
        return [handle.at_ms for handle in self.waiting()]


@pytest.fixture(name="timed")
def _timed(monkeypatch):
    return Timed(monkeypatch)


def test_the_deadline_is_told_once(timed):
    assert timed.times_ms() == [500]
    timed.fire()
    assert timed.due == [500]
    assert timed.times_ms() == [], "the step that follows sets it"
    timed.set(700)
    assert timed.times_ms() == [700]


def test_an_earlier_deadline_replaces_the_timer(timed):
    timed.set(300)
    assert timed.times_ms() == [300]
    timed.fire()
    assert timed.due == [300]


def test_a_later_deadline_is_read_when_the_timer_fires(timed):
    timed.set(900)
    timed.set(500)
    assert len(timed.handles) == 1
    timed.set(900)
    timed.fire()
    assert timed.due == []
    assert timed.times_ms() == [900]
    timed.fire()
    assert timed.due == [900]


def test_a_deadline_that_has_passed_is_told_at_once(timed):
    timed.set(50)
    assert timed.times_ms() == [100]


def test_a_cancelled_timer_tells_nobody(timed):
    timed.timer.cancel()
    assert timed.times_ms() == []
