"""The same service twice: with FastStream's broker in memory, and at a real Kafka."""

import asyncio
import importlib
import json

import pytest
from confluent_kafka import Consumer
from faststream.kafka import TestKafkaBroker

ORDER = {"id": 1, "item": "tea", "count": 2}


def test_in_memory():
    import service

    async def scenario():
        async with TestKafkaBroker(service.broker) as broker:
            await broker.publish(ORDER, "orders")
            service.bill.mock.assert_called_once_with(ORDER)

    asyncio.run(scenario())


def test_at_a_real_kafka(kafka, monkeypatch):
    monkeypatch.setenv("BOOTSTRAP", kafka.bootstrap_servers)
    import service

    importlib.reload(service)  # its broker is of the module

    async def scenario():
        async with service.broker:
            await service.broker.start()
            await service.broker.publish(ORDER, "orders")
            return await asyncio.to_thread(first_invoice, kafka.bootstrap_servers)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == {"order": 1, "total": 6}


def first_invoice(servers):
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["invoices"])
    message = consumer.poll(30)
    consumer.close()
    if message is None:
        pytest.fail("no invoice came")
    return json.loads(message.value())
