"""The first page of a node in a real browser, while the leader is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.browser.webdriver import Browser
from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum

pytestmark = pytest.mark.browser


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
