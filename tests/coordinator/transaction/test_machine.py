"""A partition of transactional ids: what is written, when markers leave, time-outs, expiry."""

from typing import Any

import pytest

from coordinator.records.kinds import TRANSACTION_KINDS
from coordinator.runtime.shard import ShardState
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction import machine as machine_module
from coordinator.transaction.machine import RETRY_MS
from coordinator.transaction.markers import Ending
from network.clock import Now
from tests.coordinator.transaction.one_partition import NONE, TIMEOUT_MS, A, B, Coordinator, S
from wire.errors import ApiError, ErrorCode


@pytest.fixture
def begun() -> Coordinator:
    """A coordinator with an open transaction."""
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add()
    assert coordinator.commit() == [ProducerIdAndEpoch(70, 0), NONE]
    return coordinator


# ---- a transaction -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_from_begin_to_end(version: int, is_commit: bool) -> None:
    coordinator = Coordinator(version)
    coordinator.init()
    assert coordinator.commit() == [ProducerIdAndEpoch(70, 0)]
    coordinator.add(A)
    coordinator.add(B)
    assert coordinator.taken() == [], "they are answered when they are committed"
    assert coordinator.commit() == [NONE, NONE]
    coordinator.end(is_commit=is_commit)
    assert coordinator.sent.begun == [], "its end is not committed"
    epoch = 1 if version == 2 else 0
    answer = ProducerIdAndEpoch(70, 1) if version == 2 else ProducerIdAndEpoch(-1, -1)
    assert coordinator.commit() == [answer]
    ((ending, partitions, _),) = coordinator.sent.begun
    assert ending == Ending(
        3, "x", ProducerIdAndEpoch(70, epoch), is_commit, 5, 2 if version == 2 else 0
    )
    assert partitions == {A, B}
    coordinator.sent.finish()
    coordinator.commit()
    prepared, done = (
        (S.PREPARE_COMMIT, S.COMPLETE_COMMIT) if is_commit else (S.PREPARE_ABORT, S.COMPLETE_ABORT)
    )
    assert coordinator.states() == [
        (S.EMPTY, 0), (S.ONGOING, 0), (S.ONGOING, 0), (prepared, epoch), (done, epoch),
    ]  # fmt: skip
    assert coordinator.state() == (done, epoch)
    assert set(coordinator.shard.committed.open_ids) == set()


def test_the_next_transaction_waits_for_the_markers(begun: Coordinator) -> None:
    begun.end()
    begun.commit()
    begun.add(B, epoch=1)
    begun.init()
    begun.end(epoch=0)
    assert begun.taken() == [
        ErrorCode.concurrent_transactions,
        ApiError(ErrorCode.concurrent_transactions),
        ApiError(ErrorCode.concurrent_transactions),
    ]
    begun.sent.finish()
    begun.add(B, epoch=1)
    assert begun.commit() == [NONE]
    assert begun.state() == (S.ONGOING, 1)


def test_a_producer_that_begins_aborts_the_transaction_of_the_one_before(
    begun: Coordinator,
) -> None:
    begun.init()
    assert begun.commit() == [ApiError(ErrorCode.concurrent_transactions)]
    assert begun.sent.begun[0][0].is_commit is False
    begun.sent.finish()
    begun.init()
    assert begun.commit() == [ProducerIdAndEpoch(70, 2)]
    begun.add(epoch=0)
    begun.init(expected=ProducerIdAndEpoch(70, 0))
    assert begun.taken() == [ErrorCode.producer_fenced, ApiError(ErrorCode.producer_fenced)]


def test_a_repeated_init_is_known_until_the_coordinator_moves(begun: Coordinator) -> None:
    for _ in range(2):
        begun.end(is_commit=False)
        begun.commit()
        while begun.sent.begun:
            begun.sent.finish()
        begun.commit()
    goes_on = ProducerIdAndEpoch(70, 1)
    begun.init(expected=goes_on)
    begun.init(expected=goes_on)
    assert begun.commit() == [ProducerIdAndEpoch(70, 2)] * 2
    moved = Coordinator(log=begun.log)
    moved.init(expected=goes_on)
    assert moved.commit() == [ApiError(ErrorCode.producer_fenced)]


def test_verification_is_of_what_is_committed(begun: Coordinator) -> None:
    found: list[Any] = []
    for partitions in ({A}, {A, B}):
        begun.add(*partitions)
        begun.coordinator.verify_partitions(
            "x", ProducerIdAndEpoch(70, 0), frozenset({A, B}), found.append
        )
    abortable = ErrorCode.transaction_abortable
    assert found == [{A: NONE, B: abortable}] * 2, "B is added, and pending"
    begun.commit()
    begun.coordinator.verify_partitions(
        "x", ProducerIdAndEpoch(70, 1), frozenset({A}), found.append
    )
    begun.coordinator.verify_partitions(
        "y", ProducerIdAndEpoch(70, 0), frozenset({A}), found.append
    )
    begun.coordinator.verify_partitions("", ProducerIdAndEpoch(70, 0), frozenset({A}), found.append)
    assert found[2:] == [
        {A: ErrorCode.producer_fenced},
        {A: ErrorCode.invalid_producer_id_mapping},
        {A: ErrorCode.invalid_request},
    ]


def test_a_new_coordinator_knows_what_it_loaded_above_the_high_watermark(
    begun: Coordinator,
) -> None:
    """The one before may have acknowledged it; else a batch is refused, and its transaction."""
    begun.add(B)
    begun.shard.flush()
    loaded_end = begun.log.end_offset
    moved = Coordinator(log=begun.log)
    assert moved.shard.committed.transactions["x"].partitions == {A}
    moved.add(("c", 2))
    found: list[Any] = []
    asked = frozenset({A, B, ("c", 2)})
    for _ in range(2):
        moved.coordinator.verify_partitions("x", ProducerIdAndEpoch(70, 0), asked, found.append)
        assert found.pop() == {A: NONE, B: NONE, ("c", 2): ErrorCode.transaction_abortable}
        moved.shard.advance(loaded_end)
    moved.commit()
    moved.coordinator.verify_partitions("x", ProducerIdAndEpoch(70, 0), asked, found.append)
    assert found.pop() == dict.fromkeys(asked, NONE)


@pytest.mark.parametrize(
    ("timeout_ms", "is_valid"),
    [(-1, False), (0, False), (1, True), (60_000, True), (60_001, False)],
)
def test_time_outs_are_bounded(timeout_ms: int, is_valid: bool) -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=timeout_ms)
    refused = ApiError(ErrorCode.invalid_transaction_timeout)
    assert coordinator.commit() == [ProducerIdAndEpoch(70, 0) if is_valid else refused]


def test_an_empty_id_is_invalid() -> None:
    coordinator = Coordinator()
    coordinator.init("")
    coordinator.add(name="")
    coordinator.end(name="")
    refused = ApiError(ErrorCode.invalid_request)
    assert coordinator.taken() == [refused, ErrorCode.invalid_request, refused]
    assert coordinator.state("") is ErrorCode.invalid_request
    assert coordinator.state("y") is ErrorCode.transactional_id_not_found


def test_a_coordinator_that_moved_refuses_all(begun: Coordinator) -> None:
    begun.end()
    begun.shard.resign()
    not_coordinator = ErrorCode.not_coordinator
    assert begun.taken() == [ApiError(not_coordinator)]
    assert (begun.sent.begun, begun.sent.cancelled) == ([], [3])
    begun.init()
    begun.add()
    begun.end()
    assert begun.taken() == [ApiError(not_coordinator), not_coordinator, ApiError(not_coordinator)]
    assert begun.state() is not_coordinator
    begun.machine.change("x", lambda _: ApiError(NONE), begun.answers.append)
    assert begun.taken() == [ApiError(not_coordinator)]


# ---- what does not commit ----------------------------------------------------------------------


def test_a_write_that_is_refused_leaves_the_id_as_it_was(begun: Coordinator) -> None:
    begun.log.refusing = ErrorCode.not_enough_replicas
    begun.end()
    begun.shard.flush()
    assert begun.taken() == [ApiError(ErrorCode.coordinator_not_available)]
    begun.log.refusing = None
    begun.advance(RETRY_MS)
    begun.commit()
    assert (begun.state(), begun.sent.begun) == ((S.ONGOING, 0), [])
    begun.end()
    assert begun.commit() == [ProducerIdAndEpoch(70, 1)]


def test_a_refused_init_is_no_repetition(begun: Coordinator) -> None:
    begun.end(is_commit=False)
    begun.commit()
    begun.sent.finish()
    begun.commit()
    begun.log.refusing = ErrorCode.not_enough_replicas
    goes_on = ProducerIdAndEpoch(70, 1)
    begun.init(expected=goes_on)
    begun.shard.flush()
    begun.log.refusing = None
    begun.taken()
    begun.init(expected=ProducerIdAndEpoch(70, 0))
    assert begun.commit() == [ApiError(ErrorCode.producer_fenced)]
    begun.init(expected=goes_on)
    assert begun.commit() == [ProducerIdAndEpoch(70, 2)]


def test_an_init_that_commits_late_is_a_repetition(begun: Coordinator) -> None:
    begun.end(is_commit=False)
    begun.commit()
    begun.sent.finish()
    begun.commit()
    goes_on = ProducerIdAndEpoch(70, 1)
    begun.init(expected=goes_on)
    begun.shard.flush()
    begun.advance(TIMEOUT_MS)
    assert begun.taken() == [ApiError(ErrorCode.coordinator_not_available)]
    begun.init(expected=goes_on)
    assert begun.commit() == [ProducerIdAndEpoch(70, 2)]


def test_an_end_that_commits_late_has_its_markers_all_the_same(begun: Coordinator) -> None:
    begun.end()
    begun.shard.flush()
    begun.advance(TIMEOUT_MS)
    assert begun.taken() == [ApiError(ErrorCode.coordinator_not_available)]
    begun.advance(RETRY_MS)
    assert begun.sent.begun == []
    begun.commit()
    assert [ending.is_commit for ending, _, _ in begun.sent.begun] == [True]


def test_a_completion_that_does_not_commit_is_written_again(begun: Coordinator) -> None:
    begun.end()
    begun.commit()
    begun.log.refusing = ErrorCode.not_enough_replicas
    begun.sent.finish()
    begun.shard.flush()
    begun.log.refusing = None
    begun.advance(RETRY_MS - 1)
    begun.commit()
    assert begun.state() == (S.PREPARE_COMMIT, 1)
    begun.advance(1)
    begun.commit()
    assert begun.state() == (S.COMPLETE_COMMIT, 1)


def test_a_completion_that_was_written_is_not_written_twice(begun: Coordinator) -> None:
    begun.end()
    begun.commit()
    ending, _, completed = begun.sent.begun[0]
    completed(ending)
    completed(ending)
    begun.commit()
    assert begun.states()[-2:] == [(S.PREPARE_COMMIT, 1), (S.COMPLETE_COMMIT, 1)]
    begun.add(epoch=1)
    begun.end(epoch=1)
    begun.commit()
    completed(ending)
    begun.commit()
    assert begun.state() == (S.PREPARE_COMMIT, 2), "another transaction is not ended by it"


# ---- elections ---------------------------------------------------------------------------------


def test_a_new_coordinator_goes_on_with_what_is_prepared(begun: Coordinator) -> None:
    begun.init("y")
    begun.add(B, name="y", producer_id=71)
    begun.end()
    begun.commit()
    moved = Coordinator(log=begun.log, epoch=6)
    assert (moved.shard.state, len(moved.sent.begun)) == (ShardState.ACTIVE, 1)
    ending, partitions, _ = moved.sent.begun[0]
    assert (ending.transactional_id, ending.coordinator_epoch, partitions) == ("x", 6, {A})
    moved.sent.finish()
    moved.commit()
    assert moved.state() == (S.COMPLETE_COMMIT, 1)
    assert moved.state("y") == (S.ONGOING, 0)


def test_an_end_that_the_election_found_waits_for_its_commit(begun: Coordinator) -> None:
    begun.end()
    begun.shard.flush()
    moved = Coordinator(log=begun.log)
    assert moved.sent.begun == []
    moved.commit()
    assert len(moved.sent.begun) == 1


# ---- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "client"), [(1, 0), (2, 2)])
def test_a_transaction_that_is_late_is_aborted(version: int, client: int) -> None:
    coordinator = Coordinator(version)
    coordinator.init(timeout_ms=150)
    coordinator.add()
    coordinator.commit()
    coordinator.advance(100)
    coordinator.advance(99)
    assert coordinator.states()[-1] == (S.ONGOING, 0)
    coordinator.advance(1)
    coordinator.commit()
    ((ending, partitions, _),) = coordinator.sent.begun
    assert (ending.is_commit, ending.transaction_version, partitions) == (False, client, {A})
    coordinator.sent.finish()
    coordinator.end()
    coordinator.commit()
    assert coordinator.states()[-2:] == [(S.PREPARE_ABORT, 1), (S.COMPLETE_ABORT, 1)]


def test_one_that_ends_meanwhile_is_not_aborted(
    begun: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "ABORTS_PER_TICK", 0)
    begun.clock.set(Now(600, begun.clock.wall_ms + 600))
    begun.shard.tick()
    monkeypatch.undo()
    begun.end()
    begun.shard.tick()
    begun.commit()
    assert begun.states()[-1] == (S.PREPARE_COMMIT, 1)


def test_many_time_out_over_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "ABORTS_PER_TICK", 2)
    coordinator = Coordinator()
    for number, name in enumerate("edcba"):
        coordinator.init(name)
        coordinator.add(name=name, producer_id=70 + number)
    coordinator.commit()
    coordinator.clock.set(Now(600, coordinator.clock.wall_ms + 600))
    for count in (2, 4, 5):
        assert coordinator.shard.next_ms() <= 600  # type: ignore[operator]
        coordinator.shard.tick()
        coordinator.commit()
        assert len(coordinator.sent.begun) == count
    assert [ending.transactional_id for ending, _, _ in coordinator.sent.begun] == list("abcde")
    assert coordinator.shard.next_ms() == 700


def test_ids_that_nobody_uses_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "LOOKS_PER_TICK", 2)
    monkeypatch.setattr(machine_module, "EXPIRIES_PER_TICK", 2)
    coordinator = Coordinator()
    for name in ("d", "c", "b"):
        coordinator.init(name)
    coordinator.commit()
    coordinator.clock.set(Now(99_999, coordinator.clock.wall_ms + 99_999))
    coordinator.init("a")
    coordinator.init("o", timeout_ms=60_000)
    coordinator.add(name="o", producer_id=74)
    coordinator.commit()
    coordinator.advance(0)
    coordinator.commit()
    assert None not in coordinator.states()
    coordinator.advance(700)
    coordinator.commit()
    assert set(coordinator.shard.committed.transactions) == {"a", "o"}
    last = coordinator.log.records(TRANSACTION_KINDS)[-1]
    names = [record.key.transactional_id for record in last]  # type: ignore[union-attr]
    assert names == ["b", "c", "d"]
    coordinator.advance(200_000)
    coordinator.commit()
    assert set(coordinator.shard.committed.transactions) == {"o"}, "an open one stays"


def test_an_id_that_is_used_meanwhile_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.commit()
    monkeypatch.setattr(machine_module, "EXPIRIES_PER_TICK", 0)
    coordinator.clock.set(Now(101_000, coordinator.clock.wall_ms + 101_000))
    coordinator.shard.tick()
    monkeypatch.undo()
    coordinator.init()
    coordinator.shard.tick()
    assert coordinator.commit() == [ProducerIdAndEpoch(70, 1)]
    assert coordinator.state() == (S.EMPTY, 1)


def test_an_expired_id_begins_anew() -> None:
    coordinator = Coordinator()
    coordinator.init(expected=ProducerIdAndEpoch(5, 5))
    coordinator.commit()
    coordinator.advance(101_000)
    coordinator.commit()
    assert coordinator.state() is ErrorCode.transactional_id_not_found
    coordinator.init()
    assert coordinator.commit() == [ProducerIdAndEpoch(71, 0)]


def test_open_transactions_are_counted_by_state() -> None:
    one = Coordinator()
    assert one.machine.look(7) == 7
    for name in "xyz":
        one.init(name, timeout_ms=60_000)
    one.commit()
    one.add(name="x")
    one.commit()
    one.end(name="x")
    one.add(name="y", producer_id=71)
    assert one.machine.look(1) == 0, "the end and the begin are not committed"
    one.commit()
    assert one.machine.look(5) == 5
    assert one.machine.open_counts == {S.ONGOING: 1}
    assert one.machine.look(5) == 3
    assert one.machine.open_counts == {S.PREPARE_COMMIT: 1, S.ONGOING: 1}
    one.log.refusing = ErrorCode.not_enough_replicas
    one.sent.finish()
    one.shard.flush()
    assert one.machine.unwritten_count == 1
    one.log.refusing = None
    one.advance(RETRY_MS)
    one.commit()
    assert one.machine.unwritten_count == 0
    one.shard.resign()
    assert one.machine.look(5) == 5
