"""The resources about records: a partition with its replica here, and what the broker did."""

from collections.abc import AsyncIterator

import pytest

from inspection.openapi import document
from tests.inspection.conftest import Site, open_site, ready_world
from tests.inspection.records import Beside
from tests.storage.test_unified_log import produced


@pytest.fixture
async def serving() -> AsyncIterator[tuple[Site, Beside]]:
    """A node with the records of its broker, which leads a partition of `users` or follows."""
    world = ready_world()
    leader = world.active()
    assert leader is not None
    kernel = world.kernel(leader)
    beside = Beside(kernel)
    site = await open_site(world, leader, beside)
    yield site, beside
    await site.client.close()
    assert site.errors == []


def led(site: Site) -> int:
    """Number of a partition of `orders` that this node leads."""
    (topic,) = (t for t in site.kernel.cache.image.topics.values() if t.name == "orders")
    number: int = next(n for n, p in topic.partitions.items() if p.leader == site.node_id)
    return number


async def test_a_partition_with_the_replica_at_its_leader(serving: tuple[Site, Beside]) -> None:
    site, beside = serving
    number = led(site)
    topic_id = site.kernel.cache.image.topic_id_by_name["orders"]
    beside.driven.broker._replicas.append(
        {(topic_id, number): produced(1, 2, producer=9)},
        required_acks=1,
        timeout_ms=0,
        answer=lambda _: None,
    )
    answer = await site.get(f"/v1/partitions/orders/{number}")
    assert answer["metadata_offset"] == site.end_offset
    assert answer["partition"]["topic"] == "orders"
    assert answer["partition"]["partition"] == number
    replica = answer["replica"]
    assert (replica["role"], replica["leader_id"]) == ("leader", site.node_id)
    log = replica["log"]
    assert replica["future_log"] is None
    assert (log["log_start_offset"], log["log_end_offset"], log["high_watermark"]) == (0, 2, 0)
    assert [segment["largest_timestamp_ms"] for segment in log["segments"]] == [2]
    assert [each["producer_id"] for each in log["producers"]] == [9]
    assert len(replica["leadership"]["followers"]) == 2
    text = await (await site.client.get("/metrics")).text()
    assert "kafka_server_brokertopicmetrics_messagesin_total 2.0" in text
    site_answer = await site.get("/v1/records")
    assert site_answer["counters"]["messages_in"] == 2
    assert site_answer["leader_count"] >= 1
    assert site_answer["replica_count"] >= site_answer["leader_count"]
    assert site_answer["metadata_offset"] == site.end_offset


async def test_records_that_do_not_answer_are_503(serving: tuple[Site, Beside]) -> None:
    site, beside = serving
    beside.is_stalled = True
    for path in (f"/v1/partitions/orders/{led(site)}", "/v1/records"):
        problem = await site.get(path, 503)
        assert "does not answer" in problem["detail"]
    await site.get("/v1/partitions")
    text = await (await site.client.get("/metrics")).text()
    assert "kafka_server_replicamanager_leadercount" in text
    assert "messagesin" not in text
    await site.get("/livez")


async def test_a_node_without_records_says_what_the_metadata_say(site: Site) -> None:
    answer = await site.get("/v1/partitions/orders/0")
    assert answer["replica"] is None
    assert answer["partition"]["partition"] == 0
    assert (await site.get("/v1/records", 404))["status"] == 404


@pytest.mark.parametrize(
    ("path", "status", "parameter"),
    [
        ("/v1/partitions/nothing/0", 404, "topic"),
        ("/v1/partitions/orders/3", 404, "partition"),
        ("/v1/partitions/orders/one", 400, "partition"),
        ("/v1/partitions/orders/2147483648", 400, "partition"),
    ],
)
async def test_a_partition_that_is_not_there(
    site: Site, path: str, status: int, parameter: str
) -> None:
    assert (await site.get(path, status))["parameter"] == parameter


async def test_partitions_are_counted_here(serving: tuple[Site, Beside]) -> None:
    site, _ = serving
    topics = site.kernel.cache.image.topics.values()
    leaders = [p.leader for topic in topics for p in topic.partitions.values()]
    answer = await site.get("/v1/records")
    assert answer["leader_count"] == leaders.count(site.node_id)
    assert (answer["under_replicated_count"], answer["under_min_isr_count"]) == (0, 0)


def test_the_refusal_of_records_is_described_as_a_problem() -> None:
    paths = document()["paths"]

    def media(path: str) -> set[str]:
        return set(paths[path]["get"]["responses"]["503"]["content"])

    assert media("/v1/records") == media("/v1/partitions/{topic}/{partition}")
    assert media("/v1/records") == {"application/problem+json"}
    assert "application/json" in media("/readyz")
