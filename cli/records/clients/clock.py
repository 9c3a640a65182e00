"""Time of the records clients: they take it as an argument, so that tests need no waiting."""

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import msgspec
from typing_extensions import override

Answer = TypeVar("Answer")


class Clock(Protocol):
    """Time in ms."""

    def now_ms(self) -> int:
        """Monotonic time."""
        ...

    def wall_ms(self) -> int:
        """Time since 1970."""
        ...

    def sleep_ms(self, ms: int) -> None:
        """Wait."""
        ...


class SystemClock(Clock):
    """The clock of the machine."""

    @override
    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    @override
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    @override
    def sleep_ms(self, ms: int) -> None:
        time.sleep(ms / 1000)


SYSTEM: Final = SystemClock()
BACKOFF_MS_MAX: Final = 1_000
"""`retry.backoff.max.ms` of Kafka's clients."""


class Backoff:
    """Waits between attempts, each twice the one before, up to a second."""

    def __init__(self, clock: Clock, first_ms: int, attempts: int = 0) -> None:
        """Begin after a number of attempts."""
        self._clock = clock
        self._next_ms = min(first_ms << min(attempts, 10), max(first_ms, BACKOFF_MS_MAX))

    def wait(self, limit_ms: int | None) -> bool:
        """Wait, at most until `limit_ms` of the clock; False at once if that has come."""
        left_ms = self._next_ms if limit_ms is None else limit_ms - self._clock.now_ms()
        if left_ms <= 0 and limit_ms is not None:
            return False
        self._clock.sleep_ms(max(0, min(self._next_ms, left_ms)))
        self._next_ms = min(self._next_ms * 2, max(self._next_ms, BACKOFF_MS_MAX))
        return True


class Again(msgspec.Struct, frozen=True):
    """The end of an attempt without an answer, with its reason: it is to be repeated."""

    reason: str


def repeated(
    attempt: Callable[[], Answer | Again], clock: Clock, first_ms: int, limit_ms: int
) -> Answer | Again:
    """The first answer of attempts; what the last one had if there is none until a time.

    Args:
        attempt: Function that tries once; its errors end the attempts.
        clock: Time to wait by.
        first_ms: Wait behind the first attempt; later ones are longer.
        limit_ms: End of the waits, a time of the clock; one attempt is made in any case.
    """
    backoff = Backoff(clock, first_ms)
    while True:
        answer = attempt()
        if not isinstance(answer, Again) or not backoff.wait(limit_ms):
            return answer
