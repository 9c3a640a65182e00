"""Metrics of the coordinators of groups and of transactions (table: docs/running.md).

The exporter's rules make the tags of group-coordinator-metrics part of the name, as those of
node-metrics.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.coordinators.figures import GroupFigures, ShardFigures, TransactionFigures
from coordinator.group.counts import GroupNumbers
from coordinator.runtime.shard import ShardState

GROUPS: Final = "kafka_server_group_coordinator_metrics_"
MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics_"
MARKERS: Final = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
OURS: Final = "kraftline_transaction"
STATES: Final = (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED)


def group_metrics(figures: GroupFigures) -> Iterator[Metric]:
    """Yield those of groups."""
    counts, shards = figures.counts, figures.shards
    for state, number in _partitions(shards):
        name = f"{GROUPS}state_{state}_num_partitions"
        yield GaugeMetricFamily(name, "led here", number)
    yield from _load_times(GROUPS, shards)
    yield from _groups(figures.numbers)
    for name, number, text in (
        ("offset_commit_count", counts.offset_commits, "committed offsets"),
        ("offset_expiration_count", counts.offset_expirations, "offsets that have expired"),
        ("offset_deletion_count", counts.offset_deletions, "offsets that clients have deleted"),
        ("group_completed_rebalance_count", counts.completed_rebalances, "of classic groups"),
        ("consumer_group_rebalance_count", counts.consumer_rebalances, "raised epochs, KIP-848"),
    ):
        yield GaugeMetricFamily(GROUPS + name, f"{text}, since the start", float(number))


def _groups(numbers: GroupNumbers) -> Iterator[Metric]:
    """Groups of both protocols by state, and committed offsets."""
    classic, consumer = numbers.classic, numbers.consumer
    for protocol, by_state in (("classic", classic), ("consumer", consumer)):
        name = f"{GROUPS}protocol_{protocol}_group_count"
        yield GaugeMetricFamily(name, "groups", float(sum(by_state.values())))
    for state, number in consumer.items():
        name = f"{GROUPS}state_{state.lower()}_consumer_group_count"
        yield GaugeMetricFamily(name, "groups of KIP-848", float(number))
    yield GaugeMetricFamily(MANAGER + "numoffsets", "committed offsets", float(numbers.offsets))
    name, text = MANAGER + "numgroups", "classic groups"
    yield GaugeMetricFamily(name, text, float(sum(classic.values())))
    for state_of_classic, number in classic.items():
        yield GaugeMetricFamily(name + state_of_classic.value.lower(), text, float(number))


def transaction_metrics(figures: TransactionFigures) -> Iterator[Metric]:
    """Yield those of transactions."""
    yield from _load_times(TRANSACTIONS, figures.shards)
    for name, number, text in (
        (
            MARKERS + "unknowndestinationqueuesize",
            figures.unknown_destinations,
            "transactions whose markers wait for a leader",
        ),
        (
            MARKERS + "logappendretryqueuesize",
            figures.append_retries,
            "transactions whose completion is written again",
        ),
        (OURS + "al_ids", figures.ids, "transactional ids"),
    ):
        yield GaugeMetricFamily(name, text, float(number))
    partitions = GaugeMetricFamily(
        OURS + "_coordinator_partitions", "of __transaction_state, led here", labels=["state"]
    )
    for state, led in _partitions(figures.shards):
        partitions.add_metric([state], led)
    yield partitions
    transactions = GaugeMetricFamily(
        OURS + "s", "transactions that are not complete", labels=["state"]
    )
    for state_of_id, number in figures.open.items():
        transactions.add_metric([state_of_id.kafka_name], float(number))
    yield transactions


def _partitions(shards: ShardFigures) -> list[tuple[str, float]]:
    """Number of partitions by the name of each state."""
    states = shards.states
    return [(state.value, float(states.get(state, 0))) for state in STATES]


def _load_times(prefix: str, shards: ShardFigures) -> Iterator[Metric]:
    text = "ms to load a partition, of the last minute"
    yield GaugeMetricFamily(prefix + "partition_load_time_avg", text, shards.load_ms_average)
    yield GaugeMetricFamily(prefix + "partition_load_time_max", text, shards.load_ms_max)
