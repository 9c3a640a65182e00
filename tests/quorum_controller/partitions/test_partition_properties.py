"""Invariants of every partition under random actions of brokers and administrators."""

import uuid
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.broker_registration.v4.request import Feature
from kio.schema.elect_leaders.v2.request import TopicPartitions

from metadata.invariants import violations
from metadata.records import NO_LEADER_CHANGE, FeatureLevelRecord, PartitionChangeRecord
from quorum_controller.partitions.partition_index import PartitionIndex
from quorum_controller.result import Draft
from tests.quorum_controller.controller_harness import SECOND, Harness, incarnation, manual
from tests.selection import examples
from wire.api_keys import ALTER_PARTITION, ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS

BROKERS = (1, 2, 3, 4)
SESSION_MS = 9_000


@st.composite
def steps(draw):
    """(what, number, brokers): the number chooses a broker or an election type."""
    kinds = ("isr", "reassign", "cancel", "elect", "stop", "start", "restart", "silence")
    members = st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=3)
    return draw(st.sampled_from(kinds)), draw(st.sampled_from(BROKERS)), draw(members)


def started(level, *, elr):
    """Four brokers, a topic of one partition on three of them, min.insync.replicas 2."""
    cluster = Harness(level, properties={"min.insync.replicas": "2"})
    if elr:
        draft = Draft(cluster.image, cluster.controller.next_offset)
        draft.emit(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        cluster.take_draft(draft)
    for broker_id in BROKERS:
        register(cluster, broker_id, level)
        cluster.heartbeat(broker_id)
    cluster.create(manual("t", (1, 2, 3)))
    return cluster


def register(cluster, broker_id, level, incarnation_number=None):
    supported = (
        Feature(name="metadata.version", min_supported_version=1, max_supported_version=level),
        Feature(
            name="eligible.leader.replicas.version",
            min_supported_version=0,
            max_supported_version=1,
        ),
    )
    more = {"features": supported}
    if incarnation_number is not None:
        more["incarnation_id"] = incarnation(incarnation_number)
    return cluster.register(broker_id, **more)


def do(cluster, step, number):
    """One step; refusals are answers too."""
    what, broker_id, members = step
    topic = cluster.image.topic_named("t")
    partition = topic.partitions[0]
    level = cluster.level
    if what == "isr" and partition.has_leader:
        ask_isr(cluster, topic, partition, members)
    elif what in ("reassign", "cancel"):
        ask_replicas(cluster, members if what == "reassign" else None)
    elif what == "elect":
        body = SimpleNamespace(
            election_type=broker_id % 2,
            topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),),
            timeout=SECOND,
        )
        cluster.call(ELECT_LEADERS, body)
    elif what == "stop":
        cluster.heartbeat(broker_id, stop=True)
        cluster.heartbeat(broker_id, fence=True)
    elif what == "start":
        cluster.heartbeat(broker_id)
    elif what == "restart":
        cluster.heartbeat(broker_id, fence=True)
        register(cluster, broker_id, level, 100 + number)
    elif what == "silence":
        for other in BROKERS:
            if other != broker_id:
                cluster.heartbeat(other, fence=cluster.image.brokers[other].fenced)
        cluster.tick(SESSION_MS // 2)
        cluster.commit()


def ask_isr(cluster, topic, partition, members):
    leader = partition.leader
    isr = [leader, *(m for m in members if m != leader and m in partition.replicas)]
    states = tuple(SimpleNamespace(broker_id=m, broker_epoch=-1) for m in isr)
    wanted = SimpleNamespace(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=states,
        leader_recovery_state=partition.leader_recovery_state if len(isr) == 1 else 0,
    )
    topics = (SimpleNamespace(topic_id=uuid.UUID(bytes=topic.topic_id), partitions=(wanted,)),)
    epoch = cluster.image.brokers[leader].epoch
    body = SimpleNamespace(broker_id=leader, broker_epoch=epoch, topics=topics)
    cluster.call(ALTER_PARTITION, body)


def ask_replicas(cluster, members):
    wanted = SimpleNamespace(
        partition_index=0, replicas=None if members is None else tuple(members)
    )
    body = SimpleNamespace(
        topics=(SimpleNamespace(name="t", partitions=(wanted,)),),
        allow_replication_factor_change=True,
        timeout=SECOND,
    )
    cluster.call(ALTER_PARTITION_REASSIGNMENTS, body)


def check(cluster, before, records, *, elr):
    """Invariants of the image, and what the records did to the epochs."""
    assert violations(cluster.image) == []
    partition = cluster.partition("t")
    changes = [record for record in records if isinstance(record, PartitionChangeRecord)]
    elections = sum(1 for record in changes if record.leader != NO_LEADER_CHANGE)
    assert partition.partition_epoch == before.partition_epoch + len(changes)
    assert partition.leader_epoch == before.leader_epoch + elections
    assert partition.isr or elr, "without ELR the last member stays"
    assert not set(partition.isr) & set(partition.elr)
    if partition.has_leader:
        leader = cluster.image.brokers[partition.leader]
        assert not leader.fenced
    if partition.is_reassigning and not partition.leader_recovery_state:
        # An unclean election may make it complete; the next change of the partition notices.
        remaining = set(partition.replicas) - set(partition.removing_replicas)
        assert not remaining <= set(partition.isr) or not remaining
    index, fresh = cluster.controller._index, PartitionIndex(cluster.image)
    assert (index.leaderless, index.imbalanced, index.reassigning) == (
        fresh.leaderless,
        fresh.imbalanced,
        fresh.reassigning,
    )
    for broker_id in BROKERS:
        assert fresh.topics_of(broker_id) <= index.topics_of(broker_id)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(steps(), max_size=14), st.sampled_from(((10, False), (21, False), (29, True))))
def test_invariants_hold_after_every_step(walk, kind):
    level, elr = kind
    cluster = started(level, elr=elr)
    for number, step in enumerate(walk):
        before, offset = cluster.partition("t"), len(cluster.log)
        do(cluster, step, number)
        check(cluster, before, cluster.log[offset:], elr=elr)
