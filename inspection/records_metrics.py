"""Metrics of a broker's records: BrokerTopicMetrics, ReplicaManager, purgatories, logs, requests.

Names as in `inspection/metrics.py`. Counters are of all topics and of the 250 with the most bytes;
sizes are those of the 250 largest logs (table: docs/running.md).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.largest_logs import LogSizes
from broker.records_counts import RecordsCounts, TopicsCounted
from broker.replicas.log_flushes import FlushCounts
from inspection.cleaner_metrics import cleaner_metrics
from inspection.coordinator_metrics import group_metrics, transaction_metrics
from inspection.quota_metrics import quota_metrics
from inspection.recorder import NS_PER_MS, Histogram
from inspection.timings import summary
from replication.counters import Counters

TOPICS: Final = "kafka_server_brokertopicmetrics_"
MANAGER: Final = "kafka_server_replicamanager_"
PURGATORY: Final = "kafka_server_delayedoperationpurgatory_"
SOCKETS: Final = "kafka_server_socketservermetrics_connection_"
SESSIONS: Final = "kafka_server_fetchsessioncache_"
DEPLETED: Final = "kafka_server_socketservermetrics_memorypooldepletedtimetotal"
FETCHERS: Final = "kafka_server_replicafetchermanager_"
LOG: Final = "kafka_log_log_"
OURS: Final = "kraftline_"
TURN: Final = "kraftline_records_turn_cpu_"
FLUSHES: Final = "kafka_log_logflushstats_logflushrateandtimems"
HANDLERS: Final = "kafka_server_kafkarequesthandlerpool_"
PROCESSORS: Final = "kafka_network_socketserver_"
REMAINING: Final = "kafka_log_logmanager_remaininglogstorecover"
SEGMENTS: Final = "kafka_log_logmanager_remainingsegmentstorecover"


def records_metrics(counts: RecordsCounts) -> Iterator[Metric]:
    """Yield the metrics of a broker's records."""
    yield from _topics(counts.counters, counts.topics)
    yield from _counters(counts.counters)
    for name, value, text in (
        (MANAGER + "offlinereplicacount", counts.offline_replicas, "their log directory failed"),
        (
            "kafka_log_logmanager_offlinelogdirectorycount",
            len(counts.failed_log_dirs),
            "log directories that failed",
        ),
        (
            MANAGER + "partitionswithlatetransactionscount",
            counts.late_transactions,
            "led here, with a transaction that nobody ends",
        ),
    ):
        yield GaugeMetricFamily(name, text, float(value))
    remaining = GaugeMetricFamily(REMAINING, "logs that the start has not opened", labels=["dir"])
    for path, number in sorted(counts.remaining_logs.items()):
        remaining.add_metric([path], float(number))
    yield remaining
    segments = GaugeMetricFamily(
        SEGMENTS, "segments of a log that its recovery has not checked", labels=["dir", "threadnum"]
    )
    for (path, thread), number in sorted(counts.remaining_segments.items()):
        segments.add_metric([path, str(thread)], float(number))
    yield segments
    yield from _delayed(counts)
    yield from _sessions(counts)
    yield from _fetchers(counts)
    yield from _connections(counts)
    yield from quota_metrics(counts.quotas)
    yield from cleaner_metrics(counts.cleaner)
    yield from group_metrics(counts.groups)
    yield from transaction_metrics(counts.transactions)
    for name, value_ns, text in (
        ("max_ms", counts.longest_turn_ns, "CPU of the longest turn of the data thread"),
        ("max_ever_ms", counts.longest_turn_ever_ns, "the same, since the start"),
    ):
        yield GaugeMetricFamily(TURN + name, text, value_ns / NS_PER_MS)
    yield from _idle_shares(counts)
    yield from _flushes(counts.flushes)
    yield from _logs(counts.logs)


TOPIC_COUNTERS: Final[Sequence[tuple[str, str, Callable[[Counters], int]]]] = (
    ("messagesin", "records appended for clients", lambda c: c.messages_in),
    ("bytesin", "bytes of batches appended for clients", lambda c: c.bytes_in),
    ("bytesout", "bytes of records sent to consumers", lambda c: c.bytes_out),
    ("totalproducerequests", "partitions of Produce requests", lambda c: c.produce_requests),
    ("totalfetchrequests", "partitions of Fetch requests", lambda c: c.fetch_requests),
    (
        "failedproducerequests",
        "partitions with an unexpected error",
        lambda c: c.failed_produce_requests,
    ),
    (
        "failedfetchrequests",
        "partitions with an unexpected error",
        lambda c: c.failed_fetch_requests,
    ),
    ("bytesrejected", "bytes of batches that are too large", lambda c: c.bytes_rejected),
    ("nokeycompactedtopicrecords", "records without a key", lambda c: c.no_key_records),
    ("invalidmessagecrcrecords", "batches with another CRC", lambda c: c.invalid_crcs),
    (
        "invalidoffsetorsequencerecords",
        "batches with a wrong header",
        lambda c: c.invalid_offsets_or_sequences,
    ),
)
"""Counters of all topics, and of each topic that has something of it."""
NEVER: Final = ("producemessageconversions", "fetchmessageconversions", "invalidmagicnumberrecords")
"""Counters of all topics that do not rise, as in Kafka since it takes and sends magic 2 alone."""


def _topics(counters: Counters, topics: TopicsCounted) -> Iterator[Metric]:
    for name, text, value_of in TOPIC_COUNTERS:
        family = CounterMetricFamily(TOPICS + name, f"{text}, since the start", labels=["topic"])
        family.add_metric([], float(value_of(counters)))
        for each in sorted(topics.told, key=lambda each: each.topic):
            value = value_of(each.counters)
            if value:
                family.add_metric([each.topic], float(value))
        yield family
    text = "topics with fewer bytes than the 250 told"
    yield GaugeMetricFamily(OURS + "topics_left_out", text, float(topics.left_out))


def _counters(counters: Counters) -> Iterator[Metric]:
    for name, value, text in (
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
            TOPICS + "reassignmentbytesin",
            counters.reassignment_bytes_in,
            "of replicationbytesin, of replicas that are added here",
        ),
        (
            TOPICS + "reassignmentbytesout",
            counters.reassignment_bytes_out,
            "of replicationbytesout, of replicas that are added elsewhere",
        ),
        *((TOPICS + name, 0, "of no batch") for name in NEVER),
        (
            "kafka_server_delayedproducemetrics_expires",
            counters.expired_produces,
            "partitions that a Produce awaited in vain",
        ),
        (MANAGER + "isrshrinks", counters.isr_shrinks, "adopted by the controller"),
        (MANAGER + "isrexpands", counters.isr_expands, "adopted by the controller"),
        (MANAGER + "failedisrupdates", counters.failed_isr_updates, "refused by the controller"),
    ):
        yield CounterMetricFamily(name, f"{text}, since the start", float(value))


def _flushes(counts: FlushCounts) -> Iterator[Metric]:
    times = Histogram()
    times.add_all(counts.newest_ms)
    times.count = counts.count
    yield from summary(FLUSHES, "of a flush of a log, ms", times, 1)


def _idle_shares(counts: RecordsCounts) -> Iterator[Metric]:
    turns, cpu = counts.idle_of_turns, counts.idle_of_cpu
    for name, value, text in (
        (HANDLERS + "requesthandleravgidle_percent", turns, "in no turn"),
        (HANDLERS + "brokerrequesthandleravgidle_percent", turns, "in no turn"),
        (PROCESSORS + "networkprocessoravgidlepercent", cpu, "without CPU"),
    ):
        yield GaugeMetricFamily(name, f"share of the time of the data thread {text}", value)


def _sessions(counts: RecordsCounts) -> Iterator[Metric]:
    """Fetch sessions, and waits of Fetches that ended with their time."""
    sessions = counts.sessions
    for name, value, text in (
        ("numincrementalfetchsessions", sessions.open, "open fetch sessions"),
        ("numincrementalfetchpartitionscached", sessions.partitions, "partitions of sessions"),
    ):
        yield GaugeMetricFamily(SESSIONS + name, text, float(value))
    text = "sessions that made room, since the start"
    name = SESSIONS + "incrementalfetchsessionevictions"
    yield CounterMetricFamily(name, text, float(sessions.evicted))
    expired = CounterMetricFamily(
        "kafka_server_delayedfetchmetrics_expires",
        "Fetches whose wait ended, since the start",
        labels=["fetcherType"],
    )
    expired.add_metric(["consumer"], float(counts.counters.expired_consumer_fetches))
    expired.add_metric(["follower"], float(counts.counters.expired_follower_fetches))
    yield expired


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
    used, most = counts.queued_bytes, counts.queued_bytes_max
    for name, value, text in (
        ("socketserver_memorypoolused", used, "bytes of requests, from the receipt of their size"),
        ("socketserver_memorypoolavailable", max(0, most - used), "bytes up to the limit"),
        ("requestchannel_requestqueuesize", counts.queued_requests, "requests that wait"),
    ):
        yield GaugeMetricFamily(f"kafka_network_{name}", text, float(value))
    text = "ms for which connections waited for memory"
    yield GaugeMetricFamily(DEPLETED, text, counts.depleted_ns / NS_PER_MS)
    families: tuple[GaugeMetricFamily | CounterMetricFamily, ...] = (
        GaugeMetricFamily(SOCKETS + "count", "open to a broker listener", labels=["listener"]),
        CounterMetricFamily(SOCKETS + "creation", "since the start", labels=["listener"]),
        CounterMetricFamily(SOCKETS + "close", "since the start", labels=["listener"]),
    )
    for listener, accepted in sorted(counts.accepted.items()):
        count = counts.connections.get(listener, 0)
        for family, value in zip(families, (count, accepted, accepted - count), strict=True):
            family.add_metric([listener], float(value))
    yield from families


def _logs(sizes: LogSizes) -> Iterator[Metric]:
    text = "producers of all logs"
    yield GaugeMetricFamily(MANAGER + "produceridcount", text, float(sizes.producer_ids))
    families = [
        GaugeMetricFamily(LOG + name, text, labels=["topic", "partition"])
        for name, text in (
            ("size", "bytes"),
            ("logstartoffset", "offset"),
            ("logendoffset", "offset"),
            ("numlogsegments", "segments"),
            ("retentionsizeinpercent", "size in per cent of retention.bytes, 0 without a limit"),
        )
    ]
    for log in sizes.logs:
        values = (
            log.size_bytes,
            log.log_start_offset,
            log.log_end_offset,
            log.segment_count,
            log.retention_percent,
        )
        for family, value in zip(families, values, strict=True):
            family.add_metric([log.topic, str(log.partition)], float(value))
    yield from families
    text = "logs smaller than the 250 told"
    yield GaugeMetricFamily(OURS + "logs_left_out", text, float(sizes.left_out))
