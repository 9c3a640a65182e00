"""Transactions of two more libraries: what is committed is read, what is aborted is not.

Those of librdkafka are in test_transactions.py, Java's in test_transactions_jvm.py.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.interop.quorum import Quorum

SECONDS = 30.0


def create(quorum: Quorum, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(SECONDS)


def test_kafka_python_transactions(quorum: Quorum) -> None:
    topic = "of-kafka-python"
    create(quorum, topic)
    producer = KafkaProducer(bootstrap_servers=quorum.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for is_commit, value in ((True, b"a"), (False, b"b"), (True, b"c")):
        producer.begin_transaction()
        producer.send(topic, value, partition=0).get(SECONDS)
        (producer.commit_transaction if is_commit else producer.abort_transaction)()
    producer.close(1)
    consumer = KafkaConsumer(
        bootstrap_servers=quorum.bootstrap, isolation_level="read_committed",
        auto_offset_reset="earliest", consumer_timeout_ms=3000,
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0)])
    try:
        assert [next(consumer).value for _ in range(2)] == [b"a", b"c"]
    finally:
        consumer.close()


async def test_aiokafka_transactions(quorum: Quorum) -> None:
    topic = "of-aiokafka"
    create(quorum, topic)
    producer = AIOKafkaProducer(bootstrap_servers=quorum.bootstrap, transactional_id=topic)
    await asyncio.wait_for(producer.start(), SECONDS)
    try:
        for is_commit, value in ((True, b"a"), (False, b"b"), (True, b"c")):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, value, partition=0)
            await (producer.commit_transaction if is_commit else producer.abort_transaction)()
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=quorum.bootstrap, isolation_level="read_committed",
        auto_offset_reset="earliest",
    )  # fmt: skip
    await asyncio.wait_for(consumer.start(), SECONDS)
    try:
        found = [(await asyncio.wait_for(consumer.getone(), SECONDS)).value for _ in range(2)]
        assert found == [b"a", b"c"]
    finally:
        await consumer.stop()
