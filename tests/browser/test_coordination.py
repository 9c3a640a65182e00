"""Groups and open transactions on the page of a node in a real browser."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.browser.webdriver import Browser
from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum

pytestmark = pytest.mark.browser
PAGE = Path(__file__).parents[2] / "inspection" / "static" / "index.html"
GROUPS = """const of = (id, lag, state) => ({id, lag, state, type: "consumer", member_count: 2,
    offset_count: 3, unknown_lag_count: 1});
  const page = (count, ...groups) => ({groups, group_count: count, loading_count: 0,
    coordinators: [{node_id: 1, partition_count: 3}, {node_id: 2, partition_count: 4},
                   {node_id: null, partition_count: 5}]});
  nodeId = 1;"""
TRANSACTIONS = """const of = (id, start_ms) => ({id, start_ms, producer_id: 7, producer_epoch: 2,
    state: "Ongoing", timeout_ms: 10000, partition_count: 4});
  const page = (...transactions) => ({transactions, open_count: transactions.length,
    transaction_count: 9, loading_count: 1, coordinators: []});"""


def test_groups_are_shown_by_lag_with_its_course(browser: Browser) -> None:
    browser.open(PAGE.as_uri())
    shown = f"""{GROUPS}
      showGroups(page(7, of("a", 1, "Stable"), of("b", null, "Empty"), of("<i>c", 5, "Stable")));
      showGroups(page(7, of("a", 4, "Assigning"), of("<i>c", 2, "Stable")));
      const rows = [...byId("groups").tBodies[0].rows];
      return [rows.map((r) => [...r.cells].map((td) => td.textContent)),
        rows.map((r) => [r.cells[5].title, r.querySelector("svg").getAttribute("class"),
                         r.querySelector("polyline").getAttribute("points")]),
        byId("group-note").textContent, [...lags.keys()]];"""
    rows, courses, note, kept = browser.run(shown)
    assert rows == [
        ["a", "consumer", "Assigning", "2", "4", "", "3", "1"],
        ["<i>c", "consumer", "Stable", "2", "2", "", "3", "1"],
    ]
    assert courses == [
        ["from 1 to 4, at most 4", "spark rising", "88,15.0 89,0.0"],
        ["from 5 to 2, at most 5", "spark", "88,0.0 89,12.0"],
    ]
    assert note == "7, 2 shown; partitions of others: node 2 (4), nobody (5)"
    assert kept == ["a", "<i>c"], "b is not coordinated here any more"


def test_open_transactions_are_shown_by_age_with_a_bar_of_their_time_out(browser: Browser) -> None:
    browser.open(PAGE.as_uri())
    shown = f"""{TRANSACTIONS}
      showTransactions(page(of("young", 9000), of("old", 1500), of("late", -5000)), 10000);
      const rows = [...byId("transactions").tBodies[0].rows];
      return [rows.map((r) => [...r.cells].map((td) => td.textContent)),
        rows.map((r) => [r.cells[5].title, r.querySelector(".bar").className,
                         r.querySelector("i").style.width]),
        byId("transaction-note").textContent];"""
    rows, bars, note = browser.run(shown)
    assert rows == [
        ["late", "7, epoch 2", "Ongoing", "4", "15.0 s", ""],
        ["old", "7, epoch 2", "Ongoing", "4", "8.5 s", ""],
        ["young", "7, epoch 2", "Ongoing", "4", "1.0 s", ""],
    ]
    assert bars == [
        ["150 %", "bar bad", "100%"], ["85 %", "bar bad", "85%"], ["10 %", "bar", "10%"],
    ]  # fmt: skip
    assert note == "3 of 9 ids, 1 partitions are loaded"


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    with quorums.running(tmp_path / "quorum") as cluster:
        yield cluster


def holder(quorum: Quorum, path: str, name: str) -> str:
    """Address of the node that lists an id."""
    for node in quorum.status()["nodes"]:
        with urllib.request.urlopen(node["http"].rstrip("/") + path, timeout=5) as response:
            body: Any = json.load(response)
        rows = body["groups"] if "groups" in body else body["transactions"]
        if name in [row["id"] for row in rows]:
            return str(node["http"])
    raise AssertionError(f"nobody lists {name}")


def test_a_group_and_a_transaction_of_real_clients_are_on_the_page_of_their_coordinator(
    browser: Browser, quorum: Quorum, tmp_path: Path
) -> None:
    servers = {"bootstrap.servers": quorum.bootstrap}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result()
    consumer = Consumer({**servers, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    producer = Producer({**servers, "transactional.id": "writer"})
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce("orders", b"x")
    producer.flush(10)
    browser.open(holder(quorum, "/v1/groups", "readers"))
    browser.wait(lambda: "readers" in browser.text("#groups tbody"), 8, "the group is listed")
    row = browser.run("return [...byId('groups').tBodies[0].rows[0].cells].map((c) => c.innerText)")
    assert row == ["readers", "classic", "Empty", "0", "4", "", "1", "0"]
    browser.screenshot(tmp_path / "groups.png")
    browser.open(holder(quorum, "/v1/transactions?filter=open", "writer"))
    browser.wait(lambda: "writer" in browser.text("#transactions tbody"), 8, "it is open")
    assert "Ongoing" in browser.text("#transactions tbody")
    producer.commit_transaction(20)
    browser.wait(lambda: "writer" not in browser.text("#transactions tbody"), 8, "it has ended")
    assert browser.errors() == []
    consumer.close()
