"""A consumer of a group as a process, for tests that kill it: its output has what befalls it.

    python -m tests.interop.group_member CLIENT BOOTSTRAP GROUP TOPIC [--cooperative | --consumer]
        [--instance ID] [--session-ms MS]

One object a line: {"assigned": [partition]}, {"revoked": [partition]}, {"read": [partition, offset,
value]}, {"left": true}. Records are committed after they are printed. SIGTERM lets it leave its
group and end; a static member keeps its place.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

SESSION_MS = 6_000
HEARTBEAT_MS = 500
POLL_SECONDS = 0.2
LONG_POLL_SECONDS = 3.0
"""kafka-python 3.0 forgets the assignment of a rebalance during which a poll ends."""


class Stop:
    """True when the process is to end."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


def say(**what: Any) -> None:
    """Print what has happened."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def numbers(partitions: Iterable[Any]) -> list[int]:
    """Their numbers, ascending."""
    return sorted(partition.partition for partition in partitions)


def run_confluent(options: argparse.Namespace, stop: Stop) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": options.session_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": (
            "cooperative-sticky" if options.cooperative else "range,roundrobin"
        ),
        "log_level": 0,
    }
    if options.consumer:
        for name in ("session.timeout.ms", "heartbeat.interval.ms"):
            del settings[name]  # the coordinator's
        del settings["partition.assignment.strategy"]
        settings["group.protocol"] = "consumer"
    if options.instance:
        settings["group.instance.id"] = options.instance
    consumer = Consumer(settings)
    consumer.subscribe(
        [options.topic],
        on_assign=lambda _, partitions: say(assigned=numbers(partitions)),
        on_revoke=lambda _, partitions: say(revoked=numbers(partitions)),
    )
    to_commit = False
    while not stop.is_set:
        messages = consumer.consume(100, POLL_SECONDS)
        read = [message for message in messages if message.error() is None]
        for message in read:
            say(read=[message.partition(), message.offset(), message.value().decode()])
        if read or to_commit:  # with a newer member epoch nothing is read again
            to_commit = not _commit(lambda: consumer.commit(asynchronous=False))
    consumer.close()


def run_kafka_python(options: argparse.Namespace, stop: Stop) -> None:
    """kafka-python."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import (
        CooperativeStickyAssignor,
    )
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            say(revoked=numbers(revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=numbers(assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap.split(","),
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[
            CooperativeStickyAssignor if options.cooperative else RangePartitionAssignor
        ],
    )
    while not consumer.partitions_for_topic(options.topic):
        pass  # without the metadata of its topics it assigns none of them, and joins again
    consumer.subscribe([options.topic], listener=Listener())
    while not stop.is_set:
        batches = consumer.poll(int(LONG_POLL_SECONDS * 1000))
        for partition, records in batches.items():
            for record in records:
                say(read=[partition.partition, record.offset, record.value.decode()])
        if batches:
            _commit(consumer.commit)
    consumer.close()


def run_aiokafka(options: argparse.Namespace, stop: Stop) -> None:
    """aiokafka, whose assignors are eager."""
    assert not options.cooperative, "aiokafka has no cooperative assignor"
    asyncio.run(_run_aiokafka(options, stop))


async def _run_aiokafka(options: argparse.Namespace, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            say(revoked=numbers(revoked))

        async def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=numbers(assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([options.topic], listener=Listener())
    await consumer.start()
    while not stop.is_set:
        batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        for partition, records in batches.items():
            for record in records:
                say(read=[partition.partition, record.offset, record.value.decode()])
        if batches:
            try:
                await consumer.commit()
            except Exception as error:  # noqa: BLE001
                say(uncommitted=type(error).__name__)
    await consumer.stop()


def _commit(commit: Any) -> bool:
    """Commit; False if a rebalance came first, after which a classic member reads again."""
    try:
        commit()
    except Exception as error:  # noqa: BLE001
        say(uncommitted=f"{type(error).__name__}: {error}")
        return False
    return True


RUNS = {
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}


def main() -> None:
    """Consume until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("client", "bootstrap", "group", "topic"):
        parser.add_argument(name)
    parser.add_argument("--cooperative", action="store_true")
    parser.add_argument("--consumer", action="store_true", help="the protocol of KIP-848")
    parser.add_argument("--instance")
    parser.add_argument("--session-ms", type=int, default=SESSION_MS)
    options = parser.parse_args()
    stop = Stop()
    RUNS[options.client](options, stop)
    say(left=True)


if __name__ == "__main__":
    main()
