"""AlterPartition: the in-sync replicas that a leader asks for, and when it is refused."""

import uuid

import pytest
from kio.schema.alter_partition.v3.request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)

from tests.quorum_controller.controller_harness import Harness, manual
from wire.api_keys import ALTER_PARTITION
from wire.errors import ErrorCode


@pytest.fixture
def cluster():
    """A partition on brokers 1, 2 and 3, led by 1; 4 has no replica of it."""
    started = Harness(session_timeout_ms=10**9).start(1, 2, 3, 4)
    started.create(manual("orders", (1, 2, 3)))
    return started


def alter(cluster, isr, sender=1, *, leader_epoch=0, partition_epoch=0):
    """The answer to one partition's wanted ISR; the epochs are relative to the partition's."""
    partition = cluster.partition("orders")
    brokers = cluster.image.brokers
    wanted = PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch + leader_epoch,
        partition_epoch=partition.partition_epoch + partition_epoch,
        new_isr_with_epochs=tuple(
            BrokerState(broker_id=b, broker_epoch=brokers[b].epoch) for b in isr
        ),
    )
    topic_id = uuid.UUID(bytes=cluster.image.topic_named("orders").topic_id)
    body = AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=brokers[sender].epoch,
        topics=(TopicData(topic_id=topic_id, partitions=(wanted,)),),
    )
    answer = cluster.call(ALTER_PARTITION, body)
    assert answer.error_code == ErrorCode.none
    return answer.topics[0].partitions[0]


def test_a_leader_shrinks_and_expands_its_isr(cluster):
    for isr in ((1, 2), (1,), (1, 2, 3)):
        assert alter(cluster, isr).error_code == ErrorCode.none
        assert cluster.partition("orders").isr == isr


@pytest.mark.parametrize(
    "isr",
    [
        pytest.param((2, 3), id="replicas without the leader"),
        pytest.param((1, 4), id="leader and one without a replica"),
        pytest.param((1, 1), id="leader twice"),
        pytest.param((), id="nobody"),
    ],
)
def test_an_isr_is_made_of_replicas_and_has_the_leader(cluster, isr):
    before = cluster.partition("orders")
    row = alter(cluster, isr)
    assert row.error_code == ErrorCode.invalid_request
    # As Kafka 4.3.1 answers: nothing of the partition is told.
    assert (row.leader_id, row.leader_epoch, row.partition_epoch, row.isr) == (0, 0, 0, ())
    assert row.leader_recovery_state == 0
    assert cluster.partition("orders") == before


@pytest.mark.parametrize(
    ("epochs", "code"),
    [
        ({"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ({"partition_epoch": -1}, ErrorCode.invalid_update_version),
        ({"leader_epoch": 1}, ErrorCode.not_controller),
        ({"partition_epoch": 1}, ErrorCode.not_controller),
        ({"leader_epoch": -1, "partition_epoch": 1}, ErrorCode.not_controller),
    ],
)
def test_a_leader_of_other_epochs_is_refused(cluster, epochs, code):
    before = cluster.partition("orders")
    assert alter(cluster, (1, 2), **epochs).error_code == code
    assert cluster.partition("orders") == before
