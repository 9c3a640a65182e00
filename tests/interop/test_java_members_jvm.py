"""Java's consumers as static, cooperative and killed members, in both protocols.

Members that join and leave, and killed ones of the classic protocol: test_applications_jvm.py.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.mixed_cluster import MixedCluster, mixed_cluster
from tests.interop.quorum import wait_until
from tests.interop.test_applications_jvm import PROTOCOLS, SECONDS, Process, committed_at, owned_by

pytestmark = pytest.mark.jvm
MAIN = "org.apache.kafka.tools.VerifiableConsumer"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
PARTITIONS = 4
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
CLASSIC_SESSION_MS = "20000"
"""Longer than a JVM needs to start."""
COOPERATIVE_SESSION_MS = "6000"
Start = Callable[..., Process]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """One node of ours."""
    folder = tmp_path_factory.mktemp("java-members")
    with mixed_cluster(folder, {1: "ours"}, properties=SETTINGS) as made:
        yield made


@pytest.fixture
def start(cluster: MixedCluster, tmp_path: Path) -> Iterator[Start]:
    """Start a member of a group whose topic has its name; all end with the test."""
    started: list[Process] = []

    def begin(group: str, *words: str) -> Process:
        base = ["--bootstrap-server", cluster.bootstrap, "--topic", group, "--group-id", group]
        started.append(Process(tmp_path, MAIN, *base, "--verbose", *words))
        return started[-1]

    yield begin
    for one in started:
        one.end()


def write(cluster: MixedCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def wait_owned(*wanted: tuple[Process, int]) -> None:
    """Wait until each has so many partitions, and all of them one owner."""

    def are_owned() -> bool:
        owned = [owned_by(member) for member, _ in wanted]
        counts = [len(numbers) for numbers in owned]
        return counts == [count for _, count in wanted] and set().union(*owned) == set(
            range(PARTITIONS)
        )

    wait_until(are_owned, SECONDS, lambda: "\n".join(member.told() for member, _ in wanted))


def read(*members: Process) -> list[tuple[int, int]]:
    """Partition and offset of all that they have read."""
    return sorted((e["partition"], e["offset"]) for m in members for e in m.of("record_data"))


def changes(member: Process) -> list[set[int]]:
    """Partitions that were assigned and revoked, one after the other."""
    names = ("partitions_assigned", "partitions_revoked")
    found = [event for event in member.events if event["name"] in names]
    return [{each["partition"] for each in event["partitions"]} for event in found]


def wait_read(cluster: MixedCluster, group: str, each: int, *members: Process) -> None:
    """Wait until a number of records of each partition were read once, and are committed."""
    every = [(partition, offset) for partition in range(PARTITIONS) for offset in range(each)]
    wait_until(lambda: read(*members) == every, SECONDS, lambda: f"{read(*members)}")
    ends = dict.fromkeys(range(PARTITIONS), each)
    wait_until(
        lambda: committed_at(cluster.bootstrap, group, group) == ends, SECONDS, members[0].told
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_takes_its_place_again(
    cluster: MixedCluster, start: Start, protocol: str
) -> None:
    """Killed where that keeps the place; then, of the new protocol, killed for good."""
    group = f"static-{protocol}"
    cluster.create(group, {number: [1] for number in range(PARTITIONS)})
    words = ["--group-protocol", protocol]
    if protocol == "classic":
        words += ["--session-timeout", CLASSIC_SESSION_MS]
    first, second = (start(group, *words, "--group-instance-id", name) for name in ("one", "two"))
    wait_owned((first, 2), (second, 2))
    write(cluster, group, 40)
    wait_read(cluster, group, 10, first, second)
    before, owned = changes(first), owned_by(second)
    second.end(signal.SIGKILL if protocol == "classic" else signal.SIGTERM)
    again = start(group, *words, "--group-instance-id", "two")
    wait_until(lambda: owned_by(again) == owned, SECONDS, again.told)
    write(cluster, group, 40)
    wait_read(cluster, group, 20, first, second, again)
    assert changes(first) == before, "nothing was rebalanced"
    if protocol == "consumer":
        again.end()
        write(cluster, group, 40)
        wait_owned((first, PARTITIONS))
        wait_read(cluster, group, 30, first, second, again)


def test_cooperative_members_keep_what_they_may(cluster: MixedCluster, start: Start) -> None:
    group = "cooperative"
    cluster.create(group, {number: [1] for number in range(PARTITIONS)})
    words = ["--assignment-strategy", COOPERATIVE, "--session-timeout", COOPERATIVE_SESSION_MS]
    first = start(group, *words)
    wait_owned((first, PARTITIONS))
    second = start(group, *words)
    wait_owned((first, 2), (second, 2))
    revoked = [{p["partition"] for p in e["partitions"]} for e in first.of("partitions_revoked")]
    assert [numbers for numbers in revoked if numbers] == [owned_by(second)]
    write(cluster, group, 40)
    wait_read(cluster, group, 10, first, second)
    second.end()
    write(cluster, group, 40)
    wait_owned((first, PARTITIONS))
    wait_read(cluster, group, 20, first, second)
    revoked = [{p["partition"] for p in e["partitions"]} for e in first.of("partitions_revoked")]
    assert len([numbers for numbers in revoked if numbers]) == 1, "it kept what it had"
