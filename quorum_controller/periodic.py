"""Timers of the active controller for periodic records.

NoOp records advance the high watermark of an idle cluster, so that observers can distinguish an
idle cluster from a lost connection (KIP-835). Session time-outs are in `brokers/liveness.py`.
"""

from metadata.features import LEVEL_NO_OP
from metadata.image import Image


class NoOpTimer:
    """Timer of NoOpRecords.

    Args:
        interval_ms: metadata.max.idle.interval.ms; 0 disables the timer.
        now_ms: monotonic time of the activation.
    """

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        assert interval_ms >= 0, f"{interval_ms=}"
        self._interval_ms = interval_ms
        self._deadline_ms = now_ms + interval_ms
        self._known_for: object = None
        """The features for which `_is_known_on` was computed."""
        self._is_known_on = False

    def next_deadline_ms(self, image: Image) -> int | None:
        """Return the time of the next NoOpRecord, None while they are disabled.

        Called after every step of a node, so the result is cached until a feature changes.
        """
        if self._known_for is not image.features:
            self._is_known_on = self._is_on(image)
            self._known_for = image.features
        return self._deadline_ms if self._is_known_on else None

    def is_due(self, image: Image, now_ms: int) -> bool:
        """True if a NoOpRecord is due, which starts the next interval."""
        if not self._is_on(image) or now_ms < self._deadline_ms:
            return False
        self._deadline_ms = now_ms + self._interval_ms
        return True

    def _is_on(self, image: Image) -> bool:
        return self._interval_ms > 0 and image.metadata_version >= LEVEL_NO_OP


class TokenSweepTimer:
    """Timer of the removal of expired delegation tokens; without tokens nothing wakes it.

    Args:
        interval_ms: delegation.token.expiry.check.interval.ms.
        now_ms: monotonic time of the activation.
    """

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        assert interval_ms > 0, f"{interval_ms=}"
        self._interval_ms = interval_ms
        self._deadline_ms = now_ms + interval_ms

    def next_deadline_ms(self, image: Image) -> int | None:
        """Return the time of the next removal, None without tokens."""
        return self._deadline_ms if image.delegation_tokens else None

    def is_due(self, now_ms: int) -> bool:
        """True if a removal is due, which starts the next interval."""
        if now_ms < self._deadline_ms:
            return False
        self._deadline_ms = now_ms + self._interval_ms
        return True
