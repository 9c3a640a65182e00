"""A consumer of a group as a process of its own, so that it can be killed: it tells what it does.

    python -m jepsen.groups.member BOOTSTRAP GROUP PROTOCOL AHEAD TOPIC...

Records are told before their offsets are committed. What is refused is committed again, while the
member has the partition. SIGTERM lets it leave its group and end; so
does the end of the process that started it. AHEAD is the number of records more than it has read
that a member commits: 0, but for a control of the harness. Events: `jepsen.groups.names`; times are
of the clock CLOCK_MONOTONIC, in nanoseconds.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from jepsen.groups.names import (
    ASSIGNED,
    COMMITTED,
    COMMITTING,
    CONSUMER,
    COOPERATIVE,
    FETCHED,
    HEARTBEAT_MS,
    LOST,
    READ,
    REFUSED,
    REVOKED,
    SESSION_MS,
)
from jepsen.groups.uncommitted import Uncommitted
from jepsen.records.payload import value_of

POLL_S: Final = 0.3
POLL_RECORDS: Final = 100
FETCH_S: Final = 3.0
METADATA_PREFIX: Final = b"CGMDv2:"
GENERATION_BYTES: Final = 4


class Member:
    """One consumer."""

    def __init__(
        self, bootstrap: str, group: str, protocol: str, ahead: int, topics: list[str]
    ) -> None:
        """Join nothing yet."""
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        if protocol == CONSUMER:
            settings["group.protocol"] = CONSUMER
        else:
            settings["session.timeout.ms"] = SESSION_MS
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
            strategy = "cooperative-sticky" if protocol == COOPERATIVE else "range"
            settings["partition.assignment.strategy"] = strategy
        self._consumer = Consumer(settings)
        self._uncommitted = Uncommitted()
        self._topics = topics
        self._ahead = ahead
        self._parent = os.getppid()
        self._is_ended = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def run(self) -> None:
        """Consume until SIGTERM, or until nobody listens."""
        self._consumer.subscribe(
            self._topics,
            on_assign=self._on_assign,
            on_revoke=lambda _, partitions: self._on_end(REVOKED, partitions),
            on_lost=lambda _, partitions: self._on_end(LOST, partitions),
        )
        while not self._is_ended and os.getppid() == self._parent:
            records: dict[str, list[list[Any]]] = {}
            for message in self._consumer.consume(POLL_RECORDS, POLL_S):
                if message.error() is None:
                    row = [message.offset(), value_of(message.value() or b"")]
                    records.setdefault(f"{message.topic()}-{message.partition()}", []).append(row)
            if records:
                say(READ, records=records)
                behind = 1 + self._ahead
                self._uncommitted.read(
                    {name: rows[-1][0] + behind for name, rows in records.items()}
                )
            if offsets := self._uncommitted.offsets:
                self._commit(offsets)
        self._consumer.close()

    def _commit(self, offsets: dict[str, int]) -> None:
        say(COMMITTING, offsets=offsets)
        began = time.monotonic_ns()
        asked = [partition_of(name, offset) for name, offset in offsets.items()]
        try:
            answered = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            say(REFUSED, began=began, offsets=offsets, error=str(error.args[0]))
            return
        done, refused, reason = {}, {}, ""
        for row in answered or ():
            if row.error is None:
                done[name_of(row)] = row.offset
            else:
                refused[name_of(row)], reason = row.offset, str(row.error)
        self._uncommitted.commit(done)
        if done:
            say(COMMITTED, began=began, offsets=done)
        if refused:
            say(REFUSED, began=began, offsets=refused, error=reason)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._uncommitted.assign([name_of(row) for row in partitions])
        self._owns(ASSIGNED, partitions)
        began = time.monotonic_ns()
        asked = [TopicPartition(row.topic, row.partition) for row in partitions]
        try:
            rows = self._consumer.committed(asked, FETCH_S)
        except KafkaException:
            return
        told = {
            name_of(row): row.offset if row.offset >= 0 else None
            for row in rows
            if row.error is None
        }
        say(FETCHED, began=began, offsets=told)

    def _on_end(self, f: str, partitions: list[TopicPartition]) -> None:
        self._uncommitted.give_up([name_of(row) for row in partitions])
        self._owns(f, partitions)

    def _owns(self, f: str, partitions: Iterable[TopicPartition]) -> None:
        generation = generation_of(self._consumer.consumer_group_metadata())
        say(f, partitions=[name_of(row) for row in partitions], generation=generation)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._is_ended = True


def say(f: str, **what: Any) -> None:
    """Tell an event, now."""
    sys.stdout.write(json.dumps({"f": f, "at": time.monotonic_ns(), **what}) + "\n")
    sys.stdout.flush()


def name_of(partition: TopicPartition) -> str:
    """Kafka's notation of a partition."""
    return f"{partition.topic}-{partition.partition}"


def partition_of(name: str, offset: int) -> TopicPartition:
    """A partition with the offset of the next record."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number), offset)


def generation_of(metadata: bytes | None) -> int | None:
    """Generation of the group (member epoch) in what librdkafka gives transactions; None: none."""
    if metadata is None or not metadata.startswith(METADATA_PREFIX):
        return None
    start = len(METADATA_PREFIX)
    number = metadata[start : start + GENERATION_BYTES]
    found = int.from_bytes(number, sys.byteorder, signed=True)  # as it is in memory
    return found if found >= 0 else None


if __name__ == "__main__":
    _, servers, group_id, kind, number, *names = sys.argv
    Member(servers, group_id, kind, int(number), names).run()
