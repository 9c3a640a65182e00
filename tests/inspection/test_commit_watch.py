"""Callbacks of the next commit: once each, and none after `forget`."""

from inspection.running_node import CommitWatch
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from network.clock import Now


def commit(watch: CommitWatch) -> None:
    watch.publish(EMPTY, EMPTY, MetadataDelta())


def test_each_callback_is_called_once() -> None:
    watch, calls = CommitWatch(lambda: Now(7, 8)), []
    assert watch.last_commit_ms is None
    watch.call_next(lambda: calls.append("a"))
    watch.call_next(lambda: calls.append("b"))
    commit(watch)
    assert sorted(calls) == ["a", "b"]
    assert watch.last_commit_ms == 7
    commit(watch)
    assert len(calls) == 2


def test_a_forgotten_callback_is_not_called() -> None:
    watch, calls = CommitWatch(lambda: Now(7, 8)), []

    def wake() -> None:
        calls.append("a")

    watch.call_next(wake)
    watch.forget(wake)
    watch.forget(wake)
    commit(watch)
    assert calls == []


def test_a_callback_may_wait_for_the_commit_after() -> None:
    watch, calls = CommitWatch(lambda: Now(7, 8)), []

    def wake() -> None:
        calls.append("a")
        watch.call_next(wake)

    watch.call_next(wake)
    commit(watch)
    assert calls == ["a"]
    commit(watch)
    assert calls == ["a", "a"]
