"""Transactions: no broker coordinates them, and clients of three libraries are told.

Producers without transactions are in test_records.py.
"""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.interop.quorum import Quorum

SECONDS = 5.0
"""Far below any client's own time-out."""
TRANSACTION_SECONDS = 1.0
"""Time-out of librdkafka's init_transactions in the test that waits for it."""


def librdkafka(quorum: Quorum, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": quorum.bootstrap, "log_level": 0, **more}


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
