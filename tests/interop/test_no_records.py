"""Producers and consumers at nodes that keep no records: a clear error within seconds, no hang."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import IncompatibleBrokerVersion as AioIncompatibleBrokerVersion
from aiokafka.errors import PolicyViolationError as AioPolicyViolationError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import IncompatibleBrokerVersion, PolicyViolationError

from kernel.serving.record_requests import NO_GROUPS, NOT_PRODUCED
from tests.interop.quorum import Quorum, wait_until

SECONDS = 5.0
"""Far below any client's own time-out."""
IDEMPOTENT_SECONDS = 20.0
"""librdkafka asks its brokers one after the other, with pauses, before it gives up."""


@pytest.fixture(scope="module")
def topic(quorum: Quorum) -> str:
    name = "nobody-produces-here"
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)
    return name


def librdkafka(quorum: Quorum, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": quorum.bootstrap, "log_level": 0, **more}


# ---- producers -------------------------------------------------------------------------------


def test_librdkafka_producer(quorum: Quorum, topic: str) -> None:
    failed: list[Any] = []
    producer = Producer(librdkafka(quorum))
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error))

    def delivered() -> bool:
        producer.poll(0.05)
        return bool(failed)

    wait_until(delivered, SECONDS, lambda: "no delivery report")
    assert failed[0].code() == KafkaError.POLICY_VIOLATION


def test_librdkafka_idempotent_producer(quorum: Quorum, topic: str) -> None:
    told: list[str] = []
    settings = {"enable.idempotence": True, "error_cb": lambda error: told.append(error.str())}
    producer = Producer(librdkafka(quorum, **settings))

    def is_fatal() -> bool:
        # After the fatal error produce is refused without its name: either call may tell it.
        for call in (lambda: producer.produce(topic, b"x"), lambda: producer.poll(0.05)):
            try:
                call()
            except KafkaException as error:
                told.append(str(error))
        return any("Idempotent producer not supported" in text for text in told)

    wait_until(is_fatal, IDEMPOTENT_SECONDS, lambda: f"no fatal error: {told}")


def test_kafka_python_producer(quorum: Quorum, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=quorum.bootstrap, enable_idempotence=False)
    try:
        with pytest.raises(PolicyViolationError, match=NOT_PRODUCED):
            producer.send(topic, b"x").get(SECONDS)
    finally:
        producer.close(1)


def test_kafka_python_idempotent_producer(quorum: Quorum, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=quorum.bootstrap)
    try:
        with pytest.raises(IncompatibleBrokerVersion, match="InitProducerId"):
            producer.send(topic, b"x").get(SECONDS)
    finally:
        producer.close(1)


async def test_aiokafka_producer(quorum: Quorum, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=quorum.bootstrap)
    await producer.start()
    try:
        with pytest.raises(AioPolicyViolationError):
            await asyncio.wait_for(producer.send_and_wait(topic, b"x"), SECONDS)
    finally:
        await producer.stop()


async def test_aiokafka_idempotent_producer(quorum: Quorum) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=quorum.bootstrap, enable_idempotence=True)
    try:
        with pytest.raises(AioIncompatibleBrokerVersion, match="InitProducerId"):
            await asyncio.wait_for(producer.start(), SECONDS)
    finally:
        await producer.stop()


# ---- consumers -------------------------------------------------------------------------------


def test_librdkafka_consumer(quorum: Quorum, topic: str) -> None:
    consumer = Consumer(librdkafka(quorum, **{"group.id": "g"}))
    consumer.subscribe([topic])
    errors: list[Any] = []

    def told() -> bool:
        message = consumer.poll(0.1)
        errors.extend([] if message is None else [message.error()])
        return bool(errors)

    wait_until(told, SECONDS, lambda: "no error")
    assert errors[0].code() == KafkaError.POLICY_VIOLATION
    assert NO_GROUPS in errors[0].str()
    watermarks = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS)
    assert watermarks == (0, 0)


@pytest.mark.parametrize("group", ["g", None], ids=["group", "assigned"])
def test_kafka_python_consumer(quorum: Quorum, topic: str, group: str | None) -> None:
    consumer = KafkaConsumer(bootstrap_servers=quorum.bootstrap, group_id=group)
    try:
        if group is None:
            consumer.assign([PythonTopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])

        def polled() -> bool:
            consumer.poll(200)
            return False

        with pytest.raises(PolicyViolationError):
            wait_until(polled, SECONDS, lambda: "no error")
    finally:
        consumer.close()


async def test_aiokafka_consumer_of_a_group(quorum: Quorum, topic: str) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=quorum.bootstrap, group_id="g")
    try:
        with pytest.raises(AioPolicyViolationError):
            await asyncio.wait_for(consumer.start(), SECONDS)
    finally:
        await asyncio.wait_for(consumer.stop(), SECONDS)


async def test_aiokafka_consumer_without_a_group_logs_why(
    quorum: Quorum, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It raises only a few errors of Fetch; this one it logs, and it asks again."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=quorum.bootstrap, auto_offset_reset="earliest"
    )
    await asyncio.wait_for(consumer.start(), SECONDS)
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.getone(), 0.5)
    finally:
        await consumer.stop()
    assert "PolicyViolationError" in caplog.text
