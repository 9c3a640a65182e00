"""Metrics of the log cleaner (table: docs/running.md)."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.cleaning.cleaner_counts import CleanerCounts

CLEANER: Final = "kafka_log_logcleaner_"
MANAGER: Final = "kafka_log_logcleanermanager_"
OURS: Final = "kraftline_cleaner_"


def cleaner_metrics(counts: CleanerCounts) -> Iterator[Metric]:
    """Yield them."""
    for name, value, text in (
        (CLEANER + "deadthreadcount", counts.dead_threads, "cleaners that are not started again"),
        (
            CLEANER + "max_buffer_utilization_percent",
            counts.buffer_utilization_percent_max,
            "of the offset map, in the last round of each thread",
        ),
        (
            CLEANER + "cleaner_recopy_percent",
            counts.recopy_percent,
            "bytes written of those read, in the last round of each thread",
        ),
        (CLEANER + "max_clean_time_secs", counts.clean_time_seconds_max, "of the last rounds"),
        (
            CLEANER + "max_compaction_delay_secs",
            counts.compaction_delay_seconds_max,
            "time since max.compaction.lag.ms asked for the last round",
        ),
        (MANAGER + "max_dirty_percent", counts.dirty_percent_max, "of the dirtiest log"),
        (MANAGER + "time_since_last_run_ms", counts.since_last_run_ms, "since the last look"),
    ):
        yield GaugeMetricFamily(name, text, float(value))
    numbers, sizes = (
        GaugeMetricFamily(MANAGER + name, text, labels=["logDirectory"])
        for name, text in (
            ("uncleanable_partitions_count", "partitions that are left alone"),
            ("uncleanable_bytes", "dirty bytes of partitions that are left alone"),
        )
    )
    for path, (count, size_bytes) in sorted(counts.uncleanable.items()):
        numbers.add_metric([path], float(count))
        sizes.add_metric([path], float(size_bytes))
    yield numbers
    yield sizes
    yield CounterMetricFamily(OURS + "rounds", "whole rounds, since the start", counts.rounds)
    yield CounterMetricFamily(OURS + "deaths", "cleaners that died, since the start", counts.died)
