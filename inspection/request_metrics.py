"""Metrics of requests: Kafka's RequestMetrics, of the thread of the records and of the kernel.

Names as in `inspection/metrics.py`. As in Kafka a Fetch is counted as FetchConsumer or
FetchFollower and as Fetch, its errors as Fetch alone. A Fetch at a controller is a follower's.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.clients.request_metrics import (
    FETCH_FOLLOWER,
    VERIFICATION,
    KindCounts,
    RequestTimes,
)
from broker.records_counts import RecordsCounts
from inspection.recorder import NS_PER_MS, quantiles
from inspection.timings import QUANTILES
from network.served_requests import ServedRequests, ServedRow
from wire.api_keys import ADD_PARTITIONS_TO_TXN, FETCH
from wire.api_table import api_name
from wire.errors import ErrorCode

REQUESTS: Final = "kafka_network_requestmetrics_"
ValueOf = Callable[[RequestTimes], float | None]
VALUES: Final[Sequence[tuple[str, str, ValueOf]]] = (
    ("requestqueuetimems", "from its receipt to its handler, ms", lambda t: t.queue_ns / NS_PER_MS),
    ("localtimems", "of its handler, ms", lambda t: t.local_ns / NS_PER_MS),
    ("remotetimems", "waiting for replicas or records, ms", lambda t: t.remote_ns / NS_PER_MS),
    (
        "responsequeuetimems",
        "from its answer until it is taken, ms",
        lambda t: None if t.response_queue_ns is None else t.response_queue_ns / NS_PER_MS,
    ),
    (
        "responsesendtimems",
        "until its answer is sent, ms",
        lambda t: None if t.send_ns is None else t.send_ns / NS_PER_MS,
    ),
    ("throttletimems", "for which the client is to wait, ms", lambda t: t.throttle_ms),
    (
        "totaltimems",
        "from its receipt until its answer is sent, ms",
        lambda t: t.total_ns / NS_PER_MS,
    ),
    ("requestbytes", "of its header and body", lambda t: t.size_bytes),
)


def request_metrics(counts: RecordsCounts | None, served: ServedRequests) -> Iterator[Metric]:
    """Yield the metrics of requests about records, if the node has some, and of the kernel's."""
    requests = CounterMetricFamily(
        REQUESTS + "requests", "requests since the start", labels=["request", "version"]
    )
    for (name, version), count in sorted(_requests(counts, served).items()):
        requests.add_metric([name, str(version)], float(count))
    yield requests
    errors = CounterMetricFamily(
        REQUESTS + "errors", "in answers since the start, NONE too", labels=["request", "error"]
    )
    failed = Counter(served.errors) + Counter({} if counts is None else counts.request_errors)
    for (api_key, code), count in sorted(failed.items()):
        errors.add_metric([api_name(api_key), ErrorCode(code).name.upper()], float(count))
    yield errors
    named = _by_name({} if counts is None else counts.request_times, served)
    for name, text, value_of in VALUES:
        yield from _histogram(REQUESTS + name, text, named, value_of)


def _requests(counts: RecordsCounts | None, served: ServedRequests) -> Counter[tuple[str, int]]:
    """Number of requests by name and version."""
    found = Counter[tuple[str, int]]()
    kinds = Counter({} if counts is None else counts.requests)
    for (api_key, version), count in served.requests.items():
        kinds[_kind_at_controller(api_key), version] += count
    for (kind, version), count in kinds.items():
        for name in _names(kind):
            found[name, version] += count
    return found


def _by_name(kinds: Mapping[int, KindCounts], served: ServedRequests) -> Mapping[str, KindCounts]:
    """Times of each name, sorted; Fetch has both of its kinds."""
    found: dict[str, KindCounts] = {}
    at_controller = {
        _kind_at_controller(api_key): KindCounts(served.count(api_key), tuple(map(_times, rows)))
        for api_key, rows in served.rows.items()
    }
    for kind, counts in (*kinds.items(), *at_controller.items()):
        for name in _names(kind):
            known = found.get(name, KindCounts(0, ()))
            newest = (*known.newest, *counts.newest)
            found[name] = KindCounts(known.count + counts.count, newest)
    return dict(sorted(found.items()))


def _times(row: ServedRow) -> RequestTimes:
    received_ns, begun_ns, handled_ns, answered_ns, size_bytes = row
    return RequestTimes(
        begun_ns - received_ns,
        handled_ns - begun_ns,
        answered_ns - handled_ns,
        None,
        None,
        0,
        size_bytes,
    )


def _kind_at_controller(api_key: int) -> int:
    return FETCH_FOLLOWER if api_key == FETCH else api_key


def _names(kind: int) -> Sequence[str]:
    """Kafka's names of a kind: those of a Fetch are two."""
    if kind == FETCH_FOLLOWER:
        return (f"{api_name(FETCH)}Follower", api_name(FETCH))
    if kind == FETCH:
        return (f"{api_name(FETCH)}Consumer", api_name(FETCH))
    if kind == VERIFICATION:
        return (f"{api_name(ADD_PARTITIONS_TO_TXN)}Verification",)
    return (api_name(kind),)


def _histogram(
    name: str, text: str, named: Mapping[str, KindCounts], value_of: ValueOf
) -> Iterator[Metric]:
    """Kafka's histogram in the exporter's form: quantiles, and a count without a sum.

    A request whose value is not measured has none; one that has no such row at all is left out.
    """
    shares = [float(label) for label in QUANTILES]
    found = GaugeMetricFamily(name, f"of a request: {text}", labels=["request", "quantile"])
    count = Metric(f"{name}_count", f"how many requests: {text}", "unknown")
    for request, counts in named.items():
        measured = [value for each in counts.newest if (value := value_of(each)) is not None]
        if counts.newest and not measured:
            continue
        values = quantiles(sorted(measured), shares)
        for label, value in zip(QUANTILES, values, strict=True):
            found.add_metric([request, label], value)
        count.add_sample(f"{name}_count", {"request": request}, float(counts.count))
    yield found
    yield count
