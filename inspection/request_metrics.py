"""Metrics of requests about records: Kafka's RequestMetrics.

Names as in `inspection/metrics.py`. As in Kafka a Fetch is counted as FetchConsumer or
FetchFollower and as Fetch, its errors as Fetch alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.clients.request_metrics import FETCH_FOLLOWER, KindCounts, RequestTimes
from broker.records_counts import RecordsCounts
from inspection.recorder import NS_PER_MS, quantiles
from inspection.timings import QUANTILES
from wire.api_keys import FETCH
from wire.api_table import api_name
from wire.errors import ErrorCode

REQUESTS: Final = "kafka_network_requestmetrics_"
VALUES: Final[Sequence[tuple[str, str, Callable[[RequestTimes], float]]]] = (
    ("requestqueuetimems", "from its receipt to its handler, ms", lambda t: t.queue_ns / NS_PER_MS),
    ("localtimems", "of its handler, ms", lambda t: t.local_ns / NS_PER_MS),
    ("remotetimems", "waiting for replicas or records, ms", lambda t: t.remote_ns / NS_PER_MS),
    (
        "responsequeuetimems",
        "from its answer until it is taken, ms",
        lambda t: t.response_queue_ns / NS_PER_MS,
    ),
    ("responsesendtimems", "until its answer is sent, ms", lambda t: t.send_ns / NS_PER_MS),
    ("throttletimems", "for which the client is to wait, ms", lambda t: t.throttle_ms),
    (
        "totaltimems",
        "from its receipt until its answer is sent, ms",
        lambda t: t.total_ns / NS_PER_MS,
    ),
    ("requestbytes", "of its header and body", lambda t: t.size_bytes),
)


def request_metrics(counts: RecordsCounts) -> Iterator[Metric]:
    """Yield the metrics of requests about records."""
    requests = CounterMetricFamily(
        REQUESTS + "requests",
        "requests about records since the start",
        labels=["request", "version"],
    )
    for (api_key, version), count in sorted(counts.requests.items()):
        requests.add_metric([api_name(api_key), str(version)], float(count))
    yield requests
    errors = CounterMetricFamily(
        REQUESTS + "errors", "in answers since the start, NONE too", labels=["request", "error"]
    )
    for (api_key, code), count in sorted(counts.request_errors.items()):
        errors.add_metric([api_name(api_key), ErrorCode(code).name.upper()], float(count))
    yield errors
    named = _by_name(counts.request_times)
    for name, text, value_of in VALUES:
        yield from _histogram(REQUESTS + name, text, named, value_of)


def _by_name(kinds: Mapping[int, KindCounts]) -> dict[str, KindCounts]:
    """Name of each kind, sorted; Fetch has both of its kinds."""
    named = {_name(kind): counts for kind, counts in kinds.items()}
    both = [kinds[kind] for kind in (FETCH, FETCH_FOLLOWER) if kind in kinds]
    if both:
        newest = tuple(times for each in both for times in each.newest)
        named[api_name(FETCH)] = KindCounts(sum(each.count for each in both), newest)
    return dict(sorted(named.items()))


def _name(kind: int) -> str:
    if kind == FETCH:
        return f"{api_name(FETCH)}Consumer"
    return f"{api_name(FETCH)}Follower" if kind == FETCH_FOLLOWER else api_name(kind)


def _histogram(
    name: str, text: str, named: Mapping[str, KindCounts], value_of: Callable[[RequestTimes], float]
) -> Iterator[Metric]:
    """Kafka's histogram in the exporter's form: quantiles, and a count without a sum."""
    shares = [float(label) for label in QUANTILES]
    found = GaugeMetricFamily(name, f"of a request: {text}", labels=["request", "quantile"])
    count = Metric(f"{name}_count", f"how many requests: {text}", "unknown")
    for request, counts in named.items():
        values = quantiles(sorted(map(value_of, counts.newest)), shares)
        for label, value in zip(QUANTILES, values, strict=True):
            found.add_metric([request, label], value)
        count.add_sample(f"{name}_count", {"request": request}, float(counts.count))
    yield found
    yield count
