"""Offsets that clients of assigned partitions commit and fetch: two libraries, three nodes.

One node coordinates a group at a time; it is killed while clients commit, and another one goes on
with all that was acknowledged.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from kafka.structs import OffsetAndMetadata

from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from tests.interop import quorum as quorums
from tests.interop.quorum import Quorum, wait_until

SECONDS = 15.0
TOPIC = "read-by-groups"


@pytest.fixture(scope="module")
def topic(quorum: Quorum) -> str:
    create(quorum)
    return TOPIC


def create(quorum: Quorum) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(SECONDS)


def librdkafka(quorum: Quorum, group: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": quorum.bootstrap, "group.id": group, "enable.auto.commit": False,
         "log_level": 0}
    )  # fmt: skip


@pytest.fixture
def consumer(quorum: Quorum, request: pytest.FixtureRequest) -> Iterator[Consumer]:
    made = librdkafka(quorum, f"group of {request.node.name}")
    yield made
    made.close()


def partitions(*offsets: int) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number, offset) for number, offset in enumerate(offsets)]


def eventually(ask: Callable[[], Any]) -> Any:
    """The result, once the coordinator has been elected."""
    found: list[Any] = []
    errors: list[str] = []

    def asked() -> bool:
        try:
            found.append(ask())
        except KafkaException as error:
            errors.append(str(error))
        return bool(found)

    wait_until(asked, SECONDS, lambda: "; ".join(errors[-3:]))
    return found[0]


def test_librdkafka_commits_and_another_consumer_fetches(
    quorum: Quorum, topic: str, consumer: Consumer
) -> None:
    consumer.assign(partitions(0, 0, 0))
    eventually(lambda: consumer.commit(offsets=partitions(5, 6), asynchronous=False))
    other = librdkafka(
        quorum, f"group of {test_librdkafka_commits_and_another_consumer_fetches.__name__}"
    )
    found = other.committed([TopicPartition(topic, n) for n in range(3)], timeout=SECONDS)
    other.close()
    assert [each.offset for each in found] == [5, 6, -1001]


def test_kafka_python_commits_with_metadata(quorum: Quorum, topic: str) -> None:
    first = PythonTopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=quorum.bootstrap, group_id="kafka-python-group")
    consumer.assign([first])
    consumer.commit({first: OffsetAndMetadata(7, "read", -1)})
    assert consumer.committed(first) == 7
    assert consumer.committed(first, metadata=True).metadata == "read"
    assert consumer.committed(PythonTopicPartition(topic, 1)) is None
    consumer.close()


def test_the_admin_client_lists_and_sets_offsets(quorum: Quorum, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    group = "group of an admin"
    request = ConsumerGroupTopicPartitions(group, partitions(3, 4))
    eventually(lambda: admin.alter_consumer_group_offsets([request])[group].result(SECONDS))
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = listed[group].result(SECONDS).topic_partitions
    assert sorted((each.partition, each.offset) for each in found) == [(0, 3), (1, 4)]


def leader_of(quorum: Quorum, number: int) -> int:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap})
    metadata = admin.list_topics(CONSUMER_OFFSETS, timeout=SECONDS)
    return int(metadata.topics[CONSUMER_OFFSETS].partitions[number].leader)


def test_a_killed_coordinator_loses_no_acknowledged_offset(tmp_path: Path) -> None:
    with quorums.running(tmp_path / "quorum") as cluster:
        create(cluster)
        consumer = librdkafka(cluster, "survivor")
        consumer.assign(partitions(0, 0, 0))
        eventually(lambda: consumer.commit(offsets=partitions(1, 1, 1), asynchronous=False))
        acknowledged = 1
        number = partition_for("survivor", 50)
        for _ in range(2):
            killed = leader_of(cluster, number)
            cluster.run("kill", str(killed))
            for _ in range(20):
                wanted = partitions(*[acknowledged + 1] * 3)
                eventually(
                    lambda offsets=wanted: consumer.commit(offsets=offsets, asynchronous=False)
                )
                acknowledged += 1
            other = librdkafka(cluster, "survivor")
            asked = [TopicPartition(TOPIC, n) for n in range(3)]
            found = eventually(partial(other.committed, asked, timeout=3))
            assert [each.offset for each in found] == [acknowledged] * 3
            other.close()
            cluster.up()
            cluster.wait_healthy()
        consumer.close()
