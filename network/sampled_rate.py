"""Rates over sliding windows, by which Kafka judges quotas.

A value is kept in samples of one window each. There is a sample more than the configured number:
the oldest one may overlap the monitored time, and counts until nothing was recorded in it for all
of that time.

Source: apache/kafka: clients/.../metrics/stats/{SampledStat,Rate,SimpleRate,WindowedSum,Avg}.java,
server-common/.../quota/QuotaUtils.java; 4.3
"""

from typing import Final

import msgspec
from typing_extensions import override

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The largest throttle time that a response can say."""


class QuotaWindow(msgspec.Struct, frozen=True, gc=False):
    """The windows of a quota: `quota.window.num`, `quota.window.size.seconds`."""

    samples: int = 11
    size_seconds: int = 1

    @property
    def size_ms(self) -> int:
        """Length of a window."""
        return self.size_seconds * 1_000


class _Sample:
    """Values of one window."""

    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0
        self.count = 0


class SampledSum:
    """Sum of the values of the last windows."""

    __slots__ = ("_current", "_samples", "_window")

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value, which may be negative to take one back."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.start_ms >= self._window.size_ms:
            sample = self._next_sample(now_ms)
        sample.value += value
        sample.count += 1
        sample.last_ms = now_ms

    def _next_sample(self, now_ms: int) -> _Sample:
        """The next one, or the oldest one emptied if there are enough."""
        samples = self._samples
        self._current = (self._current + 1) % (self._window.samples + 1)
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        return samples[self._current]

    def _purge(self, now_ms: int) -> None:
        """Empty the samples that nothing was recorded in for the monitored time."""
        expiry_ms = self._window.samples * self._window.size_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expiry_ms:
                sample.reset(now_ms)

    def total(self, now_ms: int) -> float:
        """The sum."""
        self._purge(now_ms)
        return sum(sample.value for sample in self._samples)

    def mean(self, now_ms: int) -> float | None:
        """The average of the values, None without one."""
        total = self.total(now_ms)
        count = sum(sample.count for sample in self._samples)
        return total / count if count else None


class SampledRate(SampledSum):
    """The sum per second; time that was not observed yet counts as if nothing had come."""

    __slots__ = ()

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the rate is of: all full windows but one, and the time since."""
        self._purge(now_ms)
        elapsed_ms = self._since_oldest_ms(now_ms)
        missing = self._window.samples - 1 - elapsed_ms // self._window.size_ms
        return max(1, elapsed_ms + max(0, missing) * self._window.size_ms)

    def _since_oldest_ms(self, now_ms: int) -> int:
        return now_ms - min((sample.start_ms for sample in self._samples), default=now_ms)

    def per_second(self, now_ms: int) -> float:
        """The rate."""
        total = self.total(now_ms)
        return total / (self.elapsed_ms(now_ms) / 1_000)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Time without values after which the rate is down to a bound; 0 if it is not above.

        With the rate O over a time W, and the bound T, this is X in O * W / (W + X) = T.
        """
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        if bound <= 0:
            return THROTTLE_MS_MAX
        delay_ms = (rate - bound) / bound * self.elapsed_ms(now_ms)
        return min(THROTTLE_MS_MAX, int(delay_ms + 0.5))


class SimpleRate(SampledRate):
    """The sum per second of the time since the oldest sample, at least one window."""

    __slots__ = ()

    @override
    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the rate is of."""
        self._purge(now_ms)
        return max(self._window.size_ms, self._since_oldest_ms(now_ms))
