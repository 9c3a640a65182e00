"""Partitions, elections, reassignments and ACLs through the AdminClients of two libraries."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum, wait_until

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SECONDS = 15
ANY_ACL = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def _acl(name: str, *, prefixed: bool = False) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType.TOPIC, name, pattern, "User:x", "*", AclOperation.READ, AclPermissionType.ALLOW
    )


def _done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(SECONDS) for future in futures.values()]


def _code(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as refused:
        _done(futures)
    code: int = refused.value.args[0].code()
    return code


@pytest.fixture
def confluent(quorum: Quorum) -> AdminClient:
    """librdkafka; its futures live as long as it does."""
    return AdminClient({"bootstrap.servers": quorum.bootstrap})


@pytest.fixture
def topic(confluent: AdminClient, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions on all three brokers."""
    name = re.sub(r"[^a-zA-Z0-9-]", "-", request.node.name)
    _done(confluent.create_topics([NewTopic(name, 2, replication_factor=3)]))
    return name


@pytest.fixture
def admin(quorum: Quorum) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=quorum.bootstrap)
    yield made
    made.close()


def _partitions(admin: KafkaAdminClient, name: str) -> dict[int, list[int]]:
    """Replicas by partition, from DescribeTopicPartitions."""
    (row,) = admin.describe_topic_partitions([name])["topics"]
    return {p["partition_index"]: p["replica_nodes"] for p in row["partitions"]}


def test_partitions_are_added(confluent: AdminClient, admin: KafkaAdminClient, topic: str) -> None:
    client = confluent
    _done(client.create_partitions([NewPartitions(topic, 4)], validate_only=True))
    _done(client.create_partitions([NewPartitions(topic, 3, [[3, 1, 2]])]))
    wait_until(lambda: len(_partitions(admin, topic)) == 3, SECONDS, lambda: "no third partition")
    assert _partitions(admin, topic)[2] == [3, 1, 2]
    assert _code(client.create_partitions([NewPartitions(topic, 2)])) == 37
    assert _code(client.create_partitions([NewPartitions(topic, 4, [[1]])])) == 39
    assert _code(client.create_partitions([NewPartitions("never-was", 4)])) == 3


def test_elections_that_nobody_needs(confluent: AdminClient, topic: str) -> None:
    wanted = [ConfluentPartition(topic, 0), ConfluentPartition("never-was", 0)]
    answer = confluent.elect_leaders(ElectionType.PREFERRED, wanted).result(SECONDS)
    codes = {partition.topic: error.code() for partition, error in answer.items()}
    assert codes == {topic: 84, "never-was": 3}


def test_reassignments_complete(admin: KafkaAdminClient, topic: str) -> None:
    """Also where a replica is added: its fetches reach the end, and the leader takes it in."""
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    before = _partitions(admin, topic)[0]
    for target in (before[:2], [before[0], before[2]], [before[1]]):
        assert admin.alter_partition_reassignments({first: target}) == {first: None}
        is_done = partial(_is_assigned, admin, topic, target)
        wait_until(is_done, SECONDS, lambda: f"{admin.list_partition_reassignments()}")
        assert first not in admin.list_partition_reassignments()
    answer = admin.alter_partition_reassignments({first: None, second: None})
    assert answer == {first: NoReassignmentInProgressError, second: NoReassignmentInProgressError}


def _is_assigned(admin: KafkaAdminClient, topic: str, target: list[int]) -> bool:
    return _partitions(admin, topic)[0] == target


def test_reassignments_are_refused_one_by_one(admin: KafkaAdminClient, topic: str) -> None:
    first, unknown = TopicPartition(topic, 0), TopicPartition("never-was", 0)
    answer = admin.alter_partition_reassignments({first: [9], unknown: [1]})
    assert answer == {
        first: InvalidReplicationAssignmentError,
        unknown: UnknownTopicOrPartitionError,
    }


def test_without_an_authorizer_acls_are_refused(confluent: AdminClient) -> None:
    assert _code(confluent.create_acls([_acl("t")])) == 54
    assert _code(confluent.delete_acls([ANY_ACL])) == 54


def test_acls_decide(tmp_path: Path) -> None:
    """The anonymous super user sets an ACL; without that right the cluster shows nothing."""
    words = ("--set", f"authorizer.class.name={AUTHORIZER}", "--set", "super.users=User:ANONYMOUS")
    with quorums.running(tmp_path / "quorum", *words) as quorum:
        client = AdminClient({"bootstrap.servers": quorum.bootstrap})
        _done(client.create_acls([_acl("t"), _acl("team-", prefixed=True)]))

        def described() -> list[AclBinding]:
            found: list[AclBinding] = client.describe_acls(ANY_ACL).result(SECONDS)
            return found

        wait_until(lambda: len(described()) == 2, SECONDS, lambda: f"{described()}")
        (deleted,) = _done(client.delete_acls([ANY_ACL]))
        assert {acl.name for acl in deleted} == {"t", "team-"}
        wait_until(lambda: not described(), SECONDS, lambda: f"{described()}")


def test_a_denied_topic_is_hidden_and_refused(tmp_path: Path) -> None:
    words = ("--set", f"authorizer.class.name={AUTHORIZER}")
    words += ("--set", "allow.everyone.if.no.acl.found=true")
    with quorums.running(tmp_path / "quorum", *words) as quorum:
        client = AdminClient({"bootstrap.servers": quorum.bootstrap})
        topics = [NewTopic(name, 1, replication_factor=3) for name in ("secret", "open")]
        _done(client.create_topics(topics))
        denied = AclBinding(
            ResourceType.TOPIC,
            "secret",
            ResourcePatternType.LITERAL,
            "User:*",
            "*",
            AclOperation.ALL,
            AclPermissionType.DENY,
        )
        _done(client.create_acls([denied]))

        def names() -> set[str]:
            return set(client.list_topics(timeout=SECONDS).topics)

        wait_until(lambda: names() == {"open"}, SECONDS, lambda: f"{names()}")
        (error,) = (t.error for t in client.list_topics("secret", timeout=SECONDS).topics.values())
        assert error.code() == 29
        assert _code(client.create_partitions([NewPartitions("secret", 2)])) == 29
        assert _code(client.describe_configs([ConfigResource("topic", "secret")])) == 29
        _done(client.create_partitions([NewPartitions("open", 2)]))
