"""A rate of records, approximately, as Kafka's ThroughputThrottler keeps it."""

from cli.records.clients.clock import Clock


class Throttle:
    """Waits where records are ahead of their rate."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        """A rate; below 0 there is none."""
        self._per_second = per_second
        self._clock = clock
        self._start_ms = clock.now_ms()

    def ahead_ms(self, count: int) -> int:
        """Time until `count` records are due."""
        if self._per_second <= 0:
            return 0
        due_ms = self._start_ms + round(count * 1000 / self._per_second)
        return max(0, due_ms - self._clock.now_ms())
