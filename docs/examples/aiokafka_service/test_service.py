"""The service against a real Kafka: what it answers, and that it goes on where it stopped."""

import asyncio
import contextlib
import json

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from service import INVOICES, ORDERS, Billing, invoice


@contextlib.asynccontextmanager
async def running(servers):
    """The service beside the test."""
    task = asyncio.create_task(Billing(servers).run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def order(servers, number, item, count):
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        value = {"id": number, "item": item, "count": count}
        await producer.send_and_wait(ORDERS, json.dumps(value).encode())


async def totals(servers, count):
    """Totals of the first invoices."""
    consumer = AIOKafkaConsumer(INVOICES, bootstrap_servers=servers, auto_offset_reset="earliest")
    async with consumer:
        found = [json.loads((await consumer.getone()).value) for _ in range(count)]
    return [each["total"] for each in found]


async def committed(servers, offset):
    """Wait until the service has committed an offset: what it did before is not done again."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        while True:
            offsets = await admin.list_consumer_group_offsets("billing")
            if offset in {one.offset for one in offsets.values()}:
                return
            await asyncio.sleep(0.01)
    finally:
        await admin.close()


def test_an_invoice_is_the_price_times_the_count():
    assert invoice({"id": 1, "item": "tea", "count": 2}) == {"order": 1, "total": 6}
    with pytest.raises(KeyError):
        invoice({"id": 1, "item": "water", "count": 2})


@pytest.mark.kafka(configs={"num.partitions": 1})
def test_each_order_is_billed_once_also_across_a_restart(kafka):
    async def scenario():
        servers = kafka.bootstrap_servers
        await order(servers, 1, "tea", 2)
        async with running(servers):
            assert await totals(servers, 1) == [6]
            await committed(servers, 1)
        await order(servers, 2, "coffee", 1)
        async with running(servers):
            assert await totals(servers, 2) == [6, 4]

    asyncio.run(asyncio.wait_for(scenario(), 60))
