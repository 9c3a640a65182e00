"""Each request in each state of a transactional id, with the versions of transactions."""

from typing import Any

import msgspec
import pytest

from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction import transitions
from coordinator.transaction.decisions import (
    Change,
    InitRequest,
    add_partitions,
    end_transaction,
    fence,
    init_producer_id,
    is_expired,
    is_timed_out,
    verify_partitions,
)
from coordinator.transaction.metadata import EPOCH_MAX, NONE, TransactionMetadata
from coordinator.transaction.states import AT_REST, PREPARED, PREVIOUS_STATES, TransactionState
from wire.errors import ApiError, ErrorCode

S = TransactionState
CODE = ErrorCode
NOW = 9_000
START = 5_000
A, B = ("a", 0), ("b", 1)
PRODUCER = ProducerIdAndEpoch(70, 4)
LAST = ProducerIdAndEpoch(70, 3)
"""The epoch before."""
NOBODY = ProducerIdAndEpoch(-1, -1)
STORED = [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]
LAST_EPOCH_OF_CLIENTS = EPOCH_MAX - 1


def at(state: TransactionState, **fields: Any) -> TransactionMetadata:
    has_partitions = state in (S.ONGOING, *PREPARED)
    return TransactionMetadata(
        **{
            "producer_id": 70,
            "previous_producer_id": 70,
            "producer_epoch": 4,
            "timeout_ms": 1_000,
            "state": state,
            "partitions": frozenset({A}) if has_partitions else frozenset(),
            "start_ms": None if state is S.EMPTY else START,
            "last_update_ms": 6_000,
            "client_version": 0,
            **fields,
        }
    )


def changed(found: Any) -> TransactionMetadata:
    assert isinstance(found, Change), f"{found=}"
    assert found.after is not None
    return found.after


def code_of(found: Any) -> ErrorCode:
    return found.code if isinstance(found, ApiError) else CODE.none


# ---- InitProducerId ----------------------------------------------------------------------------


def init(before: TransactionMetadata | None, expected: Any = None, **fields: Any) -> Any:
    given = {"last_epoch": NONE, "transaction_version": 2, "new_producer_id": lambda: 99}
    return init_producer_id(before, InitRequest(2_000, expected), now_ms=NOW, **(given | fields))


def test_a_new_id_gets_a_producer_id_and_its_first_epoch() -> None:
    for expected in (None, PRODUCER):
        found = init(None, expected)
        assert found.producer == ProducerIdAndEpoch(99, 0)
        after = changed(found)
        assert (after.state, after.producer_id, after.previous_producer_id) == (S.EMPTY, 99, 99)
        assert (after.producer_epoch, after.timeout_ms, after.last_update_ms) == (0, 2_000, NOW)
        assert (after.start_ms, after.partitions, found.last_epoch) == (None, frozenset(), NONE)


def test_without_a_block_of_ids_a_new_id_is_to_come_again() -> None:
    assert init(None, new_producer_id=lambda: None) == ApiError(CODE.coordinator_load_in_progress)


@pytest.mark.parametrize("state", STORED)
def test_a_producer_that_begins_fences_the_one_before(state: TransactionState) -> None:
    found = init(at(state, client_version=2))
    if state in PREPARED:
        assert found == ApiError(CODE.concurrent_transactions)
        return
    after = changed(found)
    assert (after.producer_id, after.producer_epoch, after.previous_producer_id) == (70, 5, 70)
    assert after.last_update_ms == NOW
    if state is S.ONGOING:
        assert (found.code, after.state) == (CODE.concurrent_transactions, S.PREPARE_ABORT)
        assert (after.partitions, after.start_ms, after.timeout_ms) == ({A}, START, 1_000)
    else:
        assert (found.code, found.producer) == (CODE.none, ProducerIdAndEpoch(70, 5))
        assert (after.state, after.timeout_ms, after.start_ms) == (S.EMPTY, 2_000, None)
        assert (after.partitions, after.client_version, found.last_epoch) == (set(), 2, NONE)


@pytest.mark.parametrize("state", sorted(AT_REST))
@pytest.mark.parametrize(
    ("expected", "last_epoch", "epoch", "last"),
    [
        (PRODUCER, NONE, 5, 4),
        (PRODUCER, 3, 5, 4),
        (LAST, 3, 4, 3),
        (LAST, NONE, None, None),
        (LAST, 2, None, None),
        (ProducerIdAndEpoch(70, 5), NONE, None, None),
        (ProducerIdAndEpoch(71, 4), NONE, None, None),
    ],
)
def test_a_producer_that_goes_on_is_known_by_its_epoch(
    state: TransactionState, expected: Any, last_epoch: int, epoch: int | None, last: int | None
) -> None:
    found = init(at(state), expected, last_epoch=last_epoch)
    if epoch is None:
        assert found == ApiError(CODE.producer_fenced)
        return
    assert (found.producer, found.last_epoch) == (ProducerIdAndEpoch(70, epoch), last)
    assert changed(found).producer_epoch == epoch


def test_another_producer_id_is_fenced_unless_the_transaction_is_ending() -> None:
    other = ProducerIdAndEpoch(71, 4)
    assert init(at(S.ONGOING), other) == ApiError(CODE.producer_fenced)
    assert code_of(init(at(S.ONGOING), LAST)) is not CODE.producer_fenced
    for state in PREPARED:
        assert init(at(state), other) == ApiError(CODE.concurrent_transactions)


def test_the_producer_id_before_counts_while_its_epochs_are_used_up() -> None:
    rotated = at(S.EMPTY, producer_epoch=0, previous_producer_id=60)
    before = ProducerIdAndEpoch(60, LAST_EPOCH_OF_CLIENTS)
    found = init(rotated, before, last_epoch=LAST_EPOCH_OF_CLIENTS)
    assert found.producer == ProducerIdAndEpoch(70, 0)
    assert found.last_epoch == LAST_EPOCH_OF_CLIENTS
    earlier = ProducerIdAndEpoch(60, LAST_EPOCH_OF_CLIENTS - 1)
    assert (
        code_of(init(rotated, earlier, last_epoch=earlier.producer_epoch)) is CODE.producer_fenced
    )


@pytest.mark.parametrize("epoch", [LAST_EPOCH_OF_CLIENTS - 1, LAST_EPOCH_OF_CLIENTS, EPOCH_MAX])
@pytest.mark.parametrize("goes_on", [False, True])
def test_used_up_epochs_get_another_producer_id(epoch: int, goes_on: bool) -> None:
    before = at(S.COMPLETE_ABORT, producer_epoch=epoch)
    found = init(before, before.producer if goes_on else None)
    is_used_up = epoch >= LAST_EPOCH_OF_CLIENTS
    expected = ProducerIdAndEpoch(99, 0) if is_used_up else ProducerIdAndEpoch(70, epoch + 1)
    assert found.producer == expected
    assert found.last_epoch == (epoch if goes_on else NONE)
    assert changed(found).previous_producer_id == 70
    waiting = init(before, new_producer_id=lambda: None)
    assert code_of(waiting) is (CODE.coordinator_load_in_progress if is_used_up else CODE.none)


@pytest.mark.parametrize(("version", "client", "last"), [(0, 0, -1), (1, 0, -1), (2, 2, 4)])
def test_a_fence_aborts_with_the_next_epoch(version: int, client: int, last: int) -> None:
    found = fence(at(S.ONGOING, client_version=7, next_producer_id=3), version, NOW)
    after = changed(found)
    assert (after.state, after.producer, after.client_version) == (
        S.PREPARE_ABORT,
        ProducerIdAndEpoch(70, 5),
        client,
    )
    assert (found.last_epoch, after.next_producer_id, after.last_update_ms) == (last, NONE, NOW)
    done = transitions.completed(after, NOW + 1)
    assert done.producer == ProducerIdAndEpoch(70, 5), "who begins gets the one after"


def test_the_last_epoch_is_that_of_a_fence() -> None:
    after = changed(fence(at(S.ONGOING, producer_epoch=LAST_EPOCH_OF_CLIENTS), 2, NOW))
    assert after.producer_epoch == EPOCH_MAX
    assert transitions.completed(after, NOW).producer == ProducerIdAndEpoch(70, EPOCH_MAX)


# ---- partitions --------------------------------------------------------------------------------


def add(before: TransactionMetadata | None, producer: Any = PRODUCER, *partitions: Any) -> Any:
    return add_partitions(
        before, producer, frozenset(partitions or (A, B)), client_version=2, now_ms=NOW
    )


@pytest.mark.parametrize("state", STORED)
def test_partitions_are_added_unless_a_transaction_is_ending(state: TransactionState) -> None:
    found = add(at(state))
    if state in PREPARED:
        assert found == ApiError(CODE.concurrent_transactions)
        return
    after = changed(found)
    assert (after.state, after.partitions, after.client_version) == (S.ONGOING, {A, B}, 2)
    assert after.start_ms == (START if state is S.ONGOING else NOW)
    assert (after.last_update_ms, after.timeout_ms, after.producer) == (NOW, 1_000, PRODUCER)


def test_what_is_in_the_transaction_is_not_written_again() -> None:
    assert add(at(S.ONGOING), PRODUCER, A) == Change()
    assert changed(add(at(S.ONGOING), PRODUCER, B)).partitions == {A, B}
    assert changed(add(at(S.COMPLETE_ABORT, partitions=frozenset({A})), PRODUCER, A))


@pytest.mark.parametrize("request_", [add, lambda *given: verify_partitions(*given, {A})])
@pytest.mark.parametrize("state", STORED)
def test_only_the_producer_of_the_id_has_partitions(request_: Any, state: Any) -> None:
    other = ApiError(CODE.invalid_producer_id_mapping)
    assert request_(None, PRODUCER) == other
    is_to_come_again = request_ is add and state in PREPARED
    again = ApiError(CODE.concurrent_transactions)
    found = request_(at(state), ProducerIdAndEpoch(71, 4))
    assert found == (again if is_to_come_again else other)
    for epoch in (3, 5):
        found = request_(at(state), ProducerIdAndEpoch(70, epoch))
        assert found == (again if is_to_come_again else ApiError(CODE.producer_fenced))


@pytest.mark.parametrize("state", STORED)
def test_verification_says_of_each_partition_whether_it_is_in_the_transaction(state: Any) -> None:
    found = verify_partitions(at(state), PRODUCER, {A, B})
    if state in PREPARED:
        assert found == ApiError(CODE.concurrent_transactions)
    else:
        known = CODE.none if state is S.ONGOING else CODE.transaction_abortable
        assert found == {A: known, B: CODE.transaction_abortable}


# ---- EndTxn ------------------------------------------------------------------------------------


def end(
    before: TransactionMetadata | None,
    producer: Any = PRODUCER,
    *,
    is_commit: bool,
    version: int,
    new_id: int | None = 99,
) -> Any:
    return end_transaction(
        before,
        producer,
        is_commit=is_commit,
        client_version=version,
        new_producer_id=lambda: new_id,
        now_ms=NOW,
    )


ENDS, SAME = "ends", "same"
ITS, PF, CT = CODE.invalid_txn_state, CODE.producer_fenced, CODE.concurrent_transactions
MAPPING = CODE.invalid_producer_id_mapping
OLD_CLIENT = {  # (state, is commit) by (epoch of the id, the epoch before)
    (S.EMPTY, True): (ITS, PF),
    (S.EMPTY, False): (ITS, PF),
    (S.ONGOING, True): (ENDS, PF),
    (S.ONGOING, False): (ENDS, PF),
    (S.PREPARE_COMMIT, True): (CT, PF),
    (S.PREPARE_COMMIT, False): (CT, PF),
    (S.PREPARE_ABORT, True): (CT, PF),
    (S.PREPARE_ABORT, False): (CT, PF),
    (S.COMPLETE_COMMIT, True): (SAME, PF),
    (S.COMPLETE_COMMIT, False): (ITS, PF),
    (S.COMPLETE_ABORT, True): (ITS, PF),
    (S.COMPLETE_ABORT, False): (SAME, PF),
}
BUMPING_CLIENT = {
    (S.EMPTY, True): (ITS, PF),
    (S.EMPTY, False): (ENDS, PF),
    (S.ONGOING, True): (ENDS, PF),
    (S.ONGOING, False): (ENDS, PF),
    (S.PREPARE_COMMIT, True): (CT, CT),
    (S.PREPARE_COMMIT, False): (CT, CT),
    (S.PREPARE_ABORT, True): (CT, CT),
    (S.PREPARE_ABORT, False): (CT, CT),
    (S.COMPLETE_COMMIT, True): (ITS, SAME),
    (S.COMPLETE_COMMIT, False): (ENDS, ITS),
    (S.COMPLETE_ABORT, True): (ITS, ITS),
    (S.COMPLETE_ABORT, False): (ENDS, SAME),
}
CASES = [
    (version, state, is_commit, producer, expected)
    for version, table in ((0, OLD_CLIENT), (2, BUMPING_CLIENT))
    for (state, is_commit), row in table.items()
    for producer, expected in zip((PRODUCER, LAST), row, strict=True)
]


def test_the_tables_have_each_state() -> None:
    assert (
        {state for state, _ in OLD_CLIENT} == {state for state, _ in BUMPING_CLIENT} == set(STORED)
    )


@pytest.mark.parametrize(("version", "state", "is_commit", "producer", "expected"), CASES)
def test_the_end_of_a_transaction(
    version: int, state: TransactionState, is_commit: bool, producer: Any, expected: Any
) -> None:
    before = at(state)
    found = end(before, producer, is_commit=is_commit, version=version)
    if isinstance(expected, ErrorCode):
        assert found == ApiError(expected)
    elif expected == SAME:
        assert (found.after, found.code) == (None, CODE.none)
        assert found.producer == (PRODUCER if version == 2 else NOBODY)
    else:
        after = changed(found)
        assert after.state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
        assert after.producer == ProducerIdAndEpoch(70, 5 if version == 2 else 4)
        assert found.producer == (after.producer if version == 2 else NOBODY)
        assert (after.client_version, found.last_epoch) == ((2, 4) if version == 2 else (0, None))
        assert (after.partitions, after.last_update_ms) == (before.partitions, NOW)
        assert after.start_ms == (START if state is S.ONGOING else NOW)
        assert (after.next_producer_id, after.previous_producer_id) == (NONE, 70)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_only_the_producer_of_the_id_ends_its_transaction(version: int, is_commit: bool) -> None:
    for before, producer, code in (
        (None, PRODUCER, MAPPING),
        (at(S.ONGOING), ProducerIdAndEpoch(71, 4), MAPPING),
        (at(S.ONGOING), ProducerIdAndEpoch(70, 5), PF),
        (at(S.COMPLETE_ABORT), ProducerIdAndEpoch(70, 2), PF),
    ):
        found = end(before, producer, is_commit=is_commit, version=version)
        assert found == ApiError(code)


def test_used_up_epochs_end_with_another_producer_id() -> None:
    last = at(S.ONGOING, producer_epoch=LAST_EPOCH_OF_CLIENTS)
    found = end(last, last.producer, is_commit=True, version=2)
    after = changed(found)
    assert (after.producer_id, after.producer_epoch, after.next_producer_id) == (70, EPOCH_MAX, 99)
    assert found.producer == ProducerIdAndEpoch(99, 0)
    done = transitions.completed(after, NOW + 1)
    assert (done.producer, done.previous_producer_id, done.next_producer_id) == (
        ProducerIdAndEpoch(99, 0),
        70,
        NONE,
    )
    assert code_of(end(after, last.producer, is_commit=True, version=2)) is CT
    again = end(done, last.producer, is_commit=True, version=2)
    assert (again.after, again.producer) == (None, ProducerIdAndEpoch(99, 0))
    other = ProducerIdAndEpoch(70, LAST_EPOCH_OF_CLIENTS - 1)
    assert code_of(end(done, other, is_commit=True, version=2)) is MAPPING
    later = msgspec.structs.replace(done, producer_epoch=1)
    assert code_of(end(later, last.producer, is_commit=True, version=2)) is MAPPING
    waiting = end(last, last.producer, is_commit=True, version=2, new_id=None)
    assert code_of(waiting) is CODE.coordinator_load_in_progress
    old = end(last, last.producer, is_commit=True, version=0, new_id=None)
    assert changed(old).producer_epoch == LAST_EPOCH_OF_CLIENTS, "it is not bumped"


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_a_transaction_is_complete_with_its_markers(state: TransactionState) -> None:
    after = transitions.completed(at(state), NOW)
    is_commit = state is S.PREPARE_COMMIT
    assert after.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
    assert (after.partitions, after.start_ms, after.last_update_ms) == (set(), START, NOW)
    assert (after.producer, after.timeout_ms) == (PRODUCER, 1_000)


# ---- the table of transitions ------------------------------------------------------------------

STEPS = {
    S.EMPTY: lambda before: transitions.initialized(before, 70, before.producer_epoch + 1, 1, NOW),
    S.ONGOING: lambda before: transitions.with_partitions(before, {B}, 2, NOW),
    S.PREPARE_COMMIT: lambda before: transitions.prepared(
        before, is_commit=True, client_version=2, next_producer_id=NONE, now_ms=NOW
    ),
    S.PREPARE_ABORT: lambda before: transitions.prepared(
        before, is_commit=False, client_version=2, next_producer_id=NONE, now_ms=NOW
    ),
    S.COMPLETE_COMMIT: lambda before: transitions.completed(before, NOW),
    S.COMPLETE_ABORT: lambda before: transitions.completed(before, NOW),
}


@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize("following", STEPS)
def test_no_transition_is_outside_of_the_table(state: Any, following: Any) -> None:
    try:
        found = STEPS[following](at(state)).state
    except AssertionError:
        found = None
    assert (found is following) == (state in PREVIOUS_STATES[following])


# ---- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STORED)
def test_only_an_open_transaction_times_out(state: TransactionState) -> None:
    assert not is_timed_out(at(state), START + 1_000)
    assert is_timed_out(at(state), START + 1_001) == (state is S.ONGOING)


@pytest.mark.parametrize("state", STORED)
def test_only_an_id_at_rest_expires(state: TransactionState) -> None:
    assert not is_expired(at(state), 6_000 + 99, 100)
    assert is_expired(at(state), 6_000 + 100, 100) == (state in AT_REST)
