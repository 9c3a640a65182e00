"""Quotas set by `kraftline configs` hold for librdkafka, and it is told how it is throttled."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum import Quorum
from tests.interop.record_clients import SECONDS

ROOT = Path(__file__).parents[2]
TOPIC, CLIENT = "limited", "limited"
RATE = 400_000
WINDOWS = 10
"""Full windows of a second: so much may come at once, and hardly more in the rest of them."""
MEASURED_S = 6
VALUE = bytes(1_000)


def alter(quorum: Quorum, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "cli.main", "configs", "--bootstrap-server", quorum.bootstrap,
         "--alter", "--entity-type", "clients", "--entity-name", CLIENT, *words],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def produced_bytes(producer: Producer, seconds: float) -> int:
    """Produce as fast as the broker takes it; the bytes acknowledged meanwhile."""
    acknowledged = [0]

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        acknowledged[0] += len(message.value())

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            producer.produce(TOPIC, VALUE, partition=0, on_delivery=delivered)
        except BufferError:
            producer.poll(0.02)
        producer.poll(0)
    return acknowledged[0]


def test_a_producer_and_a_consumer_stay_within_their_quotas(quorum: Quorum) -> None:
    settings = {"bootstrap.servers": quorum.bootstrap, "client.id": CLIENT, "log_level": 2}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS)
    alter(quorum, "--add-config", f"producer_byte_rate={RATE},consumer_byte_rate={RATE}")
    throttles: list[float] = []
    throttled = {"throttle_cb": lambda event: throttles.append(event.throttle_time)}
    limits = {"queue.buffering.max.kbytes": 1_000, "batch.size": 50_000, "linger.ms": 5}
    producer = Producer(settings | throttled | limits)
    try:
        count = produced_bytes(producer, WINDOWS + 1)
        assert RATE * WINDOWS * 0.9 <= count <= RATE * (2 * WINDOWS + 1)
        count = produced_bytes(producer, MEASURED_S)
        assert RATE * MEASURED_S * 0.5 <= count <= RATE * MEASURED_S * 1.5
        assert max(throttles) > 0
        producer.purge()
        throttles.clear()
        group = {"group.id": "none", "enable.auto.commit": False}
        consumer = Consumer(settings | throttled | group)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        taken, end = 0, time.monotonic() + MEASURED_S
        while time.monotonic() < end:
            message = consumer.poll(0.2)
            taken += 0 if message is None or message.error() else len(message.value())
        assert RATE * 2 <= taken <= RATE * (WINDOWS + MEASURED_S)
        assert max(throttles, default=0) > 0
        consumer.close()
    finally:
        alter(quorum, "--delete-config", "producer_byte_rate,consumer_byte_rate")
