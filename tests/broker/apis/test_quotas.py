"""Produce and Fetch above quotas of bytes: throttle times, empty answers, sessions, bytes."""

from functools import partial
from itertools import count

import pytest
from immutables import Map

from tests.broker.apis.records import (
    FETCH,
    PRODUCE,
    Records,
    answer_of,
    fetched_rows,
    key_of,
)
from tests.broker.apis.requests import ALICE
from tests.replication.partitions import WALL_MS
from tests.storage.test_unified_log import produced
from wire.errors import ErrorCode

PAIR = {"replicas": (1, 2)}
FOLLOWER = {"replica_id": 2, "replica_epoch": 12}


def limited(records=0, replicas=(1,), **values):
    broker = Records()
    broker.topic(isr=replicas, replicas=replicas)
    for _ in range(records):
        broker.append([key_of("t")])
    broker.quotas.publish(Map({(("user", None),): Map(values)}))
    return broker


def rate_of(quota):
    """Bytes that count for the only client."""
    (rate,) = quota.rates(9)
    return round(rate.rate * 10)


def throttle_ms(asked, api_key, version=12):
    return round(answer_of(asked, api_key, version).throttle_time.total_seconds() * 1_000)


def send(broker, **fields):
    return broker.send({"t": {0: bytes(produced(WALL_MS).buffer)}}, **fields)


# ---- Produce ---------------------------------------------------------------------------------


def test_a_produce_counts_with_its_whole_request():
    broker = limited(producer_byte_rate=1_000_000)
    asked = send(broker)
    assert (throttle_ms(asked, PRODUCE), asked.muted) == (0, [])
    size = rate_of(broker.quotas.produce)
    assert size > len(produced(WALL_MS).buffer)
    send(broker)
    assert rate_of(broker.quotas.produce) == 2 * size


@pytest.mark.parametrize("acks", [1, -1])
def test_a_produce_above_the_quota_is_appended_and_says_the_throttle_time(acks):
    broker = limited(producer_byte_rate=1)
    asked = send(broker, acks=acks)
    size = rate_of(broker.quotas.produce)
    assert throttle_ms(asked, PRODUCE) == (size - 10) * 1_000
    assert asked.muted == [(size - 10) * 1_000]
    assert broker.manager.partitions[key_of("t")].log.end_offset == 1


def test_a_produce_without_acks_mutes_too():
    broker = limited(producer_byte_rate=1)
    asked = send(broker, acks=0)
    assert (len(asked.muted), asked.reasons) == (1, [None])


def test_time_of_a_produce_without_acks_is_exempt():
    broker = limited(request_percentage=1)
    broker.quotas.nanoseconds = partial(next, count(0, 1_000_000))
    send(broker, acks=0)
    assert list(broker.quotas.request.rates(9)) == []
    send(broker, acks=1)
    assert len(list(broker.quotas.request.rates(9))) == 1


def test_a_produce_that_waits_counts_when_it_is_answered():
    broker = limited(producer_byte_rate=1, **PAIR)
    asked = send(broker)
    assert (asked.parts, asked.muted, list(broker.quotas.produce.rates(9))) == ([], [], [])
    broker.advance(50)
    assert len(asked.muted) == 1


def test_a_refused_produce_counts():
    broker = limited(producer_byte_rate=1)
    asked = broker.send({"unknown": {0: b""}})
    assert len(asked.muted) == 1


# ---- Fetch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_a_fetch_counts_with_its_whole_answer(version):
    broker = limited(3, consumer_byte_rate=1_000_000)
    asked = broker.ask({"t": [(0, 0)]}, version=version)
    assert throttle_ms(asked, FETCH, version) == 0
    (frame,) = asked.parts
    assert rate_of(broker.quotas.fetch) == len(frame) - (5 if version >= 12 else 4) + 4


def test_a_fetch_above_the_quota_is_empty_and_its_bytes_do_not_count():
    broker = limited(3, consumer_byte_rate=50)
    before = broker.handles(key_of("t"))
    broker.quotas.fetch.record(ALICE, "client", 500)
    asked = broker.ask({"t": [(0, 0)]})
    assert fetched_rows(asked) == {}
    assert asked.muted == [throttle_ms(asked, FETCH)]
    assert asked.muted[0] > 1_000
    assert rate_of(broker.quotas.fetch) == 500
    assert (broker.handles(key_of("t")), broker.counters.bytes_out) == (before, 0)


def test_a_fetch_that_the_quota_of_time_delays_is_empty_too():
    broker = limited(3, consumer_byte_rate=1_000_000, request_percentage=1)
    broker.quotas.request.record(ALICE, "client", 20)
    asked = broker.ask({"t": [(0, 0)]})
    assert (fetched_rows(asked), asked.muted) == ({}, [1_000])
    assert rate_of(broker.quotas.fetch) == 0


def test_no_fetch_is_so_large_that_it_alone_is_above_the_quota():
    size = len(produced(WALL_MS).buffer)
    broker = limited(9, consumer_byte_rate=48)
    asked = broker.ask({"t": [(0, 0)]})
    (row,) = fetched_rows(asked).values()
    assert len(row.records) == 480 // size * size < 9 * size
    assert asked.muted == []
    broker = limited(9, consumer_byte_rate=1_000)
    (row,) = fetched_rows(broker.ask({"t": [(0, 0)]})).values()
    assert len(row.records) == 9 * size


def test_a_fetch_of_a_follower_is_not_limited():
    size = len(produced(WALL_MS).buffer)
    broker = limited(9, consumer_byte_rate=50, **PAIR)
    (row,) = fetched_rows(broker.ask({"t": [(0, 0)]}, **FOLLOWER)).values()
    assert len(row.records) == 9 * size


def test_the_session_of_a_throttled_fetch_is_as_before():
    broker = limited(1, consumer_byte_rate=1_000)
    first = answer_of(broker.ask({"t": [(0, 0)]}, session_epoch=0), FETCH, 12)
    broker.append([key_of("t")])
    broker.quotas.fetch.record(ALICE, "client", 20_000)
    asked = broker.ask({}, session_id=first.session_id, session_epoch=1)
    throttled = answer_of(asked, FETCH, 12)
    assert (throttled.error_code, throttled.session_id) == (ErrorCode.none, first.session_id)
    assert (throttled.responses, len(asked.muted)) == ((), 1)
    broker.advance(60_000)
    again = broker.ask({}, session_id=first.session_id, session_epoch=2)
    assert len(fetched_rows(again)) == 1


def test_an_incremental_answer_counts_with_its_rows_only():
    broker = limited(1, consumer_byte_rate=1_000_000)
    first = answer_of(broker.ask({"t": [(0, 1)]}, session_epoch=0, max_wait_ms=0), FETCH, 12)
    before = rate_of(broker.quotas.fetch)
    asked = broker.ask({}, session_id=first.session_id, session_epoch=1, max_wait_ms=0)
    assert fetched_rows(asked) == {}
    (frame,) = asked.parts
    assert rate_of(broker.quotas.fetch) - before == len(frame) - 5 + 4


def test_followers_are_not_throttled():
    broker = limited(3, consumer_byte_rate=1, request_percentage=1, **PAIR)
    broker.quotas.nanoseconds = partial(next, count(0, 1_000_000))
    asked = broker.ask({"t": [(0, 0)]}, **FOLLOWER)
    assert (asked.muted, throttle_ms(asked, FETCH)) == ([], 0)
    assert len(fetched_rows(asked)) == 1
    assert list(broker.quotas.fetch.rates(9)) == list(broker.quotas.request.rates(9)) == []
    assert broker.quotas.exempt_percent > 0


# ---- throttled followers ---------------------------------------------------------------------


def test_answers_to_followers_count_with_their_throttled_partitions():
    broker = limited(3, **PAIR)
    broker.topic("u", isr=(1, 2), replicas=(1, 2))
    broker.append([key_of("u")])
    quota = broker.quota
    rows = {"t": [(0, 0)], "u": [(0, 0)]}
    broker.ask(rows, **FOLLOWER)
    assert quota.per_second == 0, "no partition is throttled"
    quota.mark(key_of("t")[0], frozenset({0}))
    broker.ask(rows, max_wait_ms=0)
    assert quota.per_second == 0, "a consumer"
    broker.ask(rows, **FOLLOWER)
    asked = broker.ask({"t": [(0, 0)]}, **FOLLOWER)
    fetched_rows(asked)
    (frame,) = asked.parts
    assert quota.per_second == 2 * (len(frame) - 5 + 4)
