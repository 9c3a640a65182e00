"""Producers and consumers: raw Kafka protocol, retried until it works, as real clients do."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec

from simulator.checks.record_logs import whole_batches
from simulator.checks.records import RecordChecks
from simulator.checks.violation import Violation
from simulator.cluster.machine import WALL_MS
from simulator.cluster.network import Network, Pipe
from simulator.cluster.scheduler import Scheduler
from simulator.records import requests
from simulator.records.client_link import Answered, ClientLink
from simulator.records.requests import Producer
from wire.api_keys import FETCH, INIT_PRODUCER_ID, METADATA, PRODUCE
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode
from wire.messages.record_requests import init_producer_id_request, metadata_request

REQUEST_US: Final = 4_000_000
RETRY_US: Final = 100_000
RETRIED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.leader_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch,
    }
)
"""Errors after which a client asks for metadata and tries again."""
LOST_STATE: Final = frozenset(
    {ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id}
)
"""Errors that an idempotent producer gets where records before were lost."""


class Topic(msgspec.Struct, frozen=True):
    """The topic that clients use."""

    name: str
    partitions: int


class Cluster(msgspec.Struct, frozen=True):
    """The cluster as its clients reach it."""

    topic: Topic
    nodes: tuple[int, ...]
    rng: Random
    network: Network
    scheduler: Scheduler
    connect: Callable[[ClientLink], Pipe]
    checks: RecordChecks


class PartitionClient:
    """A client of one partition: finds its leader through any node, and asks that."""

    def __init__(self, cluster: Cluster, host: int, partition: int) -> None:
        self.cluster = cluster
        self.checks = cluster.checks
        self.rng = cluster.rng
        self.scheduler = cluster.scheduler
        self.host = host
        self.partition = partition
        self.topic_id: UUID | None = None
        self.is_stopped = False
        self.leader_epoch = -1
        self.asked = self.answered = 0
        """Requests, and those of them with a response."""
        self._leader: int | None = None
        self._link: ClientLink | None = None

    @property
    def key(self) -> tuple[bytes, int]:
        """The partition, by the id of its topic."""
        assert self.topic_id is not None, "it has a leader"
        return self.topic_id.bytes, self.partition

    def ask_leader(self, api_key: int, body: Any, answered: Answered) -> None:
        """Send a request to the leader that is known."""
        assert self._leader is not None, "it was found"
        self._ask(self._leader, api_key, body, answered)

    def ask_any(self, api_key: int, body: Any, answered: Answered) -> None:
        """Send a request to a node drawn."""
        self._ask(self.rng.choice(self.cluster.nodes), api_key, body, answered)

    def _ask(self, target: int, api_key: int, body: Any, answered: Answered) -> None:
        link = self._link
        if link is None or link.is_closed or link.target != target:
            if link is not None:
                link.close()
            cluster = self.cluster
            link = ClientLink(
                self.host, target, cluster.network, cluster.scheduler, cluster.connect
            )
            self._link = link
        self.asked += 1

        def counted(response: Any) -> None:
            self.answered += response is not None
            answered(response)

        link.request(api_key, body, counted, REQUEST_US)

    def find_leader(self, found: Callable[[], None]) -> None:
        """Ask nodes for the leader until one knows it, and none of an older epoch."""

        def answered(body: Any) -> None:
            if body is not None and body.topics[0].error_code is ErrorCode.none:
                topic = body.topics[0]
                for row in topic.partitions:
                    is_newer = row.leader_epoch >= self.leader_epoch and row.leader_id >= 0
                    if row.partition_index == self.partition and is_newer:
                        self.topic_id, self._leader = topic.topic_id, row.leader_id
                        self.leader_epoch = row.leader_epoch
                        found()
                        return
            self.later(lambda: self.find_leader(found))

        topic = self.cluster.topic
        self.ask_any(METADATA, metadata_request((topic.name,)), answered)

    def later(self, act: Callable[[], None], mean_us: int = RETRY_US) -> None:
        """Do something after a pause."""
        delay_us = 1_000 + int(self.rng.expovariate(1.0) * mean_us)
        self.scheduler.after(delay_us, act)


class _Batch(msgspec.Struct):
    """A batch that is not acknowledged yet."""

    values: tuple[bytes, ...]
    sequence: int
    records: bytes
    sent_us: int = 0


class RecordProducer(PartitionClient):
    """Sends unique values to one partition with acks=all; each batch again until it is answered.

    An idempotent one has several batches under way; again it sends the first of them alone, then
    the others (as Java's). The others send one after the other, and may store it twice.

    Args:
        cluster: to which it sends.
        host: its number.
        partition: to which it sends.
        ahead: batches that it sends before the first is answered; 0: one, and it is not idempotent.
        pause_us: mean time between two batches.
    """

    def __init__(
        self, cluster: Cluster, host: int, partition: int, *, ahead: int, pause_us: int
    ) -> None:
        super().__init__(cluster, host, partition)
        self._ahead = ahead
        self._is_idempotent = ahead > 0
        self._pause_us = pause_us
        self._identity: Producer | None = None
        self._number = 0
        self._sequence = 0
        self._attempt = 0
        self._unanswered: deque[_Batch] = deque()
        self._unsent: deque[_Batch] = deque()
        """Those of them that wait for the first one, which is sent again."""
        self._is_known = False
        """True if the leader has a batch of this producer id: else it takes any as the first."""
        self.acknowledged = 0

    @property
    def is_idle(self) -> bool:
        """True if all that it sent is acknowledged."""
        return not self._unanswered

    def start(self) -> None:
        """Find the leader, get an id, and send."""
        if self._is_idempotent and self._identity is None:
            body = init_producer_id_request(requests.TIMEOUT)
            self.ask_any(INIT_PRODUCER_ID, body, self._identified)
        else:
            self.find_leader(self._send_all)

    def _identified(self, body: Any) -> None:
        if body is None or body.error_code is not ErrorCode.none:
            self.later(self.start)
            return
        self._identity = Producer(body.producer_id, body.producer_epoch)
        self._sequence, self._is_known = 0, False
        again, self._unanswered = self._unanswered, deque()
        for each in again:
            self._add(each.values)
        self.start()

    def _add(self, values: tuple[bytes, ...]) -> _Batch:
        wall_ms = WALL_MS + self.scheduler.now_us // 1_000
        records = requests.batch(values, wall_ms, self._identity, self._sequence)
        made = _Batch(values, self._sequence, records)
        self._sequence += len(values)
        self._unanswered.append(made)
        return made

    def _send_all(self) -> None:
        """Send the first that is not answered; after it the others, then new batches."""
        self._attempt += 1
        self._unsent = deque(self._unanswered)
        if self._unsent:
            self._send(self._unsent.popleft())
        self._send_next(self._attempt)

    def _send_next(self, attempt: int) -> None:
        if attempt != self._attempt or self.is_stopped:
            return
        limit = self._ahead if self._is_known else 1
        if len(self._unanswered) < max(1, limit) and not self._unsent:
            count = self.rng.randrange(1, 4)
            values = tuple(b"%d:%d" % (self.host, self._number + n) for n in range(count))
            self._number += count
            self._send(self._add(values))
        self.later(lambda: self._send_next(attempt), self._pause_us)

    def _send(self, batch: _Batch) -> None:
        attempt = self._attempt
        sent_us = self.scheduler.now_us
        assert self.topic_id is not None, "a leader is known"
        body = requests.produce(self.topic_id, self.partition, batch.records, -1)

        def answered(response: Any) -> None:
            if attempt == self._attempt:
                self._on_answer(batch, response, sent_us)

        self.ask_leader(PRODUCE, body, answered)

    def _on_answer(self, batch: _Batch, response: Any, sent_us: int) -> None:
        code, row = ErrorCode.request_timed_out, None
        if response is not None:
            row = response.responses[0].partition_responses[0]
            code = row.error_code
        if code is ErrorCode.none:
            assert row is not None
            if batch is not self._unanswered[0]:
                raise Violation("D5", f"producer {self.host} is answered out of order")
            self._unanswered.popleft()
            self._is_known = True
            while self._unsent:
                self._send(self._unsent.popleft())
            self.acknowledged += len(batch.values)
            self.checks.acknowledged(self.key, row.base_offset, batch.values, sent_us)
        elif code in RETRIED:
            self._again()
        elif code in LOST_STATE and self._may_lack_state():
            self.checks.note_repeating(self.host)
            self._identity = None
            self._again()
        else:
            text = f"producer {self.host}, partition {self.partition}: {code.name}"
            raise Violation("D5", text)

    def _may_lack_state(self) -> bool:
        """True if the leader may know less than the last five batches.

        A snapshot of producers has the last batch alone: who starts with it, as after a clean
        shutdown, takes only that one for a duplicate. Kafka's producer fails the batch then, and
        goes on in another epoch.
        """
        return self._ahead > 1 or self.checks.may_have_lost(self.key)

    def _again(self) -> None:
        self._attempt += 1
        self.later(self.start)


class RecordConsumer(PartitionClient):
    """Reads one partition from its beginning, over and over."""

    def __init__(self, cluster: Cluster, host: int, partition: int) -> None:
        super().__init__(cluster, host, partition)
        self.position = 0
        self.is_waiting = False
        """True while a fetch of it is open."""

    def start(self) -> None:
        """Find the leader and read."""
        if not self.is_stopped:
            self.find_leader(self._fetch)

    def _fetch(self) -> None:
        if self.is_stopped:
            return
        assert self.topic_id is not None, "a leader is known"
        sent_us = self.scheduler.now_us
        self.is_waiting = True

        def answered(response: Any) -> None:
            self.is_waiting = False
            self._on_answer(response, sent_us)

        body = requests.fetch(self.topic_id, self.partition, self.position, self.leader_epoch)
        self.ask_leader(FETCH, body, answered)

    def _on_answer(self, response: Any, sent_us: int) -> None:
        if response is None or response.error_code is not ErrorCode.none or not response.responses:
            self.later(self.start)
            return
        row = response.responses[0].partitions[0]
        if row.error_code is ErrorCode.offset_out_of_range:
            self.checks.out_of_range(self.key, self.position, sent_us)
            self.position = 0
        elif row.error_code is not ErrorCode.none:
            if row.error_code not in RETRIED:
                raise Violation("D2", f"consumer {self.host}: {row.error_code.name}")
            self.later(self.start)
            return
        else:
            self._read(row, sent_us)
        if self.rng.random() < 0.02:
            self.position = 0  # from the beginning again
        self.later(self._fetch, 20_000)

    def _read(self, row: Any, sent_us: int) -> None:
        for batch in iterate_batches(whole_batches(bytes(row.records or b""))):
            header = batch.header
            if header.end_offset > row.high_watermark:
                text = f"{header.end_offset} is above the high watermark {row.high_watermark}"
                raise Violation("D2", f"consumer {self.host} of partition {self.partition}: {text}")
            if not batch.crc_is_valid:
                raise Violation("D3", f"consumer {self.host}: CRC of {header.base_offset} is wrong")
            values = tuple(record.value or b"" for record in batch.records())
            self.checks.consumed(self.key, header.base_offset, values, sent_us)
            self.position = max(self.position, header.end_offset)
