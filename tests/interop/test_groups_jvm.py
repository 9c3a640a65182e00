"""Groups between our broker and Kafka's: one goes on with the group of the other; Kafka's tool."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from benchmarks.clusters import kafka_peer
from tests.interop.group_process import Member
from tests.interop.mixed_cluster import START_SECONDS, MixedCluster, Software, mixed_cluster
from tests.interop.quorum import wait_until

pytestmark = pytest.mark.jvm
GROUP, TOPIC = "moved", "read"
ALONE = {"offsets.topic.replication.factor": "1", "group.initial.rebalance.delay.ms": "0"}
SESSION_MS = "120000"
"""Longer than the broker is away."""


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Callable[[MixedCluster], Member]]:
    """Start the static member of the group; those that are left end with the test."""
    started: list[Member] = []

    def start(cluster: MixedCluster) -> Member:
        words = ("--instance", "one", "--session-ms", SESSION_MS)
        started.append(Member(tmp_path, "confluent-kafka", cluster.bootstrap, GROUP, TOPIC, *words))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def described(cluster: MixedCluster) -> tuple[str, list[tuple[str, list[int]]]]:
    """State of the group, and partitions by instance, once it has a coordinator."""
    found: list[tuple[str, list[tuple[str, list[int]]]]] = []

    def asked() -> bool:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        try:
            group = admin.describe_consumer_groups([GROUP])[GROUP].result(5)
        except Exception:  # noqa: BLE001
            return False
        members = [
            (each.group_instance_id, sorted(p.partition for p in each.assignment.topic_partitions))
            for each in group.members
        ]
        found.append((group.state.name, members))
        return group.state.name != "DEAD"

    wait_until(asked, START_SECONDS, cluster.outputs)
    return found[-1]


def write(cluster: MixedCluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(TOPIC, str(number), partition=number % 2)
    assert producer.flush(START_SECONDS) == 0


@pytest.mark.parametrize("software", ["ours", "kafka"])
def test_a_group_goes_on_with_the_other_broker(
    tmp_path: Path, member: Callable[[MixedCluster], Member], software: Software
) -> None:
    """One folder, opened in turn; the static member is killed and comes back each time."""
    other: Software = "kafka" if software == "ours" else "ours"
    with mixed_cluster(tmp_path, {1: software}, properties=ALONE) as cluster:
        cluster.create(TOPIC, {0: [1], 1: [1]})
        for count, then in ((4, other), (6, software), (8, None)):
            one = member(cluster)
            write(cluster, count)
            wait_until(lambda m=one, n=count: len(m.read) == n, START_SECONDS, one.told)
            assert one.owned == {0, 1}
            assert described(cluster) == ("STABLE", [("one", [0, 1])])
            one.kill()
            if then is not None:
                cluster.stop(1, signal.SIGTERM)
                cluster.start(1, then)
                assert described(cluster) == ("STABLE", [("one", [0, 1])])


def test_kafkas_tool_describes_our_group(
    tmp_path: Path, member: Callable[[MixedCluster], Member]
) -> None:
    with mixed_cluster(tmp_path, {1: "ours"}, properties=ALONE) as cluster:
        cluster.create(TOPIC, {0: [1], 1: [1]})
        one = member(cluster)
        write(cluster, 4)
        wait_until(lambda: len(one.read) == 4, START_SECONDS, one.told)

        def printed(*words: str) -> str:
            return kafka_peer.tool(
                "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
                "--bootstrap-server", cluster.bootstrap, *words,
            )  # fmt: skip

        members = printed("--describe", "--group", GROUP, "--members", "--verbose")
        (row,) = [line.split() for line in members.splitlines() if line.startswith(GROUP)]
        assert re.fullmatch(r"one-[0-9a-f-]{36}", row[1])
        assert row[2:6] == ["one", "/127.0.0.1", "rdkafka", "2"]
        assert f"{TOPIC}:0,1" in row
        state = printed("--describe", "--group", GROUP, "--state")
        (row,) = [line.split() for line in state.splitlines() if line.startswith(GROUP)]
        assert row[-3:] == ["range", "Stable", "1"]
        assert printed("--list", "--state").split()[-2:] == [GROUP, "Stable"]
        refused = printed("--delete", "--group", GROUP)
        assert "GroupNotEmptyException" in refused
        one.kill()
