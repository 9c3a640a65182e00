"""Groups and transactions: no broker coordinates them, and clients of three libraries are told.

Consumers of assigned partitions and producers without transactions are in test_records.py.
"""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import PolicyViolationError as AioPolicyViolationError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import KafkaError as PythonKafkaError
from kafka.errors import PolicyViolationError

from kernel.serving.record_requests import NO_GROUPS
from tests.interop.quorum import Quorum, wait_until

SECONDS = 5.0
"""Far below any client's own time-out."""
TRANSACTION_SECONDS = 1.0
"""Time-out of librdkafka's init_transactions in the test that waits for it."""


@pytest.fixture(scope="module")
def topic(quorum: Quorum) -> str:
    name = "no-group-reads-this"
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)
    return name


def librdkafka(quorum: Quorum, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": quorum.bootstrap, "log_level": 0, **more}


# ---- groups ----------------------------------------------------------------------------------


def test_librdkafka_consumer_of_a_group(quorum: Quorum, topic: str) -> None:
    consumer = Consumer(librdkafka(quorum, **{"group.id": "g"}))
    consumer.subscribe([topic])
    errors: list[Any] = []

    def told() -> bool:
        message = consumer.poll(0.1)
        errors.extend([] if message is None else [message.error()])
        return bool(errors)

    wait_until(told, SECONDS, lambda: "no error")
    consumer.close()
    assert errors[0].code() == KafkaError.POLICY_VIOLATION
    assert NO_GROUPS in errors[0].str()


def test_kafka_python_consumer_of_a_group(quorum: Quorum, topic: str) -> None:
    consumer = KafkaConsumer(topic, bootstrap_servers=quorum.bootstrap, group_id="g")
    try:
        with pytest.raises(PolicyViolationError):
            wait_until(lambda: bool(consumer.poll(200)), SECONDS, lambda: "no error")
    finally:
        consumer.close()


def test_kafka_python_committed_offset(quorum: Quorum, topic: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=quorum.bootstrap, group_id="g")
    try:
        with pytest.raises(PolicyViolationError):
            consumer.committed(PythonTopicPartition(topic, 0))
    finally:
        consumer.close()


async def test_aiokafka_consumer_of_a_group(quorum: Quorum, topic: str) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=quorum.bootstrap, group_id="g")
    try:
        with pytest.raises(AioPolicyViolationError):
            await asyncio.wait_for(consumer.start(), SECONDS)
    finally:
        await asyncio.wait_for(consumer.stop(), SECONDS)


# ---- transactions ----------------------------------------------------------------------------


def test_librdkafka_transactions(quorum: Quorum) -> None:
    """It takes every error of FindCoordinator but those of authorization for one that will pass."""
    producer = Producer(librdkafka(quorum, **{"transactional.id": "t"}))
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(TRANSACTION_SECONDS)
    (error,) = refused.value.args
    assert error.code() == KafkaError._TIMED_OUT
    assert not error.fatal()


def test_kafka_python_transactions(quorum: Quorum) -> None:
    producer = KafkaProducer(bootstrap_servers=quorum.bootstrap, transactional_id="t")
    try:
        with pytest.raises(PythonKafkaError, match="PolicyViolationError"):
            producer.init_transactions()
    finally:
        producer.close(1)


async def test_aiokafka_transactions(quorum: Quorum) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=quorum.bootstrap, transactional_id="t")
    try:
        with pytest.raises(AioKafkaError, match="PolicyViolationError"):
            await asyncio.wait_for(producer.start(), SECONDS)
    finally:
        await producer.stop()
