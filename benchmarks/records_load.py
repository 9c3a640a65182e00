"""Loads of records through confluent-kafka: the same client for every system that is measured.

The client shares the cores with the servers; of a server its CPU is the steady figure.
"""

import itertools
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

BATCH_BYTES: Final = 1_000_000
QUEUED_KB: Final = 128 * 1024
"""Memory of the client for records that are not acknowledged or not read yet."""
LOG_LEVEL: Final = 2
"""Of syslog; a cluster that stops is no news."""
TIMEOUT_S: Final = 60.0
PACE_S: Final = 0.002
"""Between two looks at a bounded rate."""


class Load(NamedTuple):
    """Records that went through, in so many seconds."""

    records: int
    record_bytes: int
    wall_s: float

    @property
    def megabytes(self) -> float:
        """Megabytes (10^6 bytes) of values."""
        return self.records * self.record_bytes / 1e6

    @property
    def mb_per_s(self) -> float:
        """Megabytes per second."""
        return round(self.megabytes / self.wall_s, 1)

    @property
    def per_s(self) -> int:
        """Records per second."""
        return round(self.records / self.wall_s)


@contextmanager
def topic(bootstrap: str, partitions: int, replicas: int) -> Iterator[str]:
    """Name of a topic that exists, with a leader for each partition, within the block."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})
    name = f"records-{time.time_ns()}"
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while not _has_leaders(admin, name, partitions):
        assert time.monotonic() < deadline, f"{name}: partitions without a leader"
        time.sleep(0.1)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(TIMEOUT_S)


def _has_leaders(admin: AdminClient, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions
    return len(found) == partitions and all(each.leader >= 0 for each in found.values())


def produce(
    bootstrap: str,
    name: str,
    *,
    partitions: int,
    size: int,
    acks: int,
    seconds: float,
    mb_per_s: float = float("inf"),
) -> Load:
    """Fill batches of 1 MB, one partition after the other, until all are acknowledged.

    No more than `mb_per_s` are given to the client, on the average since the begin.
    """
    errors: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 100,
            "batch.size": BATCH_BYTES, "batch.num.messages": BATCH_BYTES,
            "queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": QUEUED_KB,
            "delivery.report.only.error": True, "log_level": LOG_LEVEL,
        }
    )  # fmt: skip
    value, count = os.urandom(size), max(1, BATCH_BYTES // (size + 20))
    batch = [{"value": value} for _ in range(count)]
    sent = 0
    begin = time.perf_counter()
    for partition in itertools.cycle(range(partitions)):
        if time.perf_counter() - begin > seconds:
            break
        while time.perf_counter() - begin < sent * size / 1e6 / mb_per_s:
            producer.poll(PACE_S)
        sent += _give(producer, name, batch, partition, errors)
    assert producer.flush(TIMEOUT_S) == 0, "records are not acknowledged"
    wall = time.perf_counter() - begin
    assert not errors, errors[0]
    return Load(sent, size, wall)


@contextmanager
def producing(
    bootstrap: str, name: str, *, partitions: int, size: int, mb_per_s: float
) -> Iterator[None]:
    """Produce with acks=all from a process of its own within the block, up to a rate."""
    wanted = {
        "partitions": partitions, "size": size, "acks": -1, "seconds": float("inf"),
        "mb_per_s": mb_per_s,
    }  # fmt: skip
    process = multiprocessing.get_context("spawn").Process(
        target=produce, args=(bootstrap, name), kwargs=wanted, daemon=True
    )
    process.start()
    try:
        yield
        assert process.is_alive(), "the load has ended"
    finally:
        process.kill()
        process.join()


def _give(
    producer: Producer, name: str, batch: list[dict[str, Any]], partition: int, errors: list[str]
) -> int:
    """Queue a batch, as soon as there is room; returns its number of records."""
    left = batch
    while left:
        producer.produce_batch(
            name, left, partition, on_delivery=lambda error, _: errors.append(str(error))
        )
        left = [each for each in left if each.pop("_error", None) is not None]
        producer.poll(0.005 if left else 0)
    return len(batch)


def fetch(bootstrap: str, name: str, *, partitions: int, expected: Load) -> Load:
    """Read everything from the beginning, timed from the first records on.

    Before them librdkafka waits for timers of its own (half a second from the assignment to the
    first Fetch), and with a full queue it stops fetching for a second, which costs most where the
    broker is fast: the one is not counted, the other is set to a millisecond.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "measure", "enable.auto.commit": False,
            "queued.max.messages.kbytes": QUEUED_KB, "fetch.queue.backoff.ms": 1,
            "log_level": LOG_LEVEL,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(name, each, OFFSET_BEGINNING) for each in range(partitions)])
    got = first = 0
    begin, deadline = time.perf_counter(), time.perf_counter() + TIMEOUT_S
    while got < expected.records:
        assert time.perf_counter() < deadline, f"{got} of {expected.records} records"
        got += sum(message.error() is None for message in consumer.consume(10_000, 0.05))
        if got and not first:
            first, begin = got, time.perf_counter()
    wall = time.perf_counter() - begin
    consumer.close()
    return Load(got - first, expected.record_bytes, wall)


def one_by_one(bootstrap: str, name: str, *, acks: int, size: int, seconds: float) -> list[float]:
    """Seconds from each record to its acknowledgement, one after the other on one partition."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0, "log_level": LOG_LEVEL}
    )
    value, took, errors = os.urandom(size), list[float](), list[str]()

    def delivered(error: object, _: object) -> None:
        took.append(time.perf_counter() - begin)
        if error is not None:
            errors.append(str(error))

    deadline = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < deadline or len(took) < 2:
        before = len(took)
        producer.produce(name, value, partition=0, on_delivery=delivered)
        while len(took) == before:
            producer.poll(1.0)
    assert not errors, errors[0]
    return took[1:]  # the first one connects


def end_to_end(bootstrap: str, name: str, *, acks: int, size: int, seconds: float) -> list[float]:
    """Seconds from each record to a consumer that waits for it, one after the other."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0, "log_level": LOG_LEVEL}
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": "measure", "enable.auto.commit": False,
            "log_level": LOG_LEVEL,
        }
    )  # fmt: skip
    _, end = consumer.get_watermark_offsets(TopicPartition(name, 0), TIMEOUT_S)
    consumer.assign([TopicPartition(name, 0, end)])
    value, took = os.urandom(size), list[float]()
    deadline = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < deadline or len(took) < 2:
        producer.produce(name, value, partition=0)
        _await_record(consumer)
        took.append(time.perf_counter() - begin)
        producer.poll(0)
    consumer.close()
    return took[1:]


def _await_record(consumer: Consumer) -> None:
    """Wait for a record.

    A broker without groups answers the client's question for a coordinator with an error, which
    comes as a message.
    """
    deadline = time.perf_counter() + TIMEOUT_S
    while (message := consumer.poll(1.0)) is None or message.error() is not None:
        assert time.perf_counter() < deadline, "no record came"
