"""Fetch sessions (KIP-227): which rows a response holds, and which session goes for a new one."""

import random

import pytest

from replication.leader.fetch_session import (
    EPOCH_MAX,
    EVICTION_MS_MIN,
    SESSION_IDS,
    FetchManager,
    FetchPartition,
    FetchSessionCache,
    FetchSessionRequest,
    next_epoch,
)
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition

ID = bytes(range(16))
A, B, C = (ID, 0), (ID, 1), (ID, 2)
NAMES = {ID: "orders"}


def partition(offset=0):
    return FetchPartition(fetch_offset=offset, max_bytes=1_000)


def request(*keys, session_id=0, epoch=0, forgotten=(), version=17, follower=False):
    return FetchSessionRequest(
        version=version,
        session_id=session_id,
        epoch=epoch,
        is_from_follower=follower,
        partitions={key: partition() for key in keys},
        forgotten=forgotten,
    )


def row(key, high_watermark=5, **fields):
    return FetchedPartition(
        topic=key[0],
        partition=key[1],
        **{"high_watermark": high_watermark, "log_start_offset": 0, **fields},
    )


class Broker:
    """A manager with a clock."""

    def __init__(self, slots=10, names=NAMES):
        self.cache = FetchSessionCache(slots, random.Random(1))
        self.manager = FetchManager(self.cache)
        self.now_ms = 1_000
        self.names = dict(names)

    def context(self, *keys, **fields):
        return self.manager.new_context(request(*keys, **fields), self.names.get, self.now_ms)

    def fetch(self, *keys, rows=None, **fields):
        """Answer each partition of the fetch: by the row given, or as before."""
        given = {(each.topic, each.partition): each for each in rows or ()}
        context = self.context(*keys, **fields)
        read = [given.get(part.key, row(part.key)) for part in context.partitions()]
        return context.respond(read, self.now_ms)

    def open(self, *keys, **fields):
        response = self.fetch(*keys, **fields)
        assert response.session_id != 0
        return response.session_id

    def sizes(self):
        return {
            session_id: len(self.cache.get(session_id).partitions)
            for session_id in list(self.cache._sessions)
        }


def keys_of(response):
    return [(row.topic, row.partition) for row in response.rows]


# --- full fetches


def test_a_full_fetch_opens_a_session_and_has_all_rows():
    broker = Broker()
    response = broker.fetch(A, B)
    assert response.code is ErrorCode.none
    assert response.session_id != 0
    assert keys_of(response) == [A, B]
    assert (len(broker.cache), broker.cache.partition_count) == (1, 2)


def test_the_final_epoch_and_old_versions_get_no_session():
    broker = Broker()
    for fields in ({"epoch": -1}, {"epoch": -1, "version": 6}):
        response = broker.fetch(A, **fields)
        assert (response.code, response.session_id) == (ErrorCode.none, 0)
        assert keys_of(response) == [A]
    assert len(broker.cache) == 0


@pytest.mark.parametrize(("epoch", "sessions"), [(0, 1), (-1, 0)])
def test_a_full_fetch_closes_the_session_it_names(epoch, sessions):
    broker = Broker()
    session_id = broker.open(A, B)
    response = broker.fetch(A, session_id=session_id, epoch=epoch)
    assert response.session_id != session_id
    assert (len(broker.cache), broker.cache.partition_count) == (sessions, sessions)
    assert broker.cache.eviction_count == 0
    assert broker.cache.get(session_id) is None


def test_the_rows_of_a_full_fetch_are_what_the_session_holds():
    broker = Broker()
    context = broker.context(A, B)
    response = context.respond([row(B, 7)], broker.now_ms)
    assert keys_of(response) == [B]
    assert list(broker.cache.get(response.session_id).partitions) == [B]


def test_a_throttled_full_fetch_opens_no_session():
    broker = Broker()
    response = broker.context(A).throttled()
    assert (response.code, response.session_id, response.rows) == (ErrorCode.none, 0, ())
    assert len(broker.cache) == 0


def test_a_preview_of_a_full_fetch_has_all_rows_and_opens_no_session():
    broker = Broker()
    assert broker.context(A).preview([row(A)]) == [row(A)]
    assert len(broker.cache) == 0


def test_ids_are_drawn_until_one_is_free():
    class Draws:
        def __init__(self):
            self.values = [0, 0, SESSION_IDS - 1]

        def randrange(self, stop):
            assert stop == SESSION_IDS
            return self.values.pop(0)

        def shuffle(self, x):
            raise AssertionError

    cache = FetchSessionCache(3, Draws())
    ids = [cache.add({}, is_privileged=False, uses_topic_ids=True, now_ms=0).id for _ in range(2)]
    assert ids == [1, 2**31 - 2]


# --- errors


def test_an_unknown_session_is_an_error_without_rows():
    broker = Broker()
    for epoch in (1, -2):
        context = broker.context(A, session_id=9, epoch=epoch)
        assert list(context.partitions()) == []
        response = context.respond([], broker.now_ms)
        assert response.code is ErrorCode.fetch_session_id_not_found
        assert (response.session_id, response.rows) == (0, ())


@pytest.mark.parametrize("epoch", [2, 3, -2])
def test_another_epoch_than_the_next_is_an_error_and_changes_nothing(epoch):
    broker = Broker()
    session_id = broker.open(A)
    response = broker.fetch(B, session_id=session_id, epoch=epoch, forgotten=[A])
    assert response.code is ErrorCode.invalid_fetch_session_epoch
    assert (response.session_id, response.rows) == (0, ())
    assert list(broker.cache.get(session_id).partitions) == [A]
    assert broker.fetch(session_id=session_id, epoch=1).code is ErrorCode.none


@pytest.mark.parametrize(("key", "first", "then"), [(A, 13, 12), (("orders", 0), 12, 13)])
def test_topics_are_named_in_one_way_in_a_session(key, first, then):
    broker = Broker()
    session_id = broker.open(key, version=first)
    response = broker.fetch(session_id=session_id, epoch=1, version=then)
    assert response.code is ErrorCode.fetch_session_topic_id_error
    assert (response.session_id, response.rows) == (0, ())
    assert broker.fetch(session_id=session_id, epoch=1, version=first).code is ErrorCode.none


def test_a_session_error_under_a_quota_is_none():
    response = Broker().context(session_id=9, epoch=1).throttled()
    assert (response.code, response.session_id, response.rows) == (ErrorCode.none, 0, ())


# --- incremental fetches


def test_an_incremental_fetch_reads_all_and_answers_what_changed():
    broker = Broker()
    session_id = broker.open(A, B)
    response = broker.fetch(session_id=session_id, epoch=1)
    assert (response.code, response.session_id, keys_of(response)) == (
        ErrorCode.none,
        session_id,
        [],
    )
    response = broker.fetch(session_id=session_id, epoch=2, rows=[row(B, 6)])
    assert keys_of(response) == [B]
    response = broker.fetch(session_id=session_id, epoch=3, rows=[row(B, 6)])
    assert keys_of(response) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"records_bytes": 1},
        {"high_watermark": 4},
        {"log_start_offset": 1},
        {"preferred_read_replica": 0},
        {"code": ErrorCode.not_leader_or_follower},
        {"diverging_epoch": (0, 0)},
    ],
)
def test_each_reason_to_send_a_partition(changed):
    broker = Broker()
    session_id = broker.open(A, B)
    response = broker.fetch(session_id=session_id, epoch=1, rows=[row(A, **changed)])
    assert keys_of(response) == [A]


def test_what_is_no_reason_to_send_a_partition():
    broker = Broker()
    session_id = broker.open(A)
    quiet = row(A, last_stable_offset=3, aborted_transactions=(), leader=(1, 2))
    assert keys_of(broker.fetch(session_id=session_id, epoch=1, rows=[quiet])) == []


def test_a_high_watermark_and_a_log_start_are_sent_once():
    broker = Broker()
    session_id = broker.open(A)
    for epoch, fields, expected in (
        (1, {"high_watermark": 6}, [A]),
        (2, {"high_watermark": 6}, []),
        (3, {"high_watermark": 6, "log_start_offset": 2}, [A]),
        (4, {"high_watermark": 6, "log_start_offset": 2}, []),
        (5, {"high_watermark": 5, "log_start_offset": 2}, [A]),
    ):
        response = broker.fetch(session_id=session_id, epoch=epoch, rows=[row(A, **fields)])
        assert keys_of(response) == expected, epoch


@pytest.mark.parametrize("high_watermark", range(3))
def test_an_error_is_sent_each_time_and_once_more_when_it_is_gone(high_watermark):
    broker = Broker()
    good = row(A, high_watermark)
    session_id = broker.open(A, rows=[good])
    # with the same numbers: only the error differs
    failed = row(A, high_watermark, code=ErrorCode.kafka_storage_error)
    for epoch, rows, expected in (
        (1, [failed], [A]),
        (2, [failed], [A]),
        (3, [good], [A]),
        (4, [good], []),
    ):
        assert keys_of(broker.fetch(session_id=session_id, epoch=epoch, rows=rows)) == expected


def test_an_error_of_the_full_fetch_is_sent_once_more_when_it_is_gone():
    broker = Broker()
    session_id = broker.open(A, rows=[row(A, code=ErrorCode.kafka_storage_error)])
    assert keys_of(broker.fetch(session_id=session_id, epoch=1)) == [A]
    assert keys_of(broker.fetch(session_id=session_id, epoch=2)) == []


def test_a_new_partition_is_sent_and_a_known_one_keeps_its_place_with_its_new_offset():
    broker = Broker()
    session_id = broker.open(A, B)
    context = broker.manager.new_context(
        FetchSessionRequest(
            version=17,
            is_from_follower=False,
            session_id=session_id,
            epoch=1,
            partitions={C: partition(3), A: partition(9)},
        ),
        broker.names.get,
        broker.now_ms,
    )
    read = context.partitions()
    assert [(part.key, part.request.fetch_offset) for part in read] == [(A, 9), (B, 0), (C, 3)]
    assert keys_of(context.respond([row(part.key) for part in read], 0)) == [C]
    assert broker.cache.partition_count == 3


@pytest.mark.parametrize("fields", [(0, -1), (1, -1), (2, -1), (-1, 0), (-1, 1), (-1, 2)])
def test_a_new_partition_is_sent_for_its_high_watermark_or_its_log_start(fields):
    broker = Broker()
    session_id = broker.open(A)
    new = row(B, fields[0], log_start_offset=fields[1])
    assert keys_of(broker.fetch(B, session_id=session_id, epoch=1, rows=[new])) == [B]
    assert keys_of(broker.fetch(session_id=session_id, epoch=2, rows=[new])) == []


def test_a_row_without_numbers_says_nothing_new():
    broker = Broker()
    session_id = broker.open(A)
    unknown = row(B, -1, log_start_offset=-1)
    failed = row(B, -1, log_start_offset=-1, code=ErrorCode.kafka_storage_error)
    assert keys_of(broker.fetch(B, session_id=session_id, epoch=1, rows=[unknown])) == []
    assert keys_of(broker.fetch(session_id=session_id, epoch=2, rows=[failed])) == [B]
    assert keys_of(broker.fetch(session_id=session_id, epoch=3, rows=[unknown])) == []


def test_forgotten_partitions_are_read_no_more():
    broker = Broker()
    session_id = broker.open(A, B)
    context = broker.context(C, session_id=session_id, epoch=1, forgotten=[A, C, (ID, 9)])
    assert [part.key for part in context.partitions()] == [B]
    assert broker.cache.partition_count == 1


def test_a_session_without_partitions_is_closed():
    broker = Broker()
    session_id = broker.open(A)
    response = broker.fetch(session_id=session_id, epoch=1, forgotten=[A])
    assert (response.code, response.session_id, response.rows) == (ErrorCode.none, 0, [])
    assert (len(broker.cache), broker.cache.partition_count) == (0, 0)
    response = broker.fetch(session_id=session_id, epoch=2)
    assert response.code is ErrorCode.fetch_session_id_not_found


def test_partitions_whose_records_were_sent_are_read_last():
    broker = Broker()
    session_id = broker.open(A, B, C)
    rows = [row(A, records_bytes=1), row(B, 6)]
    response = broker.fetch(session_id=session_id, epoch=1, rows=rows)
    assert keys_of(response) == [A, B]
    context = broker.context(session_id=session_id, epoch=2)
    assert [part.key for part in context.partitions()] == [B, C, A]


def test_a_preview_and_a_throttled_response_leave_the_session_as_it_is():
    broker = Broker()
    session_id = broker.open(A, B)
    context = broker.context(session_id=session_id, epoch=1)
    rows = [row(A, 6, records_bytes=10), row(B)]
    assert context.preview(rows) == rows[:1]
    response = context.throttled()
    assert (response.code, response.session_id, response.rows) == (ErrorCode.none, session_id, ())
    context = broker.context(session_id=session_id, epoch=2)
    assert [part.key for part in context.partitions()] == [A, B]
    assert keys_of(context.respond(rows, broker.now_ms)) == [A]


def test_a_fetch_that_the_next_one_overtook_gets_an_error_and_changes_nothing():
    broker = Broker()
    session_id = broker.open(A, B)
    first = broker.context(session_id=session_id, epoch=1)
    second = broker.context(session_id=session_id, epoch=2)
    rows = [row(A, 6, records_bytes=10), row(B)]
    assert first.preview(rows) == ()
    for response in (first.respond(rows, broker.now_ms), first.throttled()):
        assert response.code is ErrorCode.invalid_fetch_session_epoch
        assert (response.session_id, response.rows) == (session_id, ())
    assert [part.key for part in second.partitions()] == [A, B]
    assert keys_of(second.respond(rows, broker.now_ms)) == [A]


def test_epochs_wrap_to_one():
    assert next_epoch(0) == 1
    assert next_epoch(EPOCH_MAX - 1) == EPOCH_MAX == 2**31 - 1
    broker = Broker()
    session_id = broker.open(A)
    broker.cache.get(session_id).epoch = EPOCH_MAX
    assert broker.fetch(session_id=session_id, epoch=EPOCH_MAX).code is ErrorCode.none
    assert broker.fetch(session_id=session_id, epoch=1).code is ErrorCode.none


def test_names_of_topics():
    broker = Broker(names={})
    assert [part.topic_name for part in broker.context(A).partitions()] == [None]
    session_id = broker.open(A)
    broker.names[ID] = "orders"
    for epoch in (1, 2):
        context = broker.context(B, session_id=session_id, epoch=epoch)
        assert [part.topic_name for part in context.partitions()] == ["orders"] * 2
        broker.names.clear()  # the topic is deleted: its name stays
    context = broker.context(("mail", 0), version=12)
    assert [part.topic_name for part in context.partitions()] == ["mail"]


# --- eviction


def test_the_time_that_makes_evictable_is_that_of_kafka():
    assert EVICTION_MS_MIN == 120_000


def test_without_slots_there_are_no_sessions():
    broker = Broker(slots=0)
    assert broker.fetch(A, follower=True).session_id == 0
    assert (len(broker.cache), broker.cache.eviction_count) == (0, 0)


def test_the_least_recently_used_session_goes_when_it_is_stale():
    broker = Broker(slots=2)
    first = broker.open(A, B, C, follower=True)
    broker.now_ms += 1
    second = broker.open(A, B, follower=True)
    broker.now_ms += 1
    assert broker.fetch(session_id=first, epoch=1).code is ErrorCode.none
    broker.now_ms = 1_001 + EVICTION_MS_MIN  # the second was used 120 s ago, the first 119,999 ms
    assert broker.fetch(A).session_id == 0
    broker.now_ms += 1
    third = broker.open(A)
    assert set(broker.sizes()) == {first, third}
    assert broker.cache.get(second) is None
    assert (broker.cache.eviction_count, broker.cache.partition_count) == (1, 4)


def test_a_follower_replaces_the_smallest_consumer_of_any_age():
    broker = Broker(slots=3)
    broker.open(A, B)
    small = broker.open(A)
    broker.open(A, B, C, follower=True)
    broker.open(A, follower=True)
    assert broker.cache.get(small) is None
    assert sorted(broker.sizes().values()) == [1, 2, 3]


def test_a_young_session_goes_for_no_consumer_and_no_follower_for_a_follower():
    broker = Broker(slots=1)
    broker.open(A)
    assert broker.fetch(A, B, C).session_id == 0
    follower = broker.open(A, follower=True)
    assert broker.fetch(A, B, C, follower=True).session_id == 0
    assert set(broker.sizes()) == {follower}


@pytest.mark.parametrize(
    ("kept", "new", "is_replaced"),
    [
        ((2, False), (3, False), True),
        ((2, False), (2, False), False),
        ((2, False), (1, False), False),
        ((2, False), (1, True), True),
        ((1, True), (3, False), False),
        ((2, True), (3, True), True),
        ((2, True), (2, True), False),
    ],
)
def test_an_old_session_in_use_goes_for_a_more_valuable_one(kept, new, is_replaced):
    keys = (A, B, C)
    broker = Broker(slots=1)
    session_id = broker.open(*keys[: kept[0]], follower=kept[1])
    broker.now_ms += EVICTION_MS_MIN  # not older than that: it is still young
    broker.fetch(session_id=session_id, epoch=1)
    young = broker.fetch(*keys[: new[0]], follower=new[1]).session_id
    assert (young != 0) is (new[1] and not kept[1])
    if young:
        return
    broker.now_ms += 1
    broker.fetch(session_id=session_id, epoch=2)
    assert (broker.fetch(*keys[: new[0]], follower=new[1]).session_id != 0) is is_replaced
    assert broker.cache.eviction_count == is_replaced


def test_a_session_is_worth_its_size_of_now():
    broker = Broker(slots=2)
    grown = broker.open(A)
    other = broker.open(A, B)
    broker.fetch(B, C, session_id=grown, epoch=1)
    assert broker.cache.partition_count == 5
    follower = broker.open(A, follower=True)
    assert set(broker.sizes()) == {grown, follower}
    assert broker.cache.get(other) is None


def test_a_closed_session_is_no_candidate():
    broker = Broker(slots=2)
    closed = broker.open(A)
    kept = broker.open(A, B)
    broker.fetch(A, session_id=closed, epoch=-1)
    assert set(broker.sizes()) == {kept}
    first = broker.open(A, follower=True)
    second = broker.open(A, follower=True)
    assert set(broker.sizes()) == {first, second}


def test_a_fetch_that_waits_while_the_next_one_forgets_all_is_overtaken():
    """The session is gone by then; a client that pipelines brings this about."""
    broker = Broker()
    session_id = broker.open(A, B)
    waiting = broker.context(session_id=session_id, epoch=1)
    read = [row(part.key, high_watermark=9) for part in waiting.partitions()]
    emptied = broker.fetch(session_id=session_id, epoch=2, forgotten=(A, B))
    assert (emptied.code, emptied.session_id) == (ErrorCode.none, 0)
    assert len(broker.cache) == 0
    answered = waiting.respond(read, broker.now_ms)
    assert answered.code is ErrorCode.invalid_fetch_session_epoch
    assert answered.rows == ()
