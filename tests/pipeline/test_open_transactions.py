"""Open transactions and those that hang: by the coordinator's log, by data logs (KIP-664)."""

from typing import Any

import pytest

from pipeline.core.groups.open_transactions import MAX_TIMEOUT_MS, OpenInLog, open_transactions
from pipeline.core.groups.tables import OPEN_TRANSACTIONS
from pipeline.core.groups.transaction_log import IdState
from pipeline.core.reading.transactions import OpenTransaction

NOW = 10_000_000


def known(producer: int = 7, name: str = "tx", **more: Any) -> IdState:
    """An ongoing transaction of orders-0 with a time-out of a minute, begun just now."""
    fields = {
        "state": "Ongoing", "is_open": True, "is_prepared": False, "timeout_ms": 60_000,
        "start_ms": NOW, "last_update_ms": NOW, "partitions": frozenset({("orders", 0)}),
    }  # fmt: skip
    return IdState(transactional_id=name, producer_id=producer, producer_epoch=2, **fields | more)


def in_log(producer: int = 7, last_ms: int = NOW, partition: int = 0) -> OpenInLog:
    one = OpenTransaction(
        producer_id=producer, producer_epoch=1, first_offset=40, first_ms=last_ms - 5,
        last_ms=last_ms,
    )  # fmt: skip
    return OpenInLog("orders", partition, (one,))


def verdicts(ids: list[IdState], logs: list[OpenInLog], timeout: int = 60_000) -> list[tuple]:
    table = open_transactions(ids, logs, NOW, timeout)
    assert table.schema == OPEN_TRANSACTIONS
    return [(row["source"], row["verdict"]) for row in table.to_pylist()]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"start_ms": NOW - 60_000}, "within_timeout"),
        ({"start_ms": NOW - 60_001}, "overdue"),
        ({"start_ms": None}, "within_timeout"),
        ({"is_prepared": True, "start_ms": 0, "last_update_ms": NOW - 60_000}, "within_timeout"),
        ({"is_prepared": True, "last_update_ms": NOW - 60_001}, "not_completed"),
        ({"is_prepared": True, "last_update_ms": None}, "within_timeout"),
    ],
)
def test_of_the_coordinator(more: dict[str, Any], verdict: str) -> None:
    assert verdicts([known(**more)], []) == [("coordinator", verdict)]
    assert verdicts([known(**more, is_open=False)], []) == []


@pytest.mark.parametrize(
    ("ids", "log", "verdict"),
    [
        ([known()], in_log(last_ms=0), "accounted"),
        ([known()], in_log(last_ms=0, partition=1), "hanging"),  # not of this partition
        ([known(producer=8)], in_log(last_ms=0), "hanging"),
        ([known(is_open=False)], in_log(last_ms=0), "hanging"),
        ([], in_log(last_ms=NOW - 60_000), "recent"),
        ([], in_log(last_ms=NOW - 60_001), "hanging"),
    ],
)
def test_of_a_data_log(ids: list[IdState], log: OpenInLog, verdict: str) -> None:
    assert verdicts(ids, [log])[-1] == ("log", verdict)


def test_columns_and_order() -> None:
    logs = [in_log(9, partition=2), in_log(8, last_ms=NOW - 100, partition=1), in_log(7)]
    table = open_transactions([known(7, "b"), known(6, "a")], logs, NOW)
    rows = table.to_pylist()
    assert [(row["transactional_id"], row["producer_id"], row["partition"]) for row in rows] == [
        ("a", 6, None), ("b", 7, None), ("b", 7, 0), (None, 8, 1), (None, 9, 2)]  # fmt: skip
    of_log = rows[3]
    assert (of_log["open_ms"], of_log["timeout_ms"], of_log["first_offset"]) == (
        105, MAX_TIMEOUT_MS, 40)  # fmt: skip
    assert (of_log["producer_epoch"], of_log["topic"], of_log["state"]) == (1, "orders", None)
    assert (rows[0]["open_ms"], rows[0]["timeout_ms"], rows[0]["state"]) == (0, 60_000, "Ongoing")
    assert rows[2]["timeout_ms"] == 60_000
    assert MAX_TIMEOUT_MS == 900_000
    other = open_transactions([known()], [in_log(partition=1)], NOW).to_pylist()[1]
    assert (other["transactional_id"], other["timeout_ms"]) == (None, MAX_TIMEOUT_MS)
    assert open_transactions([known(start_ms=None)], [], NOW).to_pylist()[0]["open_ms"] is None
