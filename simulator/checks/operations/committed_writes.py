"""Writes of clients in the committed log, record by record; acknowledgements refer to them.

Kept by the ledger, from the committed bytes alone. Records of a metadata transaction count when it
ends, and not at all when it is aborted.
"""

from collections import Counter
from collections.abc import Iterable

from metadata.loader import CommittedBatch
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from metadata.schema import Record


class CommittedWrites:
    """Creations and deletions of topics by id, and how often a config was given each value."""

    def __init__(self) -> None:
        self.created: dict[bytes, str] = {}
        """Topic id -> name."""
        self.partitions: dict[bytes, set[int]] = {}
        """Topic id -> partitions that were created, of topics that are gone too."""
        self.deleted: dict[bytes, str] = {}
        """Topic id -> name."""
        self.configs: Counter[tuple[int, str, str, str | None]] = Counter()
        """(resource type, resource name, config, value) -> records; value None: removed."""
        self._held: list[Record] | None = None
        """Records of the open transaction."""

    def take(self, batches: Iterable[CommittedBatch]) -> None:
        """Enter the records of committed batches, in log order."""
        for batch in batches:
            for record in batch.records:
                self._take(record)

    def _take(self, record: Record) -> None:
        kind = type(record)
        if kind is BeginTransactionRecord:
            self._held = []
        elif kind is AbortTransactionRecord:
            self._held = None
        elif kind is EndTransactionRecord:
            held, self._held = self._held or [], None
            for each in held:
                self._enter(each)
        elif self._held is not None:
            self._held.append(record)
        else:
            self._enter(record)

    def _enter(self, record: Record) -> None:
        if type(record) is TopicRecord:
            self.created[record.topic_id] = record.name
        elif type(record) is PartitionRecord:
            self.partitions.setdefault(record.topic_id, set()).add(record.partition_id)
        elif type(record) is RemoveTopicRecord:
            self.deleted[record.topic_id] = self.created.get(record.topic_id, "?")
        elif type(record) is ConfigRecord:
            key = (record.resource_type, record.resource_name, record.name, record.value)
            self.configs[key] += 1
