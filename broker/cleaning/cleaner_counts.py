"""Figures of the log cleaner, by the names of Kafka's metrics.

apache/kafka: storage/.../log/{LogCleaner,LogCleanerManager}.java
"""

from collections.abc import Mapping

import msgspec

from storage.cleaner.clean_job import CleanStats


class LastRound(msgspec.Struct, frozen=True, gc=False):
    """The last round of a thread."""

    stats: CleanStats
    elapsed_ms: int


class CleanerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of now, of the last look, and of the last round of each thread."""

    dead_threads: int = 0
    """DeadThreadCount: cleaners that died and are not started again yet."""
    died: int = 0
    """Cleaners that died since the start."""
    rounds: int = 0
    """Rounds that ended with their last group, since the start."""
    dirty_percent_max: int = 0
    """max-dirty-percent: of the dirtiest log at the last look."""
    buffer_utilization_percent_max: int = 0
    """max-buffer-utilization-percent: of the last round of each thread."""
    recopy_percent: int = 0
    """cleaner-recopy-percent: bytes written of those read, of the last rounds."""
    clean_time_seconds_max: int = 0
    """max-clean-time-secs: of the last round of each thread."""
    compaction_delay_seconds_max: int = 0
    """max-compaction-delay-secs: of the last look that found a log to clean."""
    since_last_run_ms: int = 0
    """time-since-last-run-ms"""
    uncleanable: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """uncleanable-partitions-count and uncleanable-bytes, by log directory."""


def recopy_percent(rounds: Mapping[str, LastRound]) -> int:
    """Bytes written of those read, of the last rounds of all threads."""
    read = sum(each.stats.bytes_read for each in rounds.values())
    written = sum(each.stats.bytes_written for each in rounds.values())
    return 100 * written // max(1, read)
