"""DeleteRecords that wait for the live replicas of their partitions."""

from replication.leader.delayed import DeletedRecords
from replication.leader.leadership import Changed
from tests.replication.managers import NONE, OTHER, T0, T1, Managed, codes, want
from tests.replication.partitions import from_follower
from tests.replication.test_replica_manager import ALONE, PAIR, TIMED_OUT, UNKNOWN, only
from wire.errors import ErrorCode


def delete(managed, offsets_, timeout_ms=30):
    managed.manager.delete_records(offsets_, timeout_ms=timeout_ms, answer=managed.answers.append)
    return managed.taken()


def test_a_deletion_waits_for_the_live_replicas():
    managed = Managed()
    managed.create(**PAIR)
    managed.append()
    managed.append()
    managed.fetch((T0, 2), params=from_follower())
    assert delete(managed, {T0: 1, OTHER: 0}) == []
    assert managed.manager.waiting_counts == (0, 0, 1)
    fetched, deleted = managed.fetch(want(T0, 2, log_start_offset=1), params=from_follower())
    assert codes(fetched) == [NONE]
    assert deleted == {T0: DeletedRecords(NONE, 1), OTHER: DeletedRecords(UNKNOWN)}


def test_a_deletion_is_looked_at_when_the_high_watermark_rises():
    """A replica that is fenced meanwhile holds it up no more, of which no partition is told."""
    managed = Managed()
    managed.create(**PAIR)
    managed.append()
    managed.fetch((T0, 1), params=from_follower())
    assert delete(managed, {T0: 1}) == []
    managed.brokers.registered[2].fenced = True
    managed.append()
    managed.manager.took(T0, Changed(high_watermark_raised=True))
    assert managed.taken() == [{T0: DeletedRecords(NONE, 1)}]


def test_a_deletion_of_a_single_replica_is_answered_at_once():
    managed = Managed()
    managed.create(**ALONE)
    managed.create(T1, deletes=False, **ALONE)
    managed.append()
    assert only(delete(managed, {T0: -1, OTHER: 0, T1: 0})) == {
        T0: DeletedRecords(NONE, 1),
        OTHER: DeletedRecords(UNKNOWN),
        T1: DeletedRecords(ErrorCode.policy_violation),
    }
    assert only(delete(managed, {T0: 2})) == {T0: DeletedRecords(ErrorCode.offset_out_of_range)}


def test_a_deletion_ends_with_its_time():
    managed = Managed()
    managed.create(**PAIR)
    managed.append()
    managed.fetch((T0, 1), params=from_follower())
    assert delete(managed, {T0: 1}, timeout_ms=30) == []
    assert managed.manager.next_ms() == 1_030
    managed.advance(30)
    assert only(managed.taken()) == {T0: DeletedRecords(TIMED_OUT)}
