"""Metrics of a broker's records: BrokerTopicMetrics, ReplicaManager, purgatories, logs, requests.

Names as in `inspection/metrics.py`. Counters are of all topics; the sizes of each log are there
while the broker has at most 250 (table: docs/running.md).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.records_counts import LogSize, RecordsCounts
from inspection.quota_metrics import quota_metrics
from inspection.request_metrics import request_metrics
from replication.counters import Counters

TOPICS: Final = "kafka_server_brokertopicmetrics_"
MANAGER: Final = "kafka_server_replicamanager_"
PURGATORY: Final = "kafka_server_delayedoperationpurgatory_"
FETCHERS: Final = "kafka_server_replicafetchermanager_"
LOG: Final = "kafka_log_log_"


def records_metrics(counts: RecordsCounts) -> Iterator[Metric]:
    """Yield the metrics of a broker's records."""
    yield from _counters(counts.counters)
    for name, value, text in (
        (MANAGER + "offlinereplicacount", counts.offline_replicas, "their log directory failed"),
        (
            "kafka_log_logmanager_offlinelogdirectorycount",
            counts.offline_log_dirs,
            "log directories that failed",
        ),
    ):
        yield GaugeMetricFamily(name, text, float(value))
    yield from _delayed(counts)
    yield from _fetchers(counts)
    yield from request_metrics(counts)
    yield from _connections(counts)
    yield from quota_metrics(counts.quotas)
    if counts.logs is not None:
        yield from _logs(counts.logs)


def _counters(counters: Counters) -> Iterator[Metric]:
    for name, value, text in (
        (TOPICS + "messagesin", counters.messages_in, "records appended for clients"),
        (TOPICS + "bytesin", counters.bytes_in, "bytes of batches appended for clients"),
        (TOPICS + "bytesout", counters.bytes_out, "bytes of records sent to consumers"),
        (
            TOPICS + "replicationbytesin",
            counters.replication_bytes_in,
            "bytes of records that leaders sent",
        ),
        (
            TOPICS + "replicationbytesout",
            counters.replication_bytes_out,
            "bytes of records sent to followers",
        ),
        (
            TOPICS + "totalproducerequests",
            counters.produce_requests,
            "partitions of Produce requests",
        ),
        (TOPICS + "totalfetchrequests", counters.fetch_requests, "partitions of Fetch requests"),
        (
            TOPICS + "failedproducerequests",
            counters.failed_produce_requests,
            "partitions with an unexpected error",
        ),
        (
            TOPICS + "failedfetchrequests",
            counters.failed_fetch_requests,
            "partitions with an unexpected error",
        ),
        (MANAGER + "isrshrinks", counters.isr_shrinks, "adopted by the controller"),
        (MANAGER + "isrexpands", counters.isr_expands, "adopted by the controller"),
        (MANAGER + "failedisrupdates", counters.failed_isr_updates, "refused by the controller"),
    ):
        yield CounterMetricFamily(name, f"{text}, since the start", float(value))


def _delayed(counts: RecordsCounts) -> Iterator[Metric]:
    label = "delayedOperation"
    sizes = GaugeMetricFamily(
        PURGATORY + "purgatorysize", "waiting requests, one for each partition", labels=[label]
    )
    numbers = GaugeMetricFamily(
        PURGATORY + "numdelayedoperations", "waiting requests", labels=[label]
    )
    for kind, count in (
        ("Produce", counts.produce),
        ("Fetch", counts.fetch),
        ("DeleteRecords", counts.delete_records),
    ):
        sizes.add_metric([kind], float(count.watched))
        numbers.add_metric([kind], float(count.delayed))
    yield sizes
    yield numbers


def _fetchers(counts: RecordsCounts) -> Iterator[Metric]:
    for name, value, text in (
        ("maxlag", counts.replica_lag_max, "records that the follower furthest behind lacks"),
        ("failedpartitionscount", counts.failed_partitions, "followers that have stopped to fetch"),
    ):
        gauge = GaugeMetricFamily(FETCHERS + name, text, labels=["clientId"])
        gauge.add_metric(["Replica"], float(value))
        yield gauge


def _connections(counts: RecordsCounts) -> Iterator[Metric]:
    connections = GaugeMetricFamily(
        "kafka_server_socketservermetrics_connection_count",
        "open connections to a broker listener",
        labels=["listener"],
    )
    for listener, count in sorted(counts.connections.items()):
        connections.add_metric([listener], float(count))
    yield connections


def _logs(logs: Sequence[LogSize]) -> Iterator[Metric]:
    families = [
        GaugeMetricFamily(LOG + name, text, labels=["topic", "partition"])
        for name, text in (
            ("size", "bytes"),
            ("logstartoffset", "offset"),
            ("logendoffset", "offset"),
            ("numlogsegments", "segments"),
        )
    ]
    for log in logs:
        values = (log.size_bytes, log.log_start_offset, log.log_end_offset, log.segment_count)
        for family, value in zip(families, values, strict=True):
            family.add_metric([log.topic, str(log.partition)], float(value))
    yield from families
