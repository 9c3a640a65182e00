"""Fetch sessions against a model of lists that are searched: responses, order, evictions."""

import random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from replication.leader.fetch_session import (
    FetchManager,
    FetchPartition,
    FetchSessionCache,
    FetchSessionRequest,
)
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition

TOPIC = bytes(range(16))
KEYS = [(TOPIC, number) for number in range(4)]
EVICTION_MS = 10

keys = st.lists(st.sampled_from(KEYS), unique=True, max_size=3)
numbers = st.tuples(
    st.integers(0, 2),  # high watermark
    st.integers(0, 1),  # log start offset
    st.sampled_from([0, 0, 50]),  # bytes
    st.sampled_from([ErrorCode.none, ErrorCode.none, ErrorCode.kafka_storage_error]),
)


class Fetch(NamedTuple):
    client: int
    kind: str
    named: list
    forgotten: list
    numbers: list
    pause_ms: int


fetches = st.builds(
    Fetch,
    client=st.integers(0, 3),  # the even ones are followers
    kind=st.sampled_from(["full", "next", "next", "next", "again", "close"]),
    named=keys,
    forgotten=keys,
    numbers=st.lists(numbers, min_size=4, max_size=4),
    pause_ms=st.sampled_from([0, 1, 4, 11]),
)


class ModelSession:
    def __init__(self, number, order, is_privileged, now_ms):
        self.number = number
        self.order = order
        self.said = {}
        self.is_privileged = is_privileged
        self.creation_ms = self.last_used_ms = now_ms
        self.last_use = 0
        self.age_ms = 0
        self.epoch = 1
        self.size = len(order)


class Model:
    """Kafka's rules, written without any index."""

    def __init__(self, slots):
        self.slots = slots
        self.sessions = {}
        self.evictions = 0
        self.uses = 0

    def use(self, session):
        self.uses += 1
        session.last_use = self.uses

    def has_room(self, is_privileged, size, now_ms):
        if len(self.sessions) < self.slots:
            return True
        if not self.sessions:
            return False
        victim = min(self.sessions.values(), key=lambda one: one.last_use)
        if now_ms - victim.last_used_ms <= EVICTION_MS:
            candidates = [
                one
                for one in self.sessions.values()
                if one.age_ms > EVICTION_MS or (is_privileged and not one.is_privileged)
            ]
            worth = {id(one): (one.is_privileged, one.size, one.number) for one in candidates}
            victim = min(candidates, key=lambda one: worth[id(one)], default=None)
            if victim is None or (is_privileged, size, 0) < worth[id(victim)]:
                return False
        del self.sessions[victim.number]
        self.evictions += 1
        return True

    def answer(self, session, rows):
        sent = []
        for row in rows:
            key = (row.topic, row.partition)
            now = (row.high_watermark, row.log_start_offset)
            is_error = row.code is not ErrorCode.none
            if row.records_bytes or is_error or session.said.get(key) != now:
                sent.append(row)
            session.said[key] = None if is_error else now
            if row.records_bytes:
                session.order.remove(key)
                session.order.append(key)
        return sent


class Draws:
    """Ids in order, so that the model knows them."""

    def __init__(self):
        self.last = -1

    def randrange(self, _stop):
        self.last += 1
        return self.last

    def shuffle(self, x):
        random.Random(1).shuffle(x)


class Both:
    def __init__(self, slots):
        self.cache = FetchSessionCache(slots, Draws(), EVICTION_MS)
        self.manager = FetchManager(self.cache)
        self.model = Model(slots)
        self.clients = {}  # client -> (session id, epoch of its next fetch)
        self.now_ms = 100
        self.drawn = 0

    def run(self, fetch):
        self.now_ms += fetch.pause_ms
        session_id, epoch = self.clients.get(fetch.client, (0, 0))
        if fetch.kind == "full":
            epoch = 0
        elif fetch.kind == "close":
            epoch = -1
        elif fetch.kind == "again" and epoch > 1:
            epoch -= 1
        context = self.manager.new_context(
            FetchSessionRequest(
                version=17,
                session_id=session_id,
                epoch=epoch,
                is_from_follower=fetch.client % 2 == 0,
                partitions={
                    key: FetchPartition(fetch_offset=0, max_bytes=1) for key in fetch.named
                },
                forgotten=fetch.forgotten,
            ),
            lambda _: "t",
            self.now_ms,
        )
        order = [part.key for part in context.partitions()]
        rows = [self.row(key, fetch.numbers[key[1]]) for key in order]
        before = list(context.preview(rows))
        response = context.respond(rows, self.now_ms)
        assert before == list(response.rows)
        self.compare(fetch, session_id, epoch, order, rows, response)

    @staticmethod
    def row(key, fields):
        high_watermark, log_start_offset, records_bytes, code = fields
        is_error = code is not ErrorCode.none
        return FetchedPartition(
            topic=key[0],
            partition=key[1],
            code=code,
            high_watermark=-1 if is_error else high_watermark,
            log_start_offset=-1 if is_error else log_start_offset,
            records_bytes=0 if is_error else records_bytes,
        )

    def compare(self, fetch, session_id, epoch, order, rows, response):
        model = self.model
        session = model.sessions.get(session_id)
        expected, code, expected_id = list(rows), ErrorCode.none, 0
        if epoch in (0, -1):
            model.sessions.pop(session_id, None)
            assert order == fetch.named
            is_privileged = fetch.client % 2 == 0
            if epoch == 0 and model.has_room(is_privileged, len(rows), self.now_ms):
                self.drawn += 1
                session = ModelSession(self.drawn, list(order), is_privileged, self.now_ms)
                model.answer(session, rows)
                session.order = list(order)
                model.use(session)
                model.sessions[self.drawn] = session
                expected_id = self.drawn
            self.clients[fetch.client] = (expected_id, 1 if expected_id else 0)
        elif session is None:
            code, expected = ErrorCode.fetch_session_id_not_found, []
            self.clients.pop(fetch.client)
        elif session.epoch != epoch:
            code, expected = ErrorCode.invalid_fetch_session_epoch, []
            self.clients[fetch.client] = (session_id, 0)
        else:
            expected, expected_id = self.incremental(fetch, session, order, rows)
        assert (response.code, response.session_id) == (code, expected_id)
        assert list(response.rows) == expected
        assert len(self.cache) == len(model.sessions)
        assert self.cache.eviction_count == model.evictions
        assert self.cache.partition_count == sum(one.size for one in model.sessions.values())
        for number, one in model.sessions.items():
            looked_at = self.cache.get(number).looked_at()
            assert [each.key for each in looked_at] == one.order

    def incremental(self, fetch, session, order, rows):
        session.order += [key for key in fetch.named if key not in session.order]
        for key in fetch.forgotten:
            session.said.pop(key, None)
            if key in session.order:
                session.order.remove(key)
        if not session.order:
            del self.model.sessions[session.number]
            self.clients.pop(fetch.client)
            assert order == fetch.named
            return list(rows), 0
        assert order == session.order
        session.epoch += 1
        self.model.use(session)
        session.last_used_ms, session.size = self.now_ms, len(session.order)
        session.age_ms = self.now_ms - session.creation_ms
        self.clients[fetch.client] = (session.number, session.epoch)
        return self.model.answer(session, rows), session.number


@given(st.integers(0, 3), st.lists(fetches, max_size=25))
def test_all_fetches_are_answered_as_the_model_answers_them(slots, run):
    both = Both(slots)
    for fetch in run:
        both.run(fetch)
