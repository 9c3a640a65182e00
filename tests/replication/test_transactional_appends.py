"""Transactions at the partitions of a broker: guards, markers, late ones."""

from network.clock import Now
from storage.logs.log_validator import AppendRules
from storage.producers.producer_state import Origin
from tests.replication.managers import NONE, T0, T1, Managed
from tests.replication.partitions import WALL_MS, registration
from tests.storage.test_unified_log import produced
from wire.batches.transaction_markers import marker_batch
from wire.errors import ErrorCode

ALONE = {"isr": (1,), "replicas": (1,)}
PAIR = {"isr": (1, 2), "replicas": (1, 2)}
TRANSACTIONAL = 0x10


def transactional(epoch=0):
    return produced(WALL_MS, producer=5, epoch=epoch, attributes=TRANSACTIONAL)


def begin(managed, batch, *, bumps=False):
    return managed.manager.partitions[T0].begin_verification(
        batch.header, WALL_MS, supports_epoch_bump=bumps
    )


def code_of(managed, batch, **fields):
    managed.manager.append(
        {T0: batch}, required_acks=1, timeout_ms=0, answer=managed.answers.append, **fields
    )
    return managed.taken()[0][T0].code


def test_the_guard_of_each_partition_goes_with_its_batch():
    managed = Managed()
    for key in (T0, T1):
        managed.create(key, rules=AppendRules(), **ALONE)
    guard = begin(managed, transactional())
    managed.manager.append(
        {T0: transactional(), T1: transactional()},
        required_acks=1,
        timeout_ms=0,
        answer=managed.answers.append,
        guards={T0: guard},
    )
    results = managed.taken()[0]
    assert [results[key].code for key in (T0, T1)] == [NONE, ErrorCode.invalid_txn_state]


def test_markers_are_judged_by_the_version_of_their_transaction():
    managed = Managed()
    managed.create(**ALONE)
    assert code_of(managed, transactional(epoch=1)) is NONE
    fields = {"is_commit": True, "coordinator_epoch": 0, "timestamp_ms": WALL_MS}
    for version, expected in ((2, ErrorCode.invalid_producer_epoch), (0, NONE)):
        marker = marker_batch(5, 1, **fields)
        code = code_of(managed, marker, origin=Origin.COORDINATOR, transaction_version=version)
        assert code is expected


def test_only_a_leader_verifies():
    managed = Managed()
    partition = managed.create(rules=AppendRules(), **PAIR)
    assert begin(managed, transactional()) is not None
    managed.register(T0, registration(2, 2, **PAIR))
    assert begin(managed, transactional()) is ErrorCode.not_leader_or_follower
    partition.mark_offline()
    assert begin(managed, transactional()) is ErrorCode.kafka_storage_error


def test_late_transactions_are_counted_where_they_are_led():
    managed = Managed()
    managed.create(**PAIR)
    managed.create(T1, **ALONE)
    managed.append({T0: transactional()})
    managed.clock.set(Now(2_000, WALL_MS + 300_000 + 7))
    assert managed.manager.late_transaction_count(7) == 0
    assert managed.manager.late_transaction_count(6) == 1
    managed.register(T0, registration(2, 2, **PAIR))
    assert managed.manager.late_transaction_count(6) == 0
