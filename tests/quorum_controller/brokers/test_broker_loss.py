"""A broker with 10,000 of 50,000 replicas dies: turns are small and others go on."""

import pytest

from metadata.records import (
    NO_LEADER_CHANGE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from quorum_controller.result import RECORDS_PER_SLICE_MAX
from tests.quorum_controller.controller_harness import Harness, manual, topic

SESSION_MS = 9_000
PARTITIONS = 25_000
BROKERS = (1, 2, 3, 4, 5)


def replicas(index):
    """Two of five brokers: every broker has 10,000 replicas and leads 5,000 partitions."""
    step = 1 + index // len(BROKERS) % (len(BROKERS) - 1)
    return BROKERS[index % len(BROKERS)], BROKERS[(index + step) % len(BROKERS)]


@pytest.fixture(scope="module")
def cluster():
    made = Harness().start(*BROKERS)
    for start in range(0, PARTITIONS, 5_000):
        made.create(manual(f"t{start}", *map(replicas, range(start, start + 5_000))))
    return made


def die(cluster, broker_id):
    """Everybody but this broker is heard; then its session is over. The batches before that."""
    cluster.now_ms += SESSION_MS // 2
    for other in BROKERS:
        if other != broker_id:
            cluster.heartbeat(other)
    before = len(cluster.batches)
    cluster.tick(SESSION_MS // 2 + 1)
    return before


def test_a_death_is_worked_off_in_slices_and_others_are_answered_between_them(cluster):
    before = die(cluster, 1)
    assert cluster.controller.next_deadline_ms() == cluster.now_ms, "more is due"
    created = cluster.create(topic("meanwhile"))
    assert created.topics[0].error_code == 0
    assert not cluster.image.brokers[1].fenced, "answered long before the end"
    turns = 0
    while cluster.controller.next_deadline_ms() <= cluster.now_ms:
        cluster.tick()
        cluster.commit()
        turns += 1
    sizes = [len(batch.records) for batch in cluster.batches[before:]]
    assert max(sizes) <= RECORDS_PER_SLICE_MAX
    assert 10 <= turns <= 12
    assert cluster.image.brokers[1].fenced
    assert not [p for p in partitions(cluster) if p.leader == 1]
    last = [r for r in cluster.log if isinstance(r, BrokerRegistrationChangeRecord)][-1]
    assert (last.broker_id, last.fenced) == (1, 1)


def work_off(cluster):
    """Let the controller do all that is due."""
    while cluster.controller.next_deadline_ms() <= cluster.now_ms:
        cluster.tick()
        cluster.commit()


def partitions(cluster):
    return [p for t in cluster.image.topics.values() for p in t.partitions.values()]


def test_what_the_broker_leads_moves_before_it_leaves_the_isr_of_others(cluster):
    if not cluster.image.brokers[1].fenced:  # the test above ran in another process
        die(cluster, 1)
        work_off(cluster)
    before = die(cluster, 2)
    work_off(cluster)
    changes = [
        record
        for batch in cluster.batches[before:]
        for record in batch.records
        if isinstance(record, PartitionChangeRecord)
    ]
    moved = [record.leader != NO_LEADER_CHANGE for record in changes]
    # Broker 1 died before: what was led by it is led by its only other replica.
    assert moved == sorted(moved, reverse=True)
    assert moved.count(True) > PARTITIONS // len(BROKERS)
    assert not [p for p in partitions(cluster) if 2 in p.isr and p.leader != -1]
