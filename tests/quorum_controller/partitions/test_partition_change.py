"""One partition at a time: who may lead beside a live ISR, what a reassignment leaves behind."""

from types import SimpleNamespace

import pytest
from kio.schema.broker_registration.v4.request import Feature
from kio.schema.elect_leaders.v2.request import TopicPartitions

from metadata.records import FeatureLevelRecord
from quorum_controller.result import Draft
from tests.quorum_controller.controller_harness import SECOND, Harness, manual
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS
from wire.errors import ErrorCode

ELR = "eligible.leader.replicas.version"
PREFERRED = 0


def eligible(*replicas):
    """Brokers 1 to 3, one partition on these replicas, ELR on, min.insync.replicas 3."""
    cluster = Harness(29, session_timeout_ms=10**9, properties={"min.insync.replicas": "3"})
    draft = Draft(cluster.image, cluster.controller.next_offset)
    draft.emit(FeatureLevelRecord(name=ELR, feature_level=1))
    cluster.take_draft(draft)
    ranges = tuple(
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, low, high in (("metadata.version", 1, 29), (ELR, 0, 1))
    )
    for broker_id in (1, 2, 3):
        cluster.register(broker_id, features=ranges)
        cluster.heartbeat(broker_id)
    cluster.create(manual("t", replicas))
    return cluster


def reassign(cluster, replicas, name="t"):
    """The error code of partition 0."""
    wanted = SimpleNamespace(partition_index=0, replicas=replicas)
    body = SimpleNamespace(
        topics=(SimpleNamespace(name=name, partitions=(wanted,)),),
        allow_replication_factor_change=True,
        timeout=SECOND,
    )
    response = cluster.call(ALTER_PARTITION_REASSIGNMENTS, body)
    return response.responses[0].partitions[0].error_code


def lists(cluster):
    partition = cluster.partition("t")
    return partition.leader, partition.isr, partition.elr


def away_and_back(cluster, broker_id):
    """It leaves the ISR for the ELR, and serves again."""
    cluster.heartbeat(broker_id, fence=True)
    cluster.heartbeat(broker_id)
    assert not cluster.image.brokers[broker_id].fenced


def test_a_member_of_the_elr_leads_only_when_the_isr_is_empty():
    """It may lack what the ISR has committed since; only nobody else is worse."""
    cluster = eligible(3, 2, 1)
    away_and_back(cluster, 3)
    assert lists(cluster) == (2, (2, 1), (3,))
    cluster.heartbeat(2, fence=True)
    assert lists(cluster) == (1, (1,), (2, 3)), "3 is the first replica and alive, and not in sync"
    cluster.heartbeat(1, fence=True)
    assert lists(cluster) == (3, (3,), (1, 2))


def test_a_preferred_leader_in_the_elr_waits_for_the_isr():
    cluster = eligible(3, 2, 1)
    away_and_back(cluster, 3)
    body = SimpleNamespace(
        election_type=PREFERRED,
        topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),),
        timeout=SECOND,
    )
    (topic,) = cluster.call(ELECT_LEADERS, body).replica_election_results
    (row,) = topic.partition_result
    assert row.error_code is ErrorCode.preferred_leader_not_available
    assert lists(cluster) == (2, (2, 1), (3,))


def test_a_removed_replica_leaves_the_elr():
    cluster = eligible(1, 2, 3)
    cluster.heartbeat(3, fence=True)
    assert lists(cluster) == (1, (1, 2), (3,))
    assert reassign(cluster, (1, 2)) is ErrorCode.none
    assert cluster.partition("t").replicas == (1, 2)
    assert lists(cluster) == (1, (1, 2), ())


def test_topics_of_another_replication_factor_do_not_share_a_decision():
    """The minimum is at most the replicas of partition 0: equal partitions differ in their ELR."""
    cluster = eligible(1, 2)
    for name in ("before", "after"):
        cluster.create(manual(name, (1, 2), (1, 2)))
    cluster.create(manual("small", (1, 2), (1, 2)))
    assert reassign(cluster, (2,), "small") is ErrorCode.none
    cluster.heartbeat(1, fence=True)
    elr = {n: cluster.partition(n, 1).elr for n in ("before", "after", "small")}
    assert elr == {"before": (1,), "after": (1,), "small": ()}


def moving(cluster):
    partition = cluster.partition("t")
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


@pytest.mark.parametrize(
    ("second", "during"),
    [
        ((1, 2, 5), ((1, 2, 5, 3, 4), (4, 5), (3, 4))),
        ((1, 2, 4, 5), ((1, 2, 4, 5, 3), (4, 5), (3,))),
        ((1, 4, 3), ((1, 4, 3, 2), (4,), (2,))),
    ],
)
def test_a_cancellation_ends_where_the_first_of_two_reassignments_began(second, during):
    cluster = Harness(session_timeout_ms=10**9).start(1, 2, 3, 4, 5)
    cluster.create(manual("t", (1, 2, 3)))
    assert reassign(cluster, (1, 2, 4)) is ErrorCode.none
    assert moving(cluster) == ((1, 2, 4, 3), (4,), (3,))
    assert reassign(cluster, second) is ErrorCode.none
    assert moving(cluster) == during
    assert reassign(cluster, None) is ErrorCode.none
    partition = cluster.partition("t")
    assert (set(partition.replicas), set(partition.isr)) == ({1, 2, 3}, {1, 2, 3})
    assert not partition.is_reassigning
