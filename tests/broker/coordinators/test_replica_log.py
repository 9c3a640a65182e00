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
    log = ReplicaLog(managed.manager, T0, lambda: noted.append(1))
    assert (log.end_offset, log.batch_bytes_max) == (0, 777)
    assert log.append(batch_of("a", "b")) == 2
    assert log.end_offset == 2
    assert managed.appended == [T0]
    log.buffered()
    assert noted == [1]


def test_a_partition_that_has_gone_keeps_its_end_and_refuses() -> None:
    managed = Managed()
    log = ReplicaLog(managed.manager, T0, lambda: None)
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
