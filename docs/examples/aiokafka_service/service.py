"""A service on aiokafka: reads orders, writes an invoice for each.

python service.py BOOTSTRAP
"""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

ORDERS = "orders"
INVOICES = "invoices"
PRICE = {"tea": 3, "coffee": 4}


def invoice(order: dict[str, object]) -> dict[str, object]:
    """The invoice of an order; raises KeyError for what is not sold."""
    return {"order": order["id"], "total": PRICE[str(order["item"])] * int(str(order["count"]))}


class Billing:
    """The service: `run` until it is cancelled."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    async def run(self) -> None:
        """Answer each order with an invoice; the offset is committed behind it."""
        consumer = AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=self.servers,
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        producer = AIOKafkaProducer(bootstrap_servers=self.servers, acks="all")
        async with consumer, producer:
            async for message in consumer:
                answer = json.dumps(invoice(json.loads(message.value))).encode()
                await producer.send_and_wait(INVOICES, answer, key=message.key)
                await consumer.commit()


if __name__ == "__main__":
    asyncio.run(Billing(sys.argv[1]).run())
