"""The first page of a node in a real browser, while the leader is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.browser.webdriver import Browser
from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum

pytestmark = pytest.mark.browser
PAGE = Path(__file__).parents[2] / "inspection" / "static" / "index.html"


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    with quorums.running(tmp_path / "quorum") as cluster:
        yield cluster


def test_a_person_sees_the_new_leader_within_a_second(
    browser: Browser, quorum: Quorum, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result()
    leader = quorum.status()["leader_id"]
    survivor = next(n for n in quorum.status()["nodes"] if n["id"] != leader)
    browser.open(survivor["http"])
    browser.wait(lambda: browser.text("#leader") == str(leader), 5, "the leader is shown")
    browser.wait(lambda: "orders" in browser.text("#topics"), 5, "the topic is listed")
    browser.wait(lambda: "PARTITION_RECORD" in browser.text("#records"), 5, "records are shown")

    quorum.run("kill", str(leader))
    took = browser.wait(
        lambda: browser.text("#leader") not in ("none", "…", str(leader)), 5, "a new leader"
    )
    assert took < 1, f"the new leader was shown {took:.2f} s after the kill returned"
    assert browser.text("#epoch") == str(quorum.status()["leader_epoch"])
    assert browser.run("return document.querySelector('#problem').hidden") is True

    admin.create_topics([NewTopic("after-the-kill", 2, 2)])["after-the-kill"].result()
    browser.wait(lambda: "after-the-kill" in browser.text("#topics"), 5, "the new topic")
    browser.run("document.querySelector('tr.topic').click()")
    browser.wait(lambda: "after-the-kill" in browser.text("#detail-name"), 5, "the detail")
    browser.screenshot(tmp_path / "page.png")
    assert browser.errors() == []


def test_a_topic_name_cannot_bring_markup_in(browser: Browser, quorum: Quorum) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic("plain", 1, 1, config={"cleanup.policy": "compact"})])[
        "plain"
    ].result()
    node = quorum.status()["nodes"][0]
    browser.open(node["http"])
    browser.wait(lambda: "plain" in browser.text("#topics"), 5, "the topic is listed")
    browser.run("document.querySelector('tr.topic').click()")
    browser.wait(lambda: "cleanup.policy=compact" in browser.text("#detail-configs"), 5, "configs")
    assert "innerHTML" not in browser.run("return document.documentElement.outerHTML")
    assert browser.errors() == []


SUMMARY = """({at, records, bytes, under, lag}) => ({timestamp_ms: at, connections: {A: 2, B: 3},
  produce: {delayed: 4}, fetch: {delayed: 5}, leader_count: 6, replica_count: 7,
  under_replicated_count: under, under_min_isr_count: 0, offline_replica_count: 0,
  replica_lag_max: lag, counters: {messages_in: records, bytes_in: bytes, bytes_out: 0,
  replication_bytes_in: 0, replication_bytes_out: 3 * bytes}})"""


def test_rates_are_the_growth_between_two_answers(browser: Browser) -> None:
    browser.open(PAGE.as_uri())
    shown = f"""const of = {SUMMARY};
      showRates(of({{at: 1000, records: 10, bytes: 500, under: 0, lag: 0}}));
      const first = byId("rates").tBodies[0].innerText;
      showRates(of({{at: 3000, records: 50, bytes: 4500, under: 1, lag: 8}}));
      return [first, byId("rates").tBodies[0].innerText, byId("traffic-note").textContent,
        [...document.querySelectorAll("#rates .bad")].map((e) => e.textContent)];"""
    browser.run("byId('traffic').hidden = false")
    first, second, note, bad = browser.run(shown)
    assert first.split("\t") == ["0", *["0 B"] * 4, "6 of 7", "0", "0", "0", "0"]
    assert second.split("\t") == [
        "20", "2.0 kB", "0 B", "0 B", "6.0 kB", "6 of 7", "1", "0", "0", "8",
    ]  # fmt: skip
    assert note == "5 connections, 4 produce and 5 fetch wait"
    assert bad == ["1", "8"]


def test_a_replica_is_shown_with_who_is_behind(browser: Browser) -> None:
    browser.open(PAGE.as_uri())
    cells = """const shown = (replica) => replicaCells(replica).map((td) => td.textContent);
      const log = {log_start_offset: 2, log_end_offset: 9, high_watermark: 7};
      nodeId = 3;
      return [shown(undefined), shown({error: "KAFKA_STORAGE_ERROR", log: null}),
        shown({log, fetching: {lag: 0}}), shown({log, fetching: {lag: 4}}),
        shown({log, leadership: {followers:
          [{id: 1, lag: 0}, {id: 2, lag: 5}, {id: 4, lag: null}]}})]"""
    assert browser.run(cells) == [
        ["–", "–", "–"],  # noqa: RUF001 - the page's dash
        ["KAFKA_STORAGE_ERROR", "–", "–"],  # noqa: RUF001 - the page's dash
        ["2 to 9", "7", ""],
        ["2 to 9", "7", "3: 4"],
        ["2 to 9", "7", "2: 5, 4: not heard from"],
    ]


def test_records_at_a_broker_are_shown_with_rates_and_replicas(
    browser: Browser, quorum: Quorum
) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result()
    browser.open(quorum.status()["nodes"][0]["http"])
    browser.wait(lambda: "orders" in browser.text("#topics"), 5, "the topic is listed")
    browser.run("document.querySelector('tr.topic').click()")
    browser.wait(lambda: "orders" in browser.text("#detail-name"), 5, "the detail")
    producer = Producer({"bootstrap.servers": quorum.bootstrap, "acks": "all"})
    for _ in range(1_000):
        producer.produce("orders", b"x" * 1_000)
    assert producer.flush(10) == 0
    browser.wait(lambda: "0 to 1000" in browser.text("#partitions"), 5, "the ends of the log here")

    def is_rate_shown() -> bool:
        producer.produce("orders", b"x" * 100_000)
        assert producer.flush(10) == 0
        return any(unit in browser.text("#rates") for unit in ("KB", "MB"))

    browser.wait(is_rate_shown, 8, "a rate: in, or from the leader")
    browser.wait(lambda: "0 B0 B0 B0 B" in browser.text("#rates"), 8, "it falls to nothing")
    assert browser.errors() == []


ELECTIONS = """const election = (epoch, leader_id, known_ms, leaderless_ms, cause) => ({
    epoch, leader_id, offset: 1, timestamp_ms: known_ms - 1,
    seen: cause ? {cause, evidence: `of ${cause}`,
    role: "follower", lost_epoch: epoch - 1, lost_leader_id: 1, known_ms, leaderless_ms} : null});
  const elections = [election(4, 1, 1001, null, null), election(5, 2, 3000, 500, "evidence"),
    election(6, 3, 5000, null, "announced")];"""


def test_the_picture_of_the_elections_has_leaders_and_the_time_without_one(
    browser: Browser,
) -> None:
    browser.open(PAGE.as_uri())
    shown = f"""{ELECTIONS}
      const loss = {{cause: "time_out", evidence: "silence", noticed_ms: 8000}};
      const spans = (list) => list.map((r) => [r.leader, r.from, r.lost, r.until]);
      showElections(elections, loss, 9000);
      const svg = byId("reigns");
      return [spans(reigns(elections, null, 9000)), spans(reigns(elections, loss, 9000)),
        [...svg.querySelectorAll(".reign title")].map((e) => e.textContent.replace(/ from .*/, "")),
        [...svg.querySelectorAll(".gap title")].map((e) => e.textContent),
        [...svg.querySelectorAll("rect")].map((e) => Number(e.getAttribute("width"))),
        svg.hasAttribute("hidden"), byId("election-note").textContent];"""
    calm, lost, led, gaps, widths, is_hidden, note = browser.run(shown)
    assert calm == [[1, 1000, 2500, 3000], [2, 3000, 5000, 5000], [3, 5000, 9000, 9000]]
    assert lost[2] == [3, 5000, 8000, 9000]
    assert led == ["node 1 led epoch 4", "node 2 led epoch 5", "node 3 led epoch 6"]
    assert gaps == ["no leader for 500 ms behind epoch 4", "no leader for 1000 ms behind epoch 6"]
    assert widths == [187.5, 250, 375, 62.5, 125]
    assert is_hidden is False
    assert note == "time_out: silence"


def test_each_election_has_its_cause_and_an_empty_list_no_picture(browser: Browser) -> None:
    browser.open(PAGE.as_uri())
    shown = f"""{ELECTIONS}
      showElections(elections, null, 9000);
      const items = [...byId("elections").children].map((e) =>
        [e.textContent.replace(/ · [0-9:]+( [AP]M)?/, ""), e.title]);
      const note = byId("election-note").textContent;
      showElections([], null, 9000);
      return [items, note, byId("reigns").hasAttribute("hidden"),
        byId("election-note").textContent];"""
    items, note, is_hidden, empty = browser.run(shown)
    assert items == [
        ["epoch 6: node 3 · announced", "seen as follower: of announced"],
        ["epoch 5: node 2 · evidence · 500 ms without a leader", "seen as follower: of evidence"],
        ["epoch 4: node 1 · cause not seen", ""],
    ]
    assert note == "3, newest first, causes as this node saw them"
    assert is_hidden is True
    assert empty == ""
