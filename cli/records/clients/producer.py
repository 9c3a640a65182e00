"""Blocking producer: batches by partition, retries, idempotence as Kafka's default, transactions.

One request per leader is in flight. A batch is acknowledged, or given up, before the next batch
of its partition is sent, so that sequences never have gaps. Only records of topics with ids are
produced (Produce 13, Kafka 4.1 and later).
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from cli.connect import ClusterError
from cli.kafka_errors import message_of
from cli.records.clients.clock import Backoff, Clock
from cli.records.clients.partitioner import Partitioner
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import (
    LEADER_NOT_AVAILABLE,
    NO_LEADER,
    Partition,
    Topic,
    described_topics,
)
from cli.records.clients.transactions import Transactions
from wire.batches.batch import RecordView
from wire.batches.compression import Codec
from wire.batches.produced_batch import produced_batch
from wire.messages.record_requests import init_producer_id_request, produce_request
from wire.types import Offset, Rng

PRODUCE: Final = 0
INIT_PRODUCER_ID: Final = 22
VERSION_MIN: Final = 13
ALL: Final = -1
INT32_MAX: Final = 2**31 - 1
NETWORK_EXCEPTION: Final = 13
INVALID_TOPIC: Final = 17
NOT_AUTHORIZED: Final = 29
DUPLICATE_SEQUENCE: Final = 46
UNSUPPORTED_VERSION: Final = 35
UNKNOWN_PRODUCER_ID: Final = 59
_REQUEST_TIMED_OUT: Final = 7
RETRIABLE: Final = frozenset({2, 3, 5, 6, _REQUEST_TIMED_OUT, NETWORK_EXCEPTION, 14, 15, 16, 19, 20,
                              51, 56, 74, 75, 100, 103})  # fmt: skip
_UNCERTAIN: Final = frozenset({_REQUEST_TIMED_OUT, NETWORK_EXCEPTION, 20, 45, 47, 56, 59})
"""Errors after which the batch may be in the log, or the broker knows other sequences."""
_EPOCH_MAX: Final = 2**15 - 1
_BATCH_HEADER_BYTES: Final = 61
_RECORD_BYTES: Final = 7
"""Of a short record beside key and value: lengths, deltas, attributes, count of headers."""


class SendError(Exception):
    """A record that was not acknowledged; the text is Kafka's message."""


class Outgoing(msgspec.Struct, frozen=True):
    """A record to send; without a time stamp that of the call, without a partition by its key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class Delivered(msgspec.Struct, frozen=True):
    """Place of an acknowledged record; the offset is -1 with acks 0 and of duplicates."""

    partition: Partition
    offset: int
    timestamp_ms: int


Callback = Callable[[Outgoing, Delivered | SendError], None]


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Named as Kafka's producer configs; defaults are those of Kafka 4."""

    acks: int = ALL
    codec: Codec = Codec.NONE
    batch_size_bytes: int = 16 * 1024
    linger_ms: int = 5
    retries: int = INT32_MAX
    retry_backoff_ms: int = 100
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    max_request_bytes: int = 1024 * 1024
    is_idempotent: bool = True


class _Pending(msgspec.Struct):
    """A batch that collects records, or waits for its turn."""

    partition: Partition
    created_ms: int
    records: list[tuple[Outgoing, int, Callback]] = msgspec.field(default_factory=list)
    """Record, its time stamp, who wants to know."""
    size_bytes: int = _BATCH_HEADER_BYTES
    attempts: int = 0
    encoded: bytes = b""


class Producer:
    """Sends records to the leaders of their partitions."""

    def __init__(
        self,
        api: RecordsApi,
        config: ProducerConfig,
        clock: Clock,
        rng: Rng,
        transactions: Transactions | None = None,
    ) -> None:
        """A producer without a connection of its own; `api` stays the caller's.

        With `transactions` every record is of one, which begins with the first after a commit.
        """
        assert transactions is None or config.is_idempotent, "transactions need sequences"
        self._api = api
        self._config = config
        self._clock = clock
        self._topics: dict[str, Topic] = {}
        self._partitioner = Partitioner(config.batch_size_bytes, rng)
        self._queues: dict[Partition, deque[_Pending]] = {}
        self._transactions = transactions
        self._producer_id = -1 if transactions is None else transactions.producer_id
        self._producer_epoch = -1 if transactions is None else transactions.producer_epoch
        self._sequences: dict[Partition, int] = {}

    def send(self, record: Outgoing, on_end: Callback) -> None:
        """Queue a record; sends batches that are full or have waited for `linger_ms`.

        `on_end` is called once, during this call or a later one; it sends nothing itself.
        """
        size_bytes = _size_bytes(record)
        limit = self._config.max_request_bytes
        if size_bytes + _BATCH_HEADER_BYTES > limit:
            whole = size_bytes + _BATCH_HEADER_BYTES
            reason = f"The message is {whole} bytes when serialized which is larger than {limit}, "
            self._refuse(record, SendError(reason + _TOO_LARGE), on_end)
            return
        try:
            topic = self._topic(record.topic)
            partition = self._partition_of(topic, record, size_bytes)
        except SendError as error:
            self._refuse(record, error, on_end)
            return
        timestamp_ms = self._clock.wall_ms() if record.timestamp_ms is None else record.timestamp_ms
        queue = self._queues.setdefault(partition, deque())
        is_full = not queue or queue[-1].size_bytes + size_bytes > self._config.batch_size_bytes
        if is_full:
            queue.append(_Pending(partition, self._clock.now_ms()))
        queue[-1].records.append((record, timestamp_ms, on_end))
        queue[-1].size_bytes += size_bytes
        self.poll()

    def _refuse(self, record: Outgoing, error: SendError, on_end: Callback) -> None:
        """End a record that cannot be queued, and with it the transaction."""
        if self._transactions is not None:
            self._transactions.failed(str(error))
        on_end(record, error)

    def poll(self) -> None:
        """Send what is full or has waited for long enough."""
        self._send_all(self._is_ready)

    def next_ms(self) -> int | None:
        """The time of the clock from which `poll` sends something; None while nothing is queued."""
        first = min((q[0].created_ms for q in self._queues.values() if q), default=None)
        return None if first is None else first + self._config.linger_ms

    def flush(self) -> None:
        """Send everything and wait for the end of each record."""
        self._send_all(lambda _queue: True)

    def commit(self) -> None:
        """Send everything and commit its transaction; the next one has another epoch.

        Raises:
            ClusterError: a record failed, or the coordinator refuses.
        """
        assert self._transactions is not None, "a producer of transactions"
        self.flush()
        self._transactions.commit()
        self._producer_id = self._transactions.producer_id
        self._producer_epoch = self._transactions.producer_epoch
        self._sequences.clear()

    def _is_ready(self, queue: deque[_Pending]) -> bool:
        waited_ms = self._clock.now_ms() - queue[0].created_ms
        is_full = queue[0].size_bytes >= self._config.batch_size_bytes
        return len(queue) > 1 or is_full or waited_ms >= self._config.linger_ms

    # -- topics ------------------------------------------------------------------------------

    def _topic(self, name: str) -> Topic:
        """The topic with its partitions; waits until it exists.

        Raises:
            SendError: it does not after `max_block_ms`, or may not be used.
        """
        known = self._topics.get(name)
        if known is not None:
            return known
        limit_ms = self._clock.now_ms() + self._config.max_block_ms
        backoff = Backoff(self._clock, self._config.retry_backoff_ms)
        while True:
            topic = self._asked(name)
            if topic is not None and topic.error_code == INVALID_TOPIC:
                raise SendError(f"Invalid topics: [{name}]")
            if topic is not None and topic.error_code == NOT_AUTHORIZED:
                raise SendError(f"Not authorized to access topics: [{name}]")
            if topic is not None and not topic.error_code and topic.leaders:
                self._topics[name] = topic
                return topic
            if not backoff.wait(limit_ms):
                waited = self._config.max_block_ms
                raise SendError(f"Topic {name} not present in metadata after {waited} ms.")

    def _asked(self, name: str) -> Topic | None:
        try:
            return described_topics(self._api, [name], may_create=True).get(name)
        except ClusterError:
            return None

    def _partition_of(self, topic: Topic, record: Outgoing, size_bytes: int) -> Partition:
        if record.partition is None:
            number = self._partitioner.partition(topic, record.key, size_bytes)
        elif record.partition in topic.leaders:
            number = record.partition
        else:
            raise SendError(
                f"Partition {record.partition} of topic {topic.name} with partition count "
                f"{len(topic.leaders)} is not present in metadata after "
                f"{self._config.max_block_ms} ms."
            )
        return Partition(topic.name, number)

    # -- sending -----------------------------------------------------------------------------

    def _send_all(self, is_due: Callable[[deque[_Pending]], bool]) -> None:
        while due := [queue[0] for queue in self._queues.values() if queue and is_due(queue)]:
            failed = self._send_round(due)
            if failed:
                self._retry(failed)

    def _send_round(self, due: Sequence[_Pending]) -> list[tuple[_Pending, int, str]]:
        """Send the first batches of their partitions; those to try again, with their error."""
        if self._config.is_idempotent and self._producer_id < 0:
            reason = self._take_producer_id()
            if reason is not None:
                return [(batch, NETWORK_EXCEPTION, reason) for batch in due]
        again: list[tuple[_Pending, int, str]] = []
        by_leader: dict[int, list[_Pending]] = {}
        for batch in due:
            topic, number = batch.partition
            leader = self._topics[topic].leaders.get(number, NO_LEADER)
            by_leader.setdefault(leader, []).append(batch)
        for leader, batches in by_leader.items():
            if leader == NO_LEADER:
                reason = message_of(LEADER_NOT_AVAILABLE)
                again += [(batch, LEADER_NOT_AVAILABLE, reason) for batch in batches]
                continue
            for part in self._requests(batches):
                again += self._send_request(leader, part)
        return again

    def _requests(self, batches: Sequence[_Pending]) -> Iterator[list[_Pending]]:
        """The batches in portions that fit into a request."""
        part: list[_Pending] = []
        size_bytes = 0
        for batch in batches:
            if not batch.encoded:
                batch.encoded = self._encoded(batch)
            if part and size_bytes + len(batch.encoded) > self._config.max_request_bytes:
                yield part
                part, size_bytes = [], 0
            part.append(batch)
            size_bytes += len(batch.encoded)
        yield part

    def _send_request(
        self, leader: int, batches: list[_Pending]
    ) -> list[tuple[_Pending, int, str]]:
        try:
            version = self._api.version_of(PRODUCE, leader)
        except ClusterError as error:  # nothing was sent: as in Kafka no attempt, and time decides
            return [(batch, NETWORK_EXCEPTION, str(error)) for batch in batches]
        if version < VERSION_MIN:
            for batch in batches:
                self._fail(batch, UNSUPPORTED_VERSION, _TOO_OLD, {})
            return []
        request = self._request(batches)
        for batch in batches:
            batch.attempts += 1
        try:
            if not self._config.acks:
                self._api.send(PRODUCE, request, leader)
                for batch in batches:
                    self._end(batch, -1, -1)
                return []
            answer = self._api.call(PRODUCE, request, leader)
        except ClusterError as error:
            return [(batch, NETWORK_EXCEPTION, str(error)) for batch in batches]
        return self._judge(batches, answer)

    def _judge(self, batches: list[_Pending], answer: Any) -> list[tuple[_Pending, int, str]]:
        names = {topic.id: topic.name for topic in self._topics.values()}
        rows = {
            Partition(names.get(topic.topic_id, ""), int(row.index)): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        again = []
        for batch in batches:
            row = rows.get(batch.partition)
            if row is None:
                again.append((batch, NETWORK_EXCEPTION, message_of(NETWORK_EXCEPTION)))
                continue
            code = int(row.error_code)
            reason = message_of(code, row.error_message)
            if code in (0, DUPLICATE_SEQUENCE):
                at = row.log_append_time
                append_time_ms = -1 if at is None else round(at.timestamp() * 1000)
                self._end(batch, -1 if code else int(row.base_offset), append_time_ms)
            elif code in RETRIABLE or (code == UNKNOWN_PRODUCER_ID and not self._transactions):
                again.append((batch, code, reason))
            else:
                self._fail(batch, code, reason, _reasons(row))
        return again

    def _retry(self, failed: list[tuple[_Pending, int, str]]) -> None:
        """Give up what has no time or attempts left, then wait and look for new leaders."""
        now_ms = self._clock.now_ms()
        attempts = 0
        for batch, code, reason in failed:
            is_late = now_ms - batch.created_ms >= self._config.delivery_timeout_ms
            if batch.attempts > self._config.retries or is_late:
                self._fail(batch, code, reason, {})
                continue
            if code == UNKNOWN_PRODUCER_ID:
                self._bump_epoch()
            attempts = max(attempts, batch.attempts, 1)
        if not attempts:
            return
        Backoff(self._clock, self._config.retry_backoff_ms, attempts - 1).wait(None)
        try:
            for name, topic in described_topics(self._api, list(self._topics)).items():
                if not topic.error_code and topic.leaders:
                    self._topics[name] = topic
        except ClusterError:
            return

    # -- batches -----------------------------------------------------------------------------

    def _encoded(self, batch: _Pending) -> bytes:
        sequence = self._sequences.get(batch.partition, 0) if self._config.is_idempotent else -1
        views = [
            RecordView(Offset(delta), timestamp_ms, record.key, record.value, record.headers)
            for delta, (record, timestamp_ms, _) in enumerate(batch.records)
        ]
        return produced_batch(
            views,
            self._config.codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
            is_transactional=self._transactions is not None,
        )

    def _request(self, batches: list[_Pending]) -> Any:
        content: dict[UUID, dict[int, bytes]] = {}
        for batch in batches:
            of_topic = content.setdefault(self._topics[batch.partition.topic].id, {})
            of_topic[batch.partition.number] = batch.encoded
        timeout = timedelta(milliseconds=self._config.request_timeout_ms)
        of_id = None if self._transactions is None else self._transactions.transactional_id
        return produce_request(content, self._config.acks, timeout, of_id)

    def _end(self, batch: _Pending, base_offset: int, append_time_ms: int) -> None:
        self._queues[batch.partition].popleft()
        if self._config.is_idempotent:
            sequence = self._sequences.get(batch.partition, 0) + len(batch.records)
            self._sequences[batch.partition] = sequence & INT32_MAX
        if self._transactions is not None:
            self._transactions.delivered()
        for index, (record, timestamp_ms, on_end) in enumerate(batch.records):
            offset = -1 if base_offset < 0 else base_offset + index
            stamp = timestamp_ms if append_time_ms < 0 else append_time_ms
            on_end(record, Delivered(batch.partition, offset, stamp))

    def _fail(self, batch: _Pending, code: int, reason: str, reasons: dict[int, str]) -> None:
        self._queues[batch.partition].popleft()
        if self._transactions is not None:
            self._transactions.failed(reason)
        elif self._config.is_idempotent and code in _UNCERTAIN and self._producer_id >= 0:
            self._bump_epoch()
        for index, (record, _, on_end) in enumerate(batch.records):
            text = reasons.get(index, reason)
            if reasons and index not in reasons:
                text = _PART_OF_BATCH
            on_end(record, SendError(text))

    # -- idempotence -------------------------------------------------------------------------

    def _take_producer_id(self) -> str | None:
        """Get an id; the reason if there is none yet."""
        request = init_producer_id_request(timedelta(milliseconds=INT32_MAX))
        try:
            answer = self._api.call(INIT_PRODUCER_ID, request)
        except ClusterError as error:
            return str(error)
        if int(answer.error_code):
            return message_of(int(answer.error_code))
        self._producer_id = int(answer.producer_id)
        self._producer_epoch = int(answer.producer_epoch)
        return None

    def _bump_epoch(self) -> None:
        """Begin with new sequences; batches that were encoded with the old ones are made again."""
        self._sequences.clear()
        self._producer_epoch += 1
        if self._producer_epoch > _EPOCH_MAX:
            self._producer_id = self._producer_epoch = -1
        for queue in self._queues.values():
            for batch in queue:
                batch.encoded = b""


_TOO_LARGE: Final = "which is the value of the max.request.size configuration."
_TOO_OLD: Final = "the broker does not know Produce 13, which Kafka has from 4.1 on"
_PART_OF_BATCH: Final = (
    "Failed to append record because it was part of a batch which had one more more invalid records"
)


def _reasons(row: Any) -> dict[int, str]:
    """Index in the batch -> why this record is refused."""
    return {
        int(error.batch_index): error.batch_index_error_message
        or message_of(int(row.error_code), row.error_message)
        for error in row.record_errors
    }


def _size_bytes(record: Outgoing) -> int:
    """Bytes of a record in a batch, to a few."""
    headers = sum(len(name.encode()) + len(value or b"") + 4 for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
