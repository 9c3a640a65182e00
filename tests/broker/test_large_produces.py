"""Produces of many partitions are done over turns.

Whatever happens to the partitions meanwhile: each is answered as it is when its batch is appended.
"""

from errno import EIO
from typing import Any

import pytest

from broker.apis.records.produce import SMALL_MAX
from broker.effects import CloseConnection, Lane, RunWork, SendParts
from broker.events import (
    ConnectionClosed,
    StopRequested,
    TimeAdvanced,
    WorkDone,
)
from network.turn_budget import TURN_UNITS_MAX
from replication.leader.appends import PIECE_UNITS
from tests.broker.brokers import response
from tests.broker.large_produces import (
    COUNT,
    NONE,
    PAIR,
    VERSION,
    batch,
    begun,
    codes_of,
    ends,
    many,
    over_turns,
    produce,
    publish,
    rest,
    rows_of,
    sent,
    started,
    turn,
)
from tests.broker.metadata_log import A
from tests.broker.test_large_fetches import fetch
from tests.storage.test_unified_log import produced
from wire.api_keys import PRODUCE
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode
from wire.messages.produce import PIECE


@pytest.mark.parametrize("acks", [-1, 1])
def test_many_partitions_are_appended_over_turns_and_answered_once(acks: int) -> None:
    driven = started()
    turns, effects = over_turns(driven, many(acks))
    assert turns > COUNT * 30 // (TURN_UNITS_MAX + PIECE_UNITS)
    rows = rows_of(effects)
    assert list(rows) == list(range(COUNT))
    assert {(row.error_code, row.base_offset) for row in rows.values()} == {(NONE, 0)}
    assert ends(driven) == [1] * COUNT
    counts = driven.broker.counts()
    assert (counts.produce.delayed, counts.produce.watched) == (0, 0)
    assert counts.counters.produce_requests == counts.counters.messages_in == COUNT
    assert driven.broker.memory.used_bytes == 0


def test_without_acks_nothing_is_answered() -> None:
    driven = started()
    effects = rest(driven, turn(driven, many(0)))
    assert not any(isinstance(each, SendParts | CloseConnection) for each in effects)
    assert ends(driven) == [1] * COUNT


def test_without_acks_an_error_of_any_piece_closes_the_connection() -> None:
    driven = started()
    request = produce([(number, batch()) for number in (COUNT, *range(COUNT))], 0)
    effects = rest(driven, turn(driven, request))
    (closed,) = (each for each in effects if isinstance(each, CloseConnection))
    assert closed.reason == "Produce with acks=0 failed: unknown_topic_or_partition"
    assert ends(driven) == [1] * COUNT


@pytest.mark.parametrize(
    ("count", "size", "is_one"),
    [
        (1, 400 * 2048, True),
        (8, 1, True),
        (10, 1, True),
        (11, 1, False),
        (2, 120 * 2048, True),
        (2, 121 * 2048, False),
    ],
)
def test_few_small_batches_are_one_piece(count: int, size: int, *, is_one: bool) -> None:
    """Of 300 units: 30 for each, and one for each 2 KiB of its bytes."""
    driven = started(count)
    data = batch(1, size)
    request = produce([(number, data) for number in range(count)])
    pieces = driven.broker._replicas.takes_pieces(
        {(A, n): next(iterate_batches(data)) for n in range(count)}
    )
    assert pieces is not is_one
    assert set(codes_of(rest(driven, turn(driven, request)))) == {NONE}


def test_a_request_of_many_partitions_takes_pieces_whatever_it_has_for_them() -> None:
    """Each is looked at, and none appended to."""
    driven = started(SMALL_MAX)
    for count, is_busy in ((SMALL_MAX, False), (SMALL_MAX + 1, True)):
        request = produce([(number, b"") for number in range(count)])
        driven.take_memory([request])
        driven.broker._front.received(1, request.frames)
        driven.broker._budget.begin()
        client = driven.broker._front._clients[1]
        driven.broker._front._woken.clear()
        driven.broker._front._take(client)
        assert bool(client.running) is is_busy
    rest(driven)


def test_invalid_acks_are_refused_without_an_append() -> None:
    driven = started()
    effects = rest(driven, turn(driven, many(2)))
    assert set(codes_of(effects)) == {ErrorCode.invalid_required_acks}
    assert ends(driven) == [0] * COUNT


@pytest.mark.parametrize("at", [0, PIECE])
def test_transactional_batches_of_any_piece_need_an_id(at: int) -> None:
    driven = started(PIECE + 1)
    rows = {number: batch() for number in range(PIECE + 1)}
    rows[at] = bytes(produced(1_000_000, producer=7, attributes=0x10).buffer)
    effects = rest(driven, turn(driven, produce(rows.items())))
    assert set(codes_of(effects)) == {ErrorCode.transactional_id_authorization_failed}
    assert not any(ends(driven))


def test_all_acks_wait_for_the_follower_from_the_last_piece_on() -> None:
    driven = started(**PAIR)
    effects = turn(driven, many(-1))
    driven.now_ms += 700
    effects = rest(driven, effects)
    assert sent(effects) == []
    assert driven.broker.counts().produce.watched == COUNT
    assert driven.broker.memory.used_bytes == 0, "the frame has gone"
    driven.now_ms += 999
    assert sent(rest(driven, turn(driven, TimeAdvanced()))) == []
    driven.now_ms += 1
    effects = rest(driven, turn(driven, TimeAdvanced()))
    assert set(codes_of(effects)) == {ErrorCode.request_timed_out}
    assert driven.broker.counts().counters.expired_produces == COUNT


def test_later_requests_of_the_connection_wait_and_others_do_not() -> None:
    driven = started()
    first = turn(driven, many())
    other = turn(driven, produce([(COUNT - 1, batch())], connection_id=2))
    assert len(sent(other, 2)) == 1
    later = produce([(number, batch()) for number in (0, COUNT - 1)])
    effects = rest(driven, first + other + turn(driven, later))
    one, two = sent(effects)
    rows = {
        row.index: row.base_offset
        for row in response(PRODUCE, VERSION, two).responses[0].partition_responses
    }
    assert rows == {0: 1, COUNT - 1: 2}
    assert len(response(PRODUCE, VERSION, one).responses[0].partition_responses) == COUNT


def test_a_fetch_that_waits_is_answered_behind_the_piece_that_it_waits_for() -> None:
    driven = started()
    rest(driven, turn(driven, fetch(1)))
    assert driven.broker.counts().fetch.delayed == 1
    effects = begun(driven, many(connection_id=2))
    effects += turn(driven, TimeAdvanced())
    assert len(sent(effects)) == 1
    assert sent(effects, 2) == []
    rest(driven)


def test_a_topic_that_is_deleted_between_two_pieces() -> None:
    driven = started()
    effects = begun(driven, many())
    driven.metadata.remove()
    effects = rest(driven, effects + publish(driven))
    codes = codes_of(effects)
    assert (codes[0], codes[-1]) == (NONE, ErrorCode.unknown_topic_or_partition)
    assert set(codes) == {NONE, ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize("acks", [-1, 1])
def test_partitions_whose_leader_moves_between_two_pieces(acks: int) -> None:
    driven = started(**PAIR)
    driven.metadata.register(2)
    driven.publish()
    effects = begun(driven, many(acks))
    for number in range(COUNT):
        driven.metadata.change(number, leader=2)
    effects = rest(driven, effects + publish(driven))
    rows = rows_of(effects)
    refused = [n for n, row in rows.items() if row.error_code is ErrorCode.not_leader_or_follower]
    left = [number for number, end in enumerate(ends(driven)) if not end]
    assert 0 < len(left) < COUNT
    assert refused == (list(range(COUNT)) if acks == -1 else left)
    assert rows[COUNT - 1].current_leader.leader_id == 2


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_directory_that_fails_between_two_pieces(acks: int) -> None:
    driven = started(**PAIR)
    effects = begun(driven, many(acks))
    driven.broker._on_disk_failure((A, 0), OSError(5, "gone"))
    codes = codes_of(rest(driven, effects))
    lost = codes.count(ErrorCode.kafka_storage_error)
    assert lost == COUNT if acks == -1 else 0 < lost < COUNT
    assert set(codes) <= {NONE, ErrorCode.kafka_storage_error}


def test_a_disk_that_fails_in_a_piece_fails_the_partitions_behind_it() -> None:
    driven = started()
    effects = begun(driven, many())
    at = ends(driven).index(0) + 3
    driven.vfs.failing = lambda kind, path: EIO if kind == "write" and f"a-{at}/" in path else None
    codes = codes_of(rest(driven, effects))
    assert codes == [NONE] * at + [ErrorCode.kafka_storage_error] * (COUNT - at)


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_broker_that_stops_between_two_pieces(acks: int) -> None:
    driven = started(**PAIR)
    effects = begun(driven, many(acks))
    effects = rest(driven, effects + turn(driven, StopRequested()))
    counts = driven.broker.counts()
    assert (counts.produce.delayed, counts.produce.watched) == (0, 0)
    if acks:
        codes = codes_of(effects)
        assert codes[-1] is ErrorCode.not_leader_or_follower
        assert set(codes) <= {NONE, ErrorCode.not_leader_or_follower}


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_a_connection_sent_before_its_end_is_appended_whole(acks: int) -> None:
    driven = started(**PAIR)
    begun(driven, many(acks))
    rest(driven, turn(driven, ConnectionClosed(1)))
    assert ends(driven) == [1] * COUNT
    counts = driven.broker.counts()
    assert (counts.produce.delayed, counts.produce.watched) == (0, 0)
    assert len(driven.broker._front) == 1
    assert driven.broker.memory.used_bytes == 0


def test_flushes_of_all_pieces_are_awaited() -> None:
    driven = started(flush_messages="1")
    done: list[Any] = []
    works: list[RunWork] = []
    effects = turn(driven, many())
    while True:
        works += [each for each in effects if isinstance(each, RunWork)]
        done += effects
        if not driven.broker._turns.is_busy:
            break
        effects = turn(driven, TimeAdvanced())
    assert len(works) == COUNT
    assert {each.lane for each in works} == {Lane.FLUSH}
    for each in works:
        each.work()
    done += turn(driven, *(WorkDone(each.token, None) for each in works[:-1]))
    while driven.broker._turns.is_busy:
        done += turn(driven, TimeAdvanced())
    assert sent(done) == []
    effects = rest(driven, turn(driven, WorkDone(works[-1].token, None)))
    assert set(codes_of(effects)) == {NONE}


def test_a_connection_that_ends_while_flushes_are_awaited_is_answered_nothing() -> None:
    driven = started(flush_messages="1")
    _, effects = over_turns(driven, many())
    works = [each for each in effects if isinstance(each, RunWork)]
    turn(driven, ConnectionClosed(1))
    for each in works:
        each.work()
    effects = rest(driven, turn(driven, *(WorkDone(each.token, None) for each in works)))
    assert sent(effects) == []


@pytest.mark.parametrize(("min_isr", "code"), [("1", NONE), ("2", ErrorCode.not_enough_replicas)])
def test_an_isr_that_is_too_small_refuses_all_acks(min_isr: str, code: ErrorCode) -> None:
    driven = started(**PAIR, min_insync_replicas=min_isr)
    for number in range(COUNT):
        driven.metadata.change(number, isr=(1,))
    driven.publish()
    driven.now_ms += 60_000  # the other replica lags
    driven.step(TimeAdvanced())
    while driven.broker._turns.is_busy:
        driven.step(TimeAdvanced())
    effects = rest(driven, turn(driven, many(-1)))
    assert set(codes_of(effects)) == {code}
