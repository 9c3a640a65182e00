"""Promises to the clients of one partition."""

from typing import NamedTuple

import msgspec


class Promised(msgspec.Struct):
    """Records of a partition that must stay, by offset."""

    values: dict[int, bytes] = {}
    promised_us: dict[int, int] = {}
    """Offset -> when it was promised."""
    times_ms: dict[int, int] = {}
    """Offset -> timestamp, as far as consumers have read it."""
    start: int = 0
    """Highest log start of any replica."""
    since_us: int = -1
    """Time of the last excuse: what was asked for before it promises nothing."""
    weak: set[int] = set()
    behind: set[int] = set()
    is_excused: bool = False

    def forget_below(self, offset: float) -> None:
        """Expect nothing below an offset."""
        for known in [each for each in self.values if each < offset]:
            del self.values[known], self.promised_us[known]
            self.times_ms.pop(known, None)

    def earlier(self, asked_ms: int, offset: int, sent_us: int) -> int | None:
        """A record at or after a time and before an offset that a request had to find."""
        if sent_us <= self.since_us:
            return None
        for each, time_ms in self.times_ms.items():
            if each < offset and time_ms >= asked_ms and self.promised_us[each] < sent_us:
                return each
        return None


class Reign(NamedTuple):
    """A process that leads a partition in an epoch."""

    node: int
    incarnation: int
    key: tuple[bytes, int]
    leader_epoch: int
