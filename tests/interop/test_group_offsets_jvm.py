"""Offsets that our coordinator writes, read by Kafka's dump tool and loaded by its broker."""

import json
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.clusters import kafka_peer
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from tests.interop.mixed_cluster import START_SECONDS, MixedCluster, Software, mixed_cluster
from tests.interop.quorum import wait_until

pytestmark = pytest.mark.jvm
GROUP, TOPIC = "moved", "read"


def committed(cluster: MixedCluster) -> list[int]:
    """Offsets of the group, once it has a coordinator."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 0}
    )  # fmt: skip
    found: list[int] = []

    def asked() -> bool:
        try:
            rows = consumer.committed([TopicPartition(TOPIC, n) for n in range(2)], timeout=5)
        except KafkaException:
            return False
        found[:] = [row.offset for row in rows]
        return True

    wait_until(asked, START_SECONDS, cluster.outputs)
    consumer.close()
    return found


def commit(cluster: MixedCluster, *offsets: int) -> None:
    """Commit offsets with metadata, once the group has a coordinator."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 0,
         "enable.auto.commit": False}
    )  # fmt: skip
    wanted = [TopicPartition(TOPIC, n, offset) for n, offset in enumerate(offsets)]

    def done() -> bool:
        try:
            rows = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return False
        return all(row.error is None for row in rows)

    wait_until(done, START_SECONDS, cluster.outputs)
    consumer.close()


@pytest.mark.parametrize("software", ["ours", "kafka"])
def test_offsets_move_between_our_broker_and_kafkas(tmp_path: Path, software: Software) -> None:
    """One folder, opened in turn: what one has committed the other serves, and goes on."""
    other: Software = "kafka" if software == "ours" else "ours"
    with mixed_cluster(tmp_path, {1: software}, properties=ALONE) as cluster:
        cluster.create(TOPIC, {0: [1], 1: [1]})
        commit(cluster, 5, 6)
        commit(cluster, 7)
        cluster.stop(1, signal.SIGTERM)
        if software == "ours":
            assert dumped(cluster) == [(0, 5), (1, 6), (0, 7)]
        cluster.start(1, other)
        assert committed(cluster) == [7, 6]
        commit(cluster, 8, 9)
        cluster.stop(1, signal.SIGTERM)
        cluster.start(1, software)
        assert committed(cluster) == [8, 9]


ALONE = {"offsets.topic.replication.factor": "1"}


def dumped(cluster: MixedCluster) -> list[tuple[int, int]]:
    """Partition and offset of each commit, as Kafka's tool prints them."""
    number = partition_for(GROUP, 50)
    path = cluster.data(1) / f"{CONSUMER_OFFSETS}-{number}" / f"{0:020}.log"
    printed = kafka_peer.tool(
        "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(path)
    )
    rows = []
    for line in printed.splitlines():
        if " key: {" not in line:
            continue
        key, value = line.split(" key: ")[1].split(" payload: ")
        assert json.loads(key)["data"]["group"] == GROUP
        data = json.loads(value)
        assert data["version"] == "4"
        rows.append((json.loads(key)["data"]["partition"], data["data"]["offset"]))
    return rows
