"""Topics of the workload txn, and what its nodes are set to."""

from typing import Final

from jepsen.records.requests import TopicPartition

TOPICS: Final = ("txn-a", "txn-b")
PARTITIONS_PER_TOPIC: Final = 4
KEYS: Final = tuple(
    TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS_PER_TOPIC)
)
STATE_TOPIC: Final = "__transaction_state"
NODE_SETTINGS: Final = ("transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",)
"""Transactions that were left open are aborted soon after their time-out."""
