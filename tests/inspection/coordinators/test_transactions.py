"""`/v1/transactions`: transactional ids of the coordinator of this node."""

from datetime import timedelta
from typing import Any

import pytest
from immutables import Map

from broker.effects import Ask
from broker.events import Answered
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from coordinator.transaction.metadata import TransactionMetadata, TransactionsImage
from coordinator.transaction.states import TransactionState
from inspection.coordinators import transaction_views
from inspection.coordinators.transaction_views import ids_of, transaction_row, transaction_view
from quorum_controller.bodies import NO_TIME
from wire.api_keys import ALLOCATE_PRODUCER_IDS, INIT_PRODUCER_ID
from wire.errors import ErrorCode
from wire.messages import codec

OPEN = TransactionMetadata(
    producer_id=7, producer_epoch=2, timeout_ms=9_000, state=TransactionState.ONGOING,
    partitions=frozenset({("b", 1), ("a", 3), ("a", 0)}), start_ms=40, last_update_ms=41,
    client_version=2,
)  # fmt: skip


def test_a_row_and_a_whole_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    row = transaction_row("x", 1, OPEN)
    assert (row.id, row.partition, row.producer_id, row.producer_epoch) == ("x", 1, 7, 2)
    assert (row.state, row.timeout_ms, row.start_ms, row.partition_count) == (
        "Ongoing", 9_000, 40, 3,
    )  # fmt: skip
    whole = transaction_view("x", 1, OPEN)
    assert (whole.id, whole.partition_count, whole.last_update_ms, whole.client_version) == (
        "x", 3, 41, 2,
    )  # fmt: skip
    shown = [(each.topic, each.partitions) for each in whole.partitions]
    assert shown == [("a", [0, 3]), ("b", [1])]
    monkeypatch.setattr(transaction_views, "PARTITIONS_MAX", 1)
    whole = transaction_view("x", 1, OPEN)
    assert [(each.topic, each.partitions) for each in whole.partitions] == [("a", [0])]
    assert whole.partition_count == 3


def test_a_filter_chooses_open_ones() -> None:
    image = TransactionsImage(Map({"x": OPEN, "y": OPEN}), Map({"x": None}))
    assert list(ids_of("open")(image)) == ["x"]
    assert sorted(ids_of(None)(image)) == ["x", "y"]


def init(members: Any, name: str) -> None:
    """Initialize an id, whose producer id the controller allocates at the first time."""
    new: Any = codec.newest(INIT_PRODUCER_ID, "request")
    body = new.InitProducerIdRequest(
        transactional_id=name, transaction_timeout=timedelta(seconds=5), producer_id=-1,
        producer_epoch=-1,
    )  # fmt: skip
    for _ in range(2):
        members.ask(INIT_PRODUCER_ID, 5, body)
        for ask in [each for each in members.effects if isinstance(each, Ask)]:
            if ask.api_key == ALLOCATE_PRODUCER_IDS:
                block: Any = codec.newest(ALLOCATE_PRODUCER_IDS, "response")
                members.step(Answered(ask.token, block.AllocateProducerIdsResponse(
                    throttle_time=NO_TIME, error_code=ErrorCode.none, producer_id_start=70,
                    producer_id_len=10,
                )))  # fmt: skip
        members.settle()


async def test_ids_of_a_broker(coordinating: Any) -> None:
    site, members, side = coordinating
    transactions = members.broker._transactions.coordinator
    for _ in range(50):
        if not transactions.loading_count:
            break
        members.pass_ms(1)
    init(members, "x")
    init(members, "y/1")
    side.questions = 0
    answer = await site.get("/v1/transactions?limit=1")
    assert side.questions == 1
    (row,) = answer["transactions"]
    assert (row["id"], row["state"], row["timeout_ms"], row["start_ms"]) == (
        "x", "Empty", 5_000, None,
    )  # fmt: skip
    assert row["partition"] == partition_for("x", 2)
    assert (answer["transaction_count"], answer["open_count"]) == (2, 0)
    assert (answer["next_after"], answer["loading_count"]) == ("x", 0)
    assert answer["coordinators"] == [{"node_id": 1, "partition_count": 2}]
    assert (await site.get("/v1/transactions?filter=open"))["transactions"] == []
    rest = await site.get("/v1/transactions?after=x")
    assert [each["id"] for each in rest["transactions"]] == ["y/1"]
    one = await site.get("/v1/transactions/y%2F1")
    assert one["transaction"]["partitions"] == []
    assert one["coordinator"] == {"node_id": 1, "partition": partition_for("y/1", 2)}
    assert (await site.get("/v1/transactions/z", 404))["parameter"] == "id"
    assert (await site.get("/v1/transactions?filter=closed", 400))["parameter"] == "filter"
    number = partition_for("x", 2)
    members.metadata.change(number, b"t" * 16, leader=2, isr=(1, 2), replicas=(1, 2))
    members.publish()
    members.settle()
    members.pass_ms(1)
    gone = await site.get("/v1/transactions/x")
    assert (gone["transaction"], gone["coordinator"]["node_id"]) == (None, 2)
    assert TRANSACTION_STATE in members.metadata.image.topic_id_by_name
