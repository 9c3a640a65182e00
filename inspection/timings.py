"""Metrics of the recorder: times, rates and counts of the driver's work.

Names as in `inspection/metrics.py`. Kafka's raft-metrics and ControllerEventManager measure
separate threads; here one loop is both, so they share values (table: docs/running.md).
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from inspection.recorder import NS_PER_MS, Histogram, Recorder

QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""Labels that the exporter gives to yammer's 50thPercentile to 999thPercentile."""
RAFT: Final = "kafka_server_raft_metrics_"
CONTROLLER: Final = "kafka_controller_kafkacontroller_"
EVENT_MANAGER: Final = "kafka_controller_controllereventmanager_"
HANDLERS: Final = "kafka_server_kafkarequesthandlerpool_controllerrequesthandler"
LISTENER: Final = "kafka_server_brokermetadatalistener_"
TURN: Final = "kraftline_main_turn_"
NS_PER_US: Final = 1_000


def raft_timings(recorder: Recorder, now_ns: int) -> Iterator[Metric]:
    """Timings of every node."""
    commit, election = recorder.commit_ns, recorder.election_ns
    for name, value, text in (
        ("commit_latency_avg", commit.average(now_ns) / NS_PER_MS, "append to commit, ms"),
        ("commit_latency_max", commit.highest(now_ns) / NS_PER_MS, "append to commit, ms"),
        ("election_latency_avg", election.average(now_ns) / NS_PER_MS, "of a candidacy, ms"),
        ("election_latency_max", election.highest(now_ns) / NS_PER_MS, "of a candidacy, ms"),
        ("append_records_rate", recorder.appended_records.per_second(now_ns), "as leader, per s"),
        ("fetch_records_rate", recorder.fetched_records.per_second(now_ns), "of the leader's, /s"),
        ("poll_idle_ratio_avg", recorder.idle_ratio(now_ns), "idle share of the loop, 0 to 1"),
    ):
        yield GaugeMetricFamily(RAFT + name, text, value)
    longest_ms = recorder.busy_ns.highest(now_ns) / NS_PER_MS
    yield GaugeMetricFamily(TURN + "max_ms", "longest turn of the main loop", longest_ms)


def controller_timings(recorder: Recorder, now_ns: int) -> Iterator[Metric]:
    """Timings of a controller."""
    for name, text, times in (
        ("eventqueuetimems", "from posting to taking, ms", recorder.queue_ns),
        ("eventqueueprocessingtimems", "of one turn, ms", recorder.turn_ns),
    ):
        yield from summary(EVENT_MANAGER + name, text, times, NS_PER_MS)
    for name, value, text in (
        (EVENT_MANAGER + "avgidleratio", recorder.idle_ratio(now_ns), "of the loop, 0 to 1"),
        (HANDLERS + "avgidle_percent", recorder.idle_ratio(now_ns), "of the loop, 0 to 1"),
        (
            CONTROLLER + "eventqueueoperationsstartedcount",
            float(recorder.queue_ns.count),
            "events taken since the start",
        ),
        (
            CONTROLLER + "newactivecontrollerscount",
            float(recorder.leaders_seen),
            "leaders seen since the start, each change",
        ),
    ):
        yield GaugeMetricFamily(name, text, value)


def broker_timings(recorder: Recorder) -> Iterator[Metric]:
    """Timings of a broker: the committed batches that it read and applied."""
    name, text = LISTENER + "metadatabatchprocessingtimeus", "of applying a batch, us"
    yield from summary(name, text, recorder.batch_ns, NS_PER_US)
    name, text = LISTENER + "metadatabatchsizes", "records of a batch"
    yield from summary(name, text, recorder.batch_records, 1)


def summary(name: str, text: str, histogram: Histogram, per_unit: int) -> Iterator[Metric]:
    """Kafka's histogram in the exporter's form: quantiles, and a count without a sum."""
    quantiles = GaugeMetricFamily(name, text, labels=["quantile"])
    values = histogram.quantiles([float(label) for label in QUANTILES])
    for label, value in zip(QUANTILES, values, strict=True):
        quantiles.add_metric([label], value / per_unit)
    yield quantiles
    count = Metric(name + "_count", f"how many values: {text}", "unknown")
    count.add_sample(name + "_count", {}, float(histogram.count))
    yield count
