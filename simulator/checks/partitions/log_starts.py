"""Reasons for which the start of a log may rise: DeleteRecords, retention by size, by time."""

import math
from collections.abc import Mapping
from copy import copy

import msgspec

Place = tuple[bytes, int]
"""Id of a topic, number of a partition."""


class LogStarts:
    """Requests of administrators by which the start of a log may be above 0."""

    def __init__(self) -> None:
        self._asked: dict[Place, float] = {}
        """Highest offset below which records may be deleted."""
        self._unanswered_deletions: list[tuple[int, float]] = []
        """Partitions and offsets that were asked for by the name of a topic."""
        self._kept: dict[bytes, _Kept] = {}
        self._unanswered: list[tuple[str, int]] = []
        """Configs that were asked for by the name of a topic, which may be another's meanwhile."""
        self.are_free = False
        """True: whoever drives the run deletes what he likes."""

    def note_deletion(self, place: Place, offset: int) -> None:
        """Note a DeleteRecords of a topic."""
        self._asked[place] = max(_below(offset), self._asked.get(place, 0))

    def ask_deletion(self, number: int, offset: int) -> None:
        """Note a DeleteRecords that is asked for: until the answer any topic may get it."""
        self._unanswered_deletions.append((number, _below(offset)))

    def answer_deletion(self, number: int, offset: int) -> None:
        """Note that records are deleted; the topic that had them was noted."""
        self._unanswered_deletions.remove((number, _below(offset)))

    def ask_retention(self, config: str, value: int) -> None:
        """Note a config that is asked for: until the answer any topic may get it."""
        self._unanswered.append((config, value))

    def answer_retention(self, config: str, value: int) -> None:
        """Note that a config is set; the topic that has it was noted."""
        self._unanswered.remove((config, value))

    def note_retention(self, topic_id: bytes, config: str, value: int) -> None:
        """Note a config of a topic; the smallest value counts from then on."""
        self._kept.setdefault(topic_id, _Kept()).lower(config, value)

    def reason(
        self,
        place: Place,
        start: int,
        times_ms: Mapping[int, int],
        *,
        bytes_left: int,
        wall_ms: int,
    ) -> str:
        """Reason for a start; empty if there is none.

        Args:
            place: of the log.
            start: to which it rose.
            times_ms: timestamps of records by offset, as far as they are known.
            bytes_left: from the start on.
            wall_ms: highest time that any node has seen.
        """
        open_ = (below for number, below in self._unanswered_deletions if number == place[1])
        if self.are_free or start <= max(self._asked.get(place, 0), *open_, 0):
            return "asked"
        kept = copy(self._kept.get(place[0], _Kept()))
        for config, value in self._unanswered:
            kept.lower(config, value)
        if kept == _Kept():
            return ""
        if kept.size_bytes <= bytes_left:
            return "size"
        gone = [time_ms for offset, time_ms in times_ms.items() if offset < start]
        return "time" if not gone or max(gone) + kept.age_ms < wall_ms else ""


def _below(offset: int) -> float:
    """The offset below which records go; -1 is the high watermark, whatever it is."""
    return math.inf if offset < 0 else offset


class _Kept(msgspec.Struct):
    """Limits of retention: what it leaves in any case."""

    size_bytes: float = math.inf
    age_ms: float = math.inf

    def lower(self, config: str, value: int) -> None:
        """Lower the limit of a config, if it is above the value."""
        if config == "retention.bytes":
            self.size_bytes = min(self.size_bytes, value)
        else:
            assert config == "retention.ms", config
            self.age_ms = min(self.age_ms, value)
