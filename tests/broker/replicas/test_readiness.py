"""Readiness of a broker: told once, when nothing is waited for."""

from broker.replicas.readiness import Readiness
from tests.broker.metadata_log import A, B

ONE, TWO = (A, 0), (B, 0)


def readiness() -> tuple[Readiness, list[bool]]:
    """A readiness and its calls."""
    told: list[bool] = []
    return Readiness(lambda: told.append(True)), told


def test_images_that_came_meanwhile_are_applied_first() -> None:
    ready, told = readiness()
    ready.loaded(3)
    assert (ready.is_loaded, ready.is_ready) == (True, False)
    assert [ready.applied(count) for count in (1, 0, 1)] == [False] * 3
    ready.maybe_ready()
    assert told == []
    assert ready.applied(2), "a later one has ended in the same slice"
    ready.maybe_ready()
    assert (told, ready.is_ready) == ([True], True)
    assert not ready.applied(1)


def test_the_logs_of_the_first_image_are_waited_for() -> None:
    ready, told = readiness()
    assert not ready.is_ready
    ready.loaded(1)
    ready.await_log(ONE)
    ready.first_applied()
    ready.await_log(TWO)
    assert ready.applied(1)
    ready.maybe_ready()
    assert told == []
    ready.has_log_or_none(ONE)
    ready.has_log_or_none(ONE)
    assert told == [True]


def test_nothing_is_told_behind_a_stop() -> None:
    ready, told = readiness()
    ready.has_log_or_none(ONE)
    ready.loaded(1)
    ready.await_log(ONE)
    ready.applied(1)
    ready.stop()
    ready.has_log_or_none(ONE)
    assert told == []
