"""The order in which what happens to a partition answers those who wait for it."""

from network.clock import Now
from tests.replication.managers import NONE, T0, Managed, codes, offsets, waiting, want
from tests.replication.partitions import WALL_MS, from_follower, registration
from wire.errors import ErrorCode

NOT_LEADER = ErrorCode.not_leader_or_follower
PAIR = {"isr": (1, 2), "replicas": (1, 2)}


def only(answers):
    (answer,) = answers
    return answer


def test_a_consumer_that_waits_has_committed_records_before_the_producer_knows():
    """As Kafka: Partition.scala (`DelayedOperations.checkAndCompleteAll`)."""
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    assert managed.fetch((T0, 0), params=waiting()) == []
    managed.fetch((T0, 0), params=from_follower())
    _, consumed, results = managed.fetch((T0, 1), params=from_follower())
    assert offsets(only(consumed)) == [0]
    assert results[T0].code is NONE
    assert not managed.manager.is_busy


def test_what_the_consumer_gets_leaves_before_the_producer_s_answer_is_made():
    managed = Managed()
    managed.create(**PAIR)
    for offset in (0, 1):
        managed.append(acks=-1)
        managed.fetch((T0, offset), params=waiting())
        ends = [want(T0, offset + 1, log_start_offset=0)]
        managed.manager.fetch(from_follower(), ends, max_bytes=1, answer=lambda _: None)
        managed.budget.begin()
        managed.manager.go_on()
        consumed = only(managed.answers)
        assert offsets(only(consumed)) == [offset]
        assert managed.manager.is_busy
        assert not managed.budget.has_room, "the first half is over"
        managed.budget.resume()
        managed.manager.go_on()
        assert managed.answers[1][T0].code is NONE
        assert not managed.manager.is_busy
        managed.answers.clear()


def test_a_producer_s_answer_is_put_off_once_however_many_fetches_come():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    for _ in range(3):
        managed.fetch((T0, 0), params=waiting())
    managed.manager.fetch(
        from_follower(), [want(T0, 1, log_start_offset=0)], max_bytes=1, answer=lambda _: None
    )
    managed.budget.begin()
    managed.manager.go_on()
    assert len(managed.answers) == 1
    managed.budget.resume()
    managed.budget.spend(managed.budget.units_max)
    managed.manager.go_on()
    assert managed.answers[-1][T0].code is NONE
    assert managed.manager.is_busy, "other consumers' turns are to come"


def test_one_image_s_partitions_answer_fetches_first_too():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1)
    managed.fetch((T0, 0), params=waiting())
    partition = managed.manager.partitions[T0]
    partition.make_follower(registration(2, 2, **PAIR), managed.clock.now_ms)
    managed.manager.check_all([T0])
    fetched, results = managed.taken()
    assert codes(fetched) == [NOT_LEADER]
    assert results[T0].code is NOT_LEADER
    assert not managed.manager.is_busy


def test_committed_records_do_not_time_out_while_their_producer_lets_consumers_go_first():
    managed = Managed()
    managed.create(**PAIR)
    managed.append(acks=-1, timeout_ms=50)
    managed.fetch((T0, 0), params=waiting())
    managed.fetch((T0, 0), params=from_follower())
    managed.clock.set(Now(managed.clock.now_ms + 50, WALL_MS))
    end = [want(T0, 1, log_start_offset=0)]
    managed.manager.fetch(from_follower(), end, max_bytes=1, answer=managed.answers.append)
    managed.manager.tick()
    (results,) = [each for each in managed.taken() if isinstance(each, dict)]
    assert results[T0].code is NONE
    assert managed.counters.expired_produces == 0
