"""Metrics of quotas: rates of clients and of throttled replication (table: docs/running.md)."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.clients.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from broker.records_counts import QuotaRates

QUOTA: Final = "kafka_server_quota_"
RESOURCES: Final = {
    PRODUCER_BYTE_RATE: ("Produce", "byte_rate"),
    CONSUMER_BYTE_RATE: ("Fetch", "byte_rate"),
    REQUEST_PERCENTAGE: ("Request", "request_time"),
}
"""Kafka's type of the metrics of each quota, and the name of the rate."""


def quota_metrics(rates: QuotaRates) -> Iterator[Metric]:
    """Yield those that have a value."""
    families = {
        name: GaugeMetricFamily(QUOTA + name, text, labels=["resource", "user", "clientId"])
        for name, text in (
            ("byte_rate", "bytes a second of those who share a quota"),
            ("request_time", "percentage of a thread of those who share a quota"),
            ("throttle_time", "average throttle time of late, ms"),
        )
    }
    for each in rates.clients:
        resource, name = RESOURCES[each.quota]
        client = [resource, each.user, each.client_id]
        families[name].add_metric(client, each.rate)
        if each.throttle_ms is not None:
            families["throttle_time"].add_metric(client, each.throttle_ms)
    yield from (family for family in families.values() if family.samples)
    for name, value, text in (
        ("request_exempt_request_time", rates.exempt_percent, "percentage of a thread, exempt"),
        ("leaderreplication_byte_rate", rates.leader, "throttled bytes a second to followers"),
        ("followerreplication_byte_rate", rates.follower, "throttled bytes a second of leaders"),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"kafka_server_{name}", text, value)
