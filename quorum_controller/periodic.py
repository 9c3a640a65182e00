"""Timers of the active controller that write records by themselves.

NoOp records move the high watermark of an idle cluster, so that observers can tell "nothing
happened" from "cut off" (KIP-835). The fencing timer is in `liveness.py`: it depends on contacts.
"""

from metadata.features import LEVEL_NO_OP
from metadata.image import Image


class NoOpTimer:
    """When the next NoOpRecord is due.

    Args:
        interval_ms: metadata.max.idle.interval.ms; 0 turns the timer off.
        now_ms: monotonic time of the activation.
    """

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        assert interval_ms >= 0, f"{interval_ms=}"
        self._interval_ms = interval_ms
        self._deadline_ms = now_ms + interval_ms
        self._known_for: object = None
        """The features that `_is_known_on` was found for."""
        self._is_known_on = False

    def next_deadline_ms(self, image: Image) -> int | None:
        """When to ask `is_due` again, None while NoOps are off.

        Asked after every step of a node, so the answer is kept until a feature changes.
        """
        if self._known_for is not image.features:
            self._is_known_on = self._is_on(image)
            self._known_for = image.features
        return self._deadline_ms if self._is_known_on else None

    def is_due(self, image: Image, now_ms: int) -> bool:
        """Whether to write one now; yes starts the next interval."""
        if not self._is_on(image) or now_ms < self._deadline_ms:
            return False
        self._deadline_ms = now_ms + self._interval_ms
        return True

    def _is_on(self, image: Image) -> bool:
        return self._interval_ms > 0 and image.metadata_version >= LEVEL_NO_OP


class TokenSweepTimer:
    """When expired delegation tokens are looked for; never while there are no tokens.

    Args:
        interval_ms: delegation.token.expiry.check.interval.ms.
        now_ms: monotonic time of the activation.
    """

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        assert interval_ms > 0, f"{interval_ms=}"
        self._interval_ms = interval_ms
        self._deadline_ms = now_ms + interval_ms

    def next_deadline_ms(self, image: Image) -> int | None:
        """When to ask `is_due` again, None without tokens."""
        return self._deadline_ms if image.delegation_tokens else None

    def is_due(self, image: Image, now_ms: int) -> bool:
        """Whether to look now; yes starts the next interval."""
        if not image.delegation_tokens or now_ms < self._deadline_ms:
            return False
        self._deadline_ms = now_ms + self._interval_ms
        return True
