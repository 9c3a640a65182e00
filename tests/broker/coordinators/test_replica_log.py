"""The log that a shard writes, also after its partition has gone."""

from broker.coordinators.replica_log import BATCH_BYTES_MAX, ReplicaLog
from storage.logs.log_validator import AppendRules
from tests.broker.coordinators.test_loading import batch_of
from tests.replication.managers import T0, Managed
from wire.errors import ErrorCode


def test_a_led_partition_is_appended_to_at_once() -> None:
    managed = Managed()
    managed.create(T0, rules=AppendRules(batch_bytes_max=777, verifies_transactions=False))
    noted: list[int] = []
    log = ReplicaLog(managed.manager, T0, lambda: noted.append(1), lambda: None)
    assert (log.end_offset, log.batch_bytes_max) == (0, 777)
    assert log.append(batch_of("a", "b")) == 2
    assert log.end_offset == 2
    assert managed.appended == [T0]
    log.buffered()
    assert noted == [1]


def test_a_partition_that_has_gone_keeps_its_end_and_refuses() -> None:
    managed = Managed()
    log = ReplicaLog(managed.manager, T0, lambda: None, lambda: None)
    assert (log.end_offset, log.batch_bytes_max) == (0, BATCH_BYTES_MAX)
    assert BATCH_BYTES_MAX == 1_048_588
    managed.create(T0)
    assert log.append(batch_of("a")) == 1
    managed.manager.partitions[T0].mark_offline()
    assert (log.end_offset, log.batch_bytes_max) == (1, BATCH_BYTES_MAX)
    assert log.append(batch_of("a")) is ErrorCode.kafka_storage_error
    managed.manager.drop(T0)
    assert log.end_offset == 1
    assert isinstance(log.append(batch_of("a")), ErrorCode)


def test_appends_are_behind_the_first_whose_flush_has_not_ended() -> None:
    managed, noted = Managed(), list[int]()
    managed.create(T0)
    log = ReplicaLog(managed.manager, T0, lambda: None, lambda: noted.append(1))
    ends = []
    for expected in (0, 0, 0):
        log.append(batch_of("a", "b"))
        ends.append(managed.waits[-1]())
        assert log.unflushed_offset == expected
    first, second, third = ends
    first(True)
    assert (log.unflushed_offset, noted) == (2, [1])
    second(False)
    third(True)
    assert (log.unflushed_offset, noted) == (2, [1, 1]), "what failed is never durable"


def test_an_append_that_asks_for_no_flush_is_not_waited_for() -> None:
    managed = Managed()
    managed.create(T0)
    log = ReplicaLog(managed.manager, T0, lambda: None, lambda: None)
    log.append(batch_of("a"))
    assert log.unflushed_offset is None
