"""An application with transactions: librdkafka's producer and consumer, one transaction at a time.

It blocks, so each has a thread. A transaction is asked for with its ending, as
`jepsen.transactions.generator` draws them; one that meets an error before its commit was asked for
is certainly aborted.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from jepsen.cycles.transactions import APPEND
from jepsen.linearizability.history import FAIL, INFO, OK
from jepsen.records.payload import content_of, value_of
from jepsen.transactions.generator import ABANDON, ABORT, COMMIT, ZOMBIE, MicroOperation

TRANSACTION_TIMEOUT_MS: Final = 15_000
CALL_S: Final = 2.0
"""Longest call of the library, after which `stop` is looked at."""
BEGIN_S: Final = 20.0
END_S: Final = 20.0
READ_S: Final = 5.0
POLL_S: Final = 0.5
AGAIN_S: Final = 0.1
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
READ_BATCH: Final = 500
END_OF_PARTITION: Final = KafkaError._PARTITION_EOF  # noqa: SLF001  # public in librdkafka


class Done(NamedTuple):
    """Completion of a transaction."""

    type: str
    value: list[MicroOperation]
    offsets: list[int | None]
    """Of each micro-operation: where an append was said to be."""
    error: str | None


class Stopped(Exception):  # noqa: N818  # not an error
    """The run ends."""


class LateError(Exception):
    """Something did not come to an end in time."""


class Worker:
    """One application."""

    def __init__(self, bootstrap: str, number: int, isolation: str) -> None:
        """Open nothing yet.

        Args:
            bootstrap: Addresses of the brokers.
            number: Names it among the applications of the run.
            isolation: Kafka's `isolation.level`.
        """
        self._common: Final = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 5_000,
            "error_cb": lambda _: None,
            "logger": _quiet_logger(),
        }
        self._number = number
        self._isolation = isolation
        self._is_stopped = threading.Event()
        self._producer: Producer | None = None
        self._incarnation = 0
        """Part of the transactional id, another after a transaction was left open."""
        self._consumer: Consumer | None = None

    def stop(self) -> None:
        """Let a transaction that is under way end soon; called from another thread."""
        self._is_stopped.set()

    def close(self) -> None:
        """Give back everything, in the thread of the transactions."""
        self._forget_producer()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def run(self, asked: Sequence[MicroOperation], ending: str) -> Done:
        """Carry out a transaction; never raises."""
        attempt = _Attempt([list(row) for row in asked])
        is_decided = False
        try:
            producer = self._begun()
            for place, row in enumerate(attempt.value):
                if row[0] == APPEND:
                    attempt.produce(producer, place)
                else:
                    row[2] = self._read(row[1])
            if ending != COMMIT:
                self._delivered(producer)
            if ending == ABORT:
                self._repeated(producer.abort_transaction, END_S)
                return attempt.done(FAIL, "aborted as asked")
            if ending == ABANDON:
                self._forget_producer()
                self._incarnation += 1
                return attempt.done(FAIL, "left open as asked")
            if ending == ZOMBIE:
                return self._fenced(attempt, producer)
            is_decided = True
            self._repeated(producer.commit_transaction, END_S)
            return attempt.done(OK, None)
        except (KafkaException, BufferError, LateError, Stopped) as error:
            self._give_up(attempt, is_decided=is_decided)
            return attempt.done(INFO if is_decided else FAIL, _reason(error))

    def _begun(self) -> Producer:
        if self._producer is None:
            self._producer = self._started()
        self._producer.begin_transaction()
        return self._producer

    def _started(self) -> Producer:
        producer = Producer(
            {
                **self._common,
                "transactional.id": f"txn-{self._number}-{self._incarnation}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS - 1_000,
                "compression.type": CODECS[self._number % len(CODECS)],
                "linger.ms": 1,
            }
        )
        self._repeated(producer.init_transactions, BEGIN_S)
        return producer

    def _delivered(self, producer: Producer) -> None:
        """Wait until all records have arrived or failed."""
        until_s = time.monotonic() + END_S
        while producer.flush(POLL_S):
            self._check(until_s)

    def _fenced(self, attempt: "_Attempt", zombie: Producer) -> Done:
        """Let a successor begin, then the zombie commit, which must be refused."""
        self._producer = None
        self._producer = self._started()
        try:
            self._repeated(zombie.commit_transaction, END_S)
        except KafkaException as error:
            return attempt.done(FAIL, f"a zombie: {_reason(error)}")
        return attempt.done(OK, "a zombie was allowed to commit")

    def _give_up(self, attempt: "_Attempt", *, is_decided: bool) -> None:
        """Make the next transaction possible: abort where that is, else another producer.

        Also where a record may have arrived that librdkafka (2.16) drops with the abort: it gives
        its sequence to the next one, in the same epoch, which a broker takes for a duplicate and
        acknowledges (rdkafka_partition.c: `rd_kafka_toppar_purge_queues`).
        """
        if not is_decided and self._producer is not None:
            try:
                self._producer.poll(0)  # tells what was delivered; raises what is fatal
                is_delivered = not attempt.undelivered
                self._repeated(self._producer.abort_transaction, END_S)
            except (KafkaException, LateError, Stopped):
                pass
            else:
                if is_delivered:
                    return
        self._forget_producer()

    def _forget_producer(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _repeated(self, call: Callable[[float], None], seconds: float) -> None:
        """Call until it does not ask to be called again. Raises as the library, and Stopped."""
        until_s = time.monotonic() + seconds
        while True:
            try:
                call(CALL_S)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= until_s:
                    raise
                self._check(until_s)
            else:
                return

    def _check(self, until_s: float) -> None:
        if self._is_stopped.is_set():
            raise Stopped("the run ends")
        if time.monotonic() >= until_s:
            raise LateError("not done in time")

    # -- reads -----------------------------------------------------------------------------------

    def _read(self, key: str) -> list[int | str]:
        """All values of a partition below the end that its leader names."""
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    **self._common,
                    "group.id": f"txn-reader-{self._number}",
                    "isolation.level": self._isolation,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 20,
                }
            )
        topic, _, number = key.rpartition("-")
        partition = TopicPartition(topic, int(number), 0)
        until_s = time.monotonic() + READ_S
        while True:
            try:
                return self._read_once(self._consumer, partition, until_s)
            except KafkaException:
                if time.monotonic() >= until_s or self._is_stopped.wait(AGAIN_S):
                    raise

    def _read_once(
        self, consumer: Consumer, partition: TopicPartition, until_s: float
    ) -> list[int | str]:
        _, end = consumer.get_watermark_offsets(partition, CALL_S)
        if not end:
            return []
        consumer.assign([partition])
        try:
            return self._values(consumer, end, until_s)
        finally:
            consumer.unassign()

    def _values(self, consumer: Consumer, end: int, until_s: float) -> list[int | str]:
        values: list[int | str] = []
        while True:
            self._check(until_s)
            for message in consumer.consume(READ_BATCH, POLL_S):
                error, offset = message.error(), message.offset()
                assert offset is not None
                if error is None and offset < end:
                    values.append(value_of(message.value() or b""))
                elif error is not None and error.code() != END_OF_PARTITION:
                    raise KafkaException(error)
                if offset >= end - (error is None):  # no record at the end, or behind it
                    return values


class _Attempt:
    """A transaction as far as it is known."""

    def __init__(self, value: list[MicroOperation]) -> None:
        self.value: Final = value
        self._offsets: list[int | None] = [None] * len(value)
        self.undelivered = 0
        """Records that were given to the library, and of which nobody knows that they arrived."""

    def produce(self, producer: Producer, place: int) -> None:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self._offsets[place] = message.offset()
                self.undelivered -= 1

        _, key, value = self.value[place]
        topic, _, number = key.rpartition("-")
        self.undelivered += 1
        producer.produce(topic, content_of(value), partition=int(number), on_delivery=delivered)

    def done(self, kind: str, error: str | None) -> Done:
        return Done(kind, self.value, list(self._offsets), error)


def _quiet_logger() -> logging.Logger:
    """A logger that says nothing: that a zombie is fenced is no news."""
    logger = logging.Logger("librdkafka")  # noqa: LOG001  # not among those of the process
    logger.addHandler(logging.NullHandler())
    return logger


def _reason(error: BaseException) -> str:
    first = error.args[0] if error.args else None
    if isinstance(first, KafkaError):
        return f"{first.name()}: {first.str()}"
    return str(error) or type(error).__name__
