"""Groups of KIP-848 at three nodes with librdkafka: they share, die, go on, change protocols."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.quorum import Quorum, running
from tests.interop.test_groups import PARTITIONS, SECONDS, Group, leader_of

CLIENT = "confluent-kafka"
SETTINGS = {
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    """Three nodes whose groups notice soon that a member has gone."""
    words = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    with running(tmp_path_factory.mktemp("consumer-groups") / "quorum", *words) as cluster:
        yield cluster


@pytest.fixture
def group(nodes: Quorum) -> Iterator[Group]:
    made = Group(nodes, CLIENT)
    yield made
    made.end()


def described(group: Group):
    admin = AdminClient({"bootstrap.servers": group.nodes.bootstrap, "log_level": 2})
    return admin.describe_consumer_groups([group.name])[group.name].result(SECONDS)


def test_members_share_join_leave_and_the_group_is_deleted(group: Group) -> None:
    group.write(40)
    first = group.start("--consumer")
    group.wait_owned(4)
    group.wait_read()
    second, third = group.start("--consumer"), group.start("--consumer")
    group.wait_owned(1, 1, 2)
    group.write(40)
    group.wait_read()
    group.wait_committed()
    found = described(group)
    assert str(found.type).endswith("CONSUMER")
    assert len(found.members) == 3
    assert all(member.target_assignment is not None for member in found.members)
    second.stop()
    third.stop()
    group.wait_owned(4, members=[first])
    first.stop()
    assert group.committed() == len(group.written)
    admin = AdminClient({"bootstrap.servers": group.nodes.bootstrap, "log_level": 2})
    assert admin.delete_consumer_groups([group.name])[group.name].result(SECONDS) is None


def test_partitions_of_a_killed_member_are_taken_over(group: Group) -> None:
    first, second = group.start("--consumer"), group.start("--consumer")
    group.wait_owned(2, 2)
    group.write(40)
    group.wait_read()
    group.wait_committed()
    second.kill()
    group.wait_owned(4, members=[first])
    group.write(40)
    group.wait_read()
    group.wait_committed()


def test_a_static_member_takes_its_place_again(group: Group) -> None:
    first = group.start("--consumer", "--instance", "one")
    group.wait_owned(4)
    second = group.start("--consumer", "--instance", "two")
    group.wait_owned(2, 2)
    before, owned = len(first.events), second.owned
    second.stop()
    again = group.start("--consumer", "--instance", "two")
    group.wait(lambda: again.owned == owned, "it has what it had")
    changes = [e for e in first.events[before:] if "assigned" in e or "revoked" in e]
    assert changes == []


def test_a_regular_expression_is_subscribed(group: Group) -> None:
    topic, group.topic = group.topic, f"^{group.topic}$"
    member = group.start("--consumer")
    group.topic = topic
    group.wait_owned(4, members=[member])
    group.write(8)
    group.wait_read()


def kill_coordinator(nodes: Quorum, group: Group) -> int:
    coordinator = leader_of(nodes, group.name)
    nodes.run("kill", str(coordinator))
    return coordinator


def test_the_group_goes_on_when_its_coordinator_is_killed(nodes: Quorum, group: Group) -> None:
    group.start("--consumer"), group.start("--consumer")
    group.wait_owned(2, 2)
    group.write(40)
    group.wait_read()
    group.wait_committed()
    killed = kill_coordinator(nodes, group)
    group.wait(lambda: leader_of(nodes, group.name) != killed, "another coordinates")
    group.write(40)
    group.wait_read()
    third = group.start("--consumer")
    group.wait_owned(1, 1, 2)
    group.wait_committed()
    nodes.up()
    nodes.wait_healthy()
    third.stop()
    group.wait_owned(2, 2, members=group.members[:2])
    group.write(40)
    group.wait_read()
    group.wait_committed()
    read = [value for member in group.members for _, _, value in member.read]
    assert len(set(read)) == len(group.written)


@pytest.mark.parametrize("words", [(), ("--cooperative",)])
def test_members_of_both_protocols_share(group: Group, words: tuple[str, ...]) -> None:
    """The group is upgraded, and downgraded when the last of the new protocol leaves."""
    old = group.start(*words)
    group.wait_owned(4)
    group.write(40)
    group.wait_read()
    group.wait_committed()
    assert str(described(group).type).endswith("CLASSIC")
    new = group.start("--consumer")
    group.wait_owned(2, 2)
    assert str(described(group).type).endswith("CONSUMER")
    group.write(40)
    group.wait_read()
    group.wait_committed()
    new.stop()
    group.wait_owned(PARTITIONS, members=[old])
    group.wait(lambda: str(described(group).type).endswith("CLASSIC"), "it is a classic group")
    group.write(40)
    group.wait_read()
    group.wait_committed()


def test_a_group_is_moved_to_the_new_protocol_member_by_member(group: Group) -> None:
    old = [group.start(), group.start()]
    group.wait_owned(2, 2)
    new = []
    for member in old:
        new.append(group.start("--consumer"))
        group.write(8)
        group.wait_read()
        member.stop()
    group.wait_owned(2, 2, members=new)
    group.write(40)
    group.wait_read()
    group.wait_committed()
