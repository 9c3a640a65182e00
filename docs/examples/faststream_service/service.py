"""A service on FastStream: reads orders, writes an invoice for each.

BOOTSTRAP=127.0.0.1:9092 faststream run service:app
"""

import os

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel

PRICE = {"tea": 3, "coffee": 4}

broker = KafkaBroker(os.environ.get("BOOTSTRAP", "127.0.0.1:9092"))
app = FastStream(broker)


class Order(BaseModel):
    """What a customer wants."""

    id: int
    item: str
    count: int


class Invoice(BaseModel):
    """What it costs."""

    order: int
    total: int


@broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
@broker.publisher("invoices")
async def bill(order: Order) -> Invoice:
    """Answer each order with an invoice."""
    return Invoice(order=order.id, total=PRICE[order.item] * order.count)
