"""Producers of all kinds: idempotent or not, with any acks and codec."""

from collections import deque
from typing import Any, Final

import msgspec
from typing_extensions import override

from simulator.checks.violation import Violation
from simulator.cluster.machine import WALL_MS
from simulator.records import requests
from simulator.records.clients import RETRIED, Cluster, PartitionClient
from simulator.records.requests import Producer
from wire.api_keys import INIT_PRODUCER_ID, PRODUCE
from wire.batches.compression import Codec
from wire.errors import ErrorCode
from wire.messages.record_requests import init_producer_id_request

ALL_IN_SYNC: Final = -1
LOST_STATE: Final = frozenset(
    {ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id}
)
"""Errors that an idempotent producer gets where records before were lost."""
NOT_ENOUGH: Final = frozenset(
    {ErrorCode.not_enough_replicas, ErrorCode.not_enough_replicas_after_append}
)


class ProducerKind(msgspec.Struct, frozen=True):
    """Way in which a producer sends."""

    ahead: int
    """Batches that it sends before the first is answered; 0: one, and it is not idempotent."""
    acks: int = ALL_IN_SYNC
    codec: Codec = Codec.NONE
    pause_us: int = 150_000
    """Mean time between two batches."""


class _Batch(msgspec.Struct):
    """A batch that is not acknowledged yet."""

    values: tuple[bytes, ...]
    sequence: int
    records: bytes
    wall_ms: int


class RecordProducer(PartitionClient):
    """Sends unique values to one partition with acks=all; each batch again until it is answered.

    An idempotent one has several batches under way; again it sends the first of them alone, then
    the others (as Java's). The others send one after the other, and may store it twice.

    Args:
        cluster: to which it sends.
        host: its number.
        partition: to which it sends.
        kind: with acks=all.
    """

    def __init__(self, cluster: Cluster, host: int, partition: int, kind: ProducerKind) -> None:
        super().__init__(cluster, host, partition)
        self._kind = kind
        self._ahead = kind.ahead
        self._is_idempotent = kind.ahead > 0
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
            self.ask_any(
                INIT_PRODUCER_ID, init_producer_id_request(requests.TIMEOUT), self._identified
            )
        else:
            self.find_leader(self._send_all)

    @override
    def topic_changed(self) -> None:
        """Begin anew with another id: the new topic has nothing of this producer."""
        if self._is_idempotent:
            self._identity = None

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
        records = requests.batch(values, wall_ms, self._identity, self._sequence, self._kind.codec)
        made = _Batch(values, self._sequence, records, wall_ms)
        self._sequence += len(values)
        self._unanswered.append(made)
        return made

    def _send_all(self) -> None:
        """Send the first that is not answered; after it the others, then new batches."""
        if self._is_idempotent and self._identity is None:
            self.start()
            return
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
            self._send(self._add(self._new_values()))
        self.later(lambda: self._send_next(attempt), self._kind.pause_us)

    def _new_values(self) -> tuple[bytes, ...]:
        count = self.rng.randrange(1, 4)
        values = tuple(b"%d:%d" % (self.host, self._number + n) for n in range(count))
        self._number += count
        return values

    def _send(self, batch: _Batch) -> None:
        attempt = self._attempt
        sent_us = self.scheduler.now_us
        assert self.topic_id is not None, "a leader is known"
        body = requests.produce(self.topic_id, self.partition, batch.records, ALL_IN_SYNC)

        def answered(response: Any) -> None:
            if attempt == self._attempt:
                self._on_answer(batch, response, sent_us)

        self.ask_leader(PRODUCE, body, answered)

    def _on_answer(self, batch: _Batch, response: Any, sent_us: int) -> None:
        code, row = outcome_of(response)
        if code is ErrorCode.none:
            if batch is not self._unanswered[0]:
                raise Violation("D5", f"producer {self.host} is answered out of order")
            self._unanswered.popleft()
            self._is_known = True
            while self._unsent:
                self._send(self._unsent.popleft())
            self.acknowledged += len(batch.values)
            self.checks.hit(f"codec_{self._kind.codec.name.lower()}")
            self.checks.acknowledged(
                self.key, row.base_offset, batch.values, sent_us, self.leader_epoch
            )
        elif code in RETRIED:
            if code in NOT_ENOUGH:
                self.checks.hit("not_enough_replicas")
            self._again()
        elif code in LOST_STATE and self._may_lack_state():
            self.checks.hit("producer_lost_its_state")
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


class HastyProducer(PartitionClient):
    """Sends each value once, with acks 0 or 1, and never again: it is stored at most once.

    With acks=1 what is acknowledged is in the log of the leader as long as that leads its epoch.

    Args:
        cluster: to which it sends.
        host: its number.
        partition: to which it sends.
        kind: with acks 0 or 1.
    """

    def __init__(self, cluster: Cluster, host: int, partition: int, kind: ProducerKind) -> None:
        super().__init__(cluster, host, partition)
        self._kind = kind
        self._number = 0
        self.acknowledged = 0
        self.is_idle = True
        """True if no answer is open."""
        self.checks.note_hasty(host)

    def start(self) -> None:
        """Find the leader, and send."""
        if not self.is_stopped:
            self.find_leader(self._send)

    def _send(self) -> None:
        if self.is_stopped:
            return
        wall_ms = WALL_MS + self.scheduler.now_us // 1_000
        values = (b"%d:%d" % (self.host, self._number),)
        self._number += 1
        records = requests.batch(values, wall_ms, None, -1, self._kind.codec)
        assert self.topic_id is not None, "a leader is known"
        body = requests.produce(self.topic_id, self.partition, records, self._kind.acks)
        if self._kind.acks == 0:
            self.tell_leader(PRODUCE, body)
            self.checks.hit("sent_with_acks_0")
            # Nothing tells of an error: now and then it asks who leads.
            again = self.start if self.rng.random() < 0.2 else self._send
            self.later(again, self._kind.pause_us)
            return
        self.is_idle = False
        reign = self.checks.reign_of(self.leader, self.key)

        def answered(response: Any) -> None:
            self.is_idle = True
            code, row = outcome_of(response)
            if code is ErrorCode.none:
                self.acknowledged += 1
                self.checks.written_at(reign, row.base_offset, values)
                self.later(self._send, self._kind.pause_us)
            elif code in RETRIED:
                self.later(self.start)
            else:
                raise Violation("D5", f"producer {self.host} with acks=1: {code.name}")

        self.ask_leader(PRODUCE, body, answered)


def outcome_of(response: Any) -> tuple[ErrorCode, Any]:
    """Error and row of a Produce response of one partition; no response is a time-out."""
    if response is None:
        return ErrorCode.request_timed_out, None
    row = response.responses[0].partition_responses[0]
    return row.error_code, row
