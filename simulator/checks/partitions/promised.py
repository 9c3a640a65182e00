"""Promises to the clients of one partition."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from simulator.checks.partitions.record_logs import StoredBatch


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
    since_epoch: int = -1
    """Leader epoch of that time: what one of an epoch before it has, nobody else need have."""
    lacking: set[int] = set()
    """Offsets that a leader lacked since an excuse: another replica may have and keep them."""
    weak: set[int] = set()
    behind: set[int] = set()
    is_excused: bool = False

    def excuse(self, now_us: int, leader_epoch: int) -> None:
        """Expect nothing of what was promised: all replicas in sync may have lost it."""
        self.forget_below(math.inf)
        self.since_us, self.since_epoch, self.is_excused = now_us, leader_epoch, True

    def promises(self, sent_us: int, leader_epoch: int | None) -> bool:
        """True if an answer promises what is in it.

        Args:
            sent_us: when it was asked for.
            leader_epoch: of who answered, None for the newest. A leader that was replaced without
                knowing it still serves what it has to readers.
        """
        is_over = leader_epoch is not None and leader_epoch < self.since_epoch
        return sent_us > self.since_us and not is_over

    def note_lacking(self, start: int, end: int, stored: Iterable[StoredBatch]) -> None:
        """Take note of what a leader lacks between its log start and its end.

        Of all replicas in sync that lost their power one leads, although the end of a segment may
        be lost and the next one there (`storage.logs.recovery.SegmentsApart`). In Kafka the gap
        stays too, and epochs do not tell followers about it.
        """
        found = [range(batch.base_offset, batch.end_offset) for batch in stored]
        self.lacking |= set(range(start, end)).difference(*found)

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
