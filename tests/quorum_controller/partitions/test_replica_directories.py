"""AssignReplicasToDirs: a replica in a directory that is not served leaves ISR and leadership."""

import uuid

import pytest
from kio.schema.assign_replicas_to_dirs.v0.request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

from tests.quorum_controller.controller_harness import Harness, directory, manual
from wire.api_keys import ASSIGN_REPLICAS_TO_DIRS
from wire.errors import ErrorCode

GONE = uuid.UUID(int=99)


@pytest.fixture
def cluster():
    """A partition that broker 1 leads and one that it follows."""
    started = Harness(session_timeout_ms=10**9).start(1, 2, 3)
    started.create(manual("led", (1, 2, 3)), manual("followed", (2, 1, 3)))
    return started


def assign(cluster, where, *names):
    """The error codes of moving broker 1's replicas of partition 0."""
    topics = tuple(
        TopicData(
            topic_id=uuid.UUID(bytes=cluster.image.topic_named(name).topic_id),
            partitions=(PartitionData(partition_index=0),),
        )
        for name in names
    )
    body = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=cluster.image.brokers[1].epoch,
        directories=(DirectoryData(id_=where, topics=topics),),
    )
    answer = cluster.call(ASSIGN_REPLICAS_TO_DIRS, body)
    (row,) = answer.directories
    return [partition.error_code for topic in row.topics for partition in topic.partitions]


def test_a_directory_that_is_not_served_ends_isr_and_leadership(cluster):
    assert assign(cluster, GONE, "led", "followed") == [ErrorCode.none] * 2
    led, followed = cluster.partition("led"), cluster.partition("followed")
    assert (led.leader, led.isr) == (2, (2, 3))
    assert (followed.leader, followed.isr) == (2, (2, 3))
    assert led.directories[0] == followed.directories[1] == GONE.bytes


def test_a_directory_that_is_served_changes_nothing_else(cluster):
    before = cluster.partition("led")
    assert assign(cluster, directory(1), "led") == [ErrorCode.none]
    after = cluster.partition("led")
    assert (after.leader, after.isr) == (before.leader, before.isr)


def test_who_left_already_is_only_moved(cluster):
    assign(cluster, GONE, "led")
    other = uuid.UUID(int=98)
    epoch = cluster.partition("led").partition_epoch
    assert assign(cluster, other, "led") == [ErrorCode.none]
    assert cluster.partition("led").directories[0] == other.bytes
    assert cluster.partition("led").partition_epoch == epoch + 1
