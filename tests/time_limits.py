"""Time limit of a test with its fixtures: `timeout` of pyproject.toml, more for slow kinds."""

import signal
from collections.abc import Iterable
from types import FrameType

import pytest

SLOW_KINDS = ("interop", "jvm", "spark", "browser", "long")
"""Marks of tests that start processes, or try many cases."""
SLOW_TIMEOUT_S = 1_800


class TimeLimitError(BaseException):
    """A test that hangs.

    No Exception and none of pytest's: hypothesis would take those for a failing example and try it
    again, which hangs without a limit.
    """


def give_time(items: Iterable[pytest.Item]) -> None:
    """The time limit of slow kinds, unless a test has one of its own."""
    for item in items:
        is_slow = any(item.get_closest_marker(kind) for kind in SLOW_KINDS)
        if is_slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))


def raise_through_hypothesis() -> None:
    """Have the alarm that pytest-timeout has set raise a TimeLimitError."""
    ring = signal.getsignal(signal.SIGALRM)
    if not callable(ring):
        return

    def handler(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        try:
            ring(number, frame)
        except pytest.fail.Exception as failed:
            raise TimeLimitError(failed.msg) from None

    signal.signal(signal.SIGALRM, handler)
