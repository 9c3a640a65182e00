"""Counts of what a broker's replicas did since its start: Kafka's BrokerTopicMetrics and ISR rates.

Of all topics together, and of each topic that had something to count.

apache/kafka: storage/.../log/metrics/BrokerTopicMetrics.java, core/.../server/ReplicaManager.scala
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from metadata.image import Image
from replication.leader.appending import WITHOUT_LOG_START, AppendResult
from replication.leader.isr import Outcome, PartitionState, PendingExpandIsr
from storage.logs.log_validator import WITHOUT_KEY
from wire.errors import ErrorCode
from wire.types import NodeId, TopicId, TopicIdPartition

_NOT_FAILED: Final = WITHOUT_LOG_START | {ErrorCode.none}
"""Results that are expected of a broker; the others are failures of a produce request."""


class Wanted(Protocol):
    """A partition of a Fetch."""

    @property
    def key(self) -> TopicIdPartition:
        """Of the partition."""


class Counters(msgspec.Struct):
    """Counts, which the step thread raises; other threads get a copy."""

    messages_in: int = 0
    bytes_in: int = 0
    """Of batches that were appended for clients."""
    bytes_out: int = 0
    """Of records in answers to consumers."""
    replication_bytes_in: int = 0
    """Of records that leaders sent."""
    replication_bytes_out: int = 0
    """Of records in answers to followers."""
    produce_requests: int = 0
    """Appends, one for each partition of a request."""
    fetch_requests: int = 0
    """Reads, one for each partition of a request; not again when it has waited."""
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    failed_isr_updates: int = 0
    bytes_rejected: int = 0
    """Of batches larger than `max.message.bytes`."""
    no_key_records: int = 0
    """Records without a key that a compacted topic refused."""
    invalid_crcs: int = 0
    """Batches with another checksum."""
    invalid_offsets_or_sequences: int = 0
    """Batches whose header contradicts itself, or is not one of a client's."""
    expired_produces: int = 0
    """Partitions that a Produce awaited in vain."""
    expired_consumer_fetches: int = 0
    """Fetches whose wait ended before there was enough to read."""
    expired_follower_fetches: int = 0
    reassignment_bytes_in: int = 0
    """Of `replication_bytes_in`, those of replicas that a reassignment adds here."""
    reassignment_bytes_out: int = 0
    """Of `replication_bytes_out`, those to replicas that a reassignment adds."""
    topics: dict[TopicId, "Counters"] = msgspec.field(default_factory=dict)
    """By topic: appends of clients, reads, and records sent to consumers."""

    def of(self, topic_id: TopicId) -> "Counters":
        """The counts of a topic."""
        found = self.topics.get(topic_id)
        if found is None:
            found = self.topics[topic_id] = Counters()
        return found

    def forget(self, topic_ids: Iterable[TopicId]) -> None:
        """Drop the counts of topics that are deleted."""
        for topic_id in topic_ids:
            self.topics.pop(topic_id, None)

    def of_all(self) -> "Counters":
        """A copy of the counts of all topics together."""
        return replace(self, topics={})

    def read(self, wanted: Sequence[Wanted]) -> None:
        """Count the reads of a Fetch."""
        self.fetch_requests += len(wanted)
        last_id, found = None, self
        for each in wanted:
            topic_id = each.key[0]
            if topic_id != last_id:
                last_id, found = topic_id, self.of(topic_id)
            found.fetch_requests += 1

    def passed_by(self, topic_id: TopicId, count: int) -> None:
        """Count the requests that named a partition by their session, and had nothing of it."""
        self.fetch_requests += count
        self.of(topic_id).fetch_requests += count

    def failed_read(self, topic_id: TopicId) -> None:
        """Count a read of a damaged batch."""
        self.failed_fetch_requests += 1
        self.of(topic_id).failed_fetch_requests += 1

    def appended(self, result: AppendResult, size_bytes: int, topic_id: TopicId) -> None:
        """Count the append of a batch, with its outcome."""
        self._appended(result, size_bytes)
        self.of(topic_id)._appended(result, size_bytes)  # noqa: SLF001 - of the same class

    def _appended(self, result: AppendResult, size_bytes: int) -> None:
        self.produce_requests += 1
        if result.code is ErrorCode.none:
            self.messages_in += result.end_offset - result.base_offset
            self.bytes_in += size_bytes
            return
        if result.code not in _NOT_FAILED:
            self.failed_produce_requests += 1
        self._refused(result, size_bytes)

    def _refused(self, result: AppendResult, size_bytes: int) -> None:
        """Count what is wrong with a batch."""
        if result.code is ErrorCode.message_too_large:
            self.bytes_rejected += size_bytes
        elif result.code is ErrorCode.corrupt_message:
            self.invalid_crcs += 1
        elif result.code is ErrorCode.invalid_record:
            texts = [each.message for each in result.record_errors]
            self.no_key_records += sum(text.startswith(WITHOUT_KEY) for text in texts)
            self.invalid_offsets_or_sequences += not texts

    def expired(self, *, is_follower: bool) -> None:
        """Count a Fetch whose wait has ended."""
        if is_follower:
            self.expired_follower_fetches += 1
        else:
            self.expired_consumer_fetches += 1

    def sent(self, records_bytes: int, topic_id: TopicId) -> None:
        """Count records of an answer to a consumer."""
        self.bytes_out += records_bytes
        self.of(topic_id).bytes_out += records_bytes

    def sent_to_replica(self, records_bytes: int, *, is_added: bool) -> None:
        """Count records of an answer to a follower, maybe one that a reassignment adds."""
        self.replication_bytes_out += records_bytes
        if is_added:
            self.reassignment_bytes_out += records_bytes

    def replicated(self, records_bytes: int, *, is_added: bool) -> None:
        """Count records of a leader, maybe for a replica that a reassignment adds here."""
        self.replication_bytes_in += records_bytes
        if is_added:
            self.reassignment_bytes_in += records_bytes

    def proposed(self, before: PartitionState, outcome: Outcome) -> None:
        """Count the answer to a proposal that was pending in a state."""
        if outcome is Outcome.IGNORED:
            return
        if outcome is not Outcome.ADOPTED:
            self.failed_isr_updates += 1
        elif isinstance(before, PendingExpandIsr):
            self.isr_expands += 1
        else:
            self.isr_shrinks += 1


def is_added(image: Image, key: TopicIdPartition, node_id: NodeId) -> bool:
    """True if a reassignment adds a replica of this broker to a partition."""
    partition = image.partition(*key)
    return partition is not None and node_id in partition.adding_replicas
