"""Partitions of a follower's session to which nothing happens: requests pass them by."""

import pytest
from msgspec.structs import replace

from quorum_controller.security.authorization import AccessRules
from replication.leader.quiet_partitions import LOOK_MS
from replication.partition import Partition
from tests.broker.apis.records import (
    FETCH,
    Records,
    answer_of,
    divide,
    fetched_rows,
    key_of,
    row_of,
)
from tests.replication.partitions import WALL_MS
from tests.storage.test_unified_log import produced
from tests.wire.messages.test_fetch_request import request_bytes
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode
from wire.steps import finished

VERSION = 15
PAIR = {"isr": (1, 2), "replicas": (1, 2)}
BUSY, QUIET = key_of("t", 0), key_of("t", 1)


@pytest.fixture(autouse=True, params=["whole", "in pieces"])
def _size(request, monkeypatch):
    if request.param == "in pieces":
        divide(monkeypatch)


class Counted(Partition):
    looks = 0

    @property
    def role(self):
        self.looks += 1
        return self.__dict__["role"]

    @role.setter
    def role(self, role):
        self.__dict__["role"] = role


class Follower:
    """Follower 2 of partitions 0 to 2 of a topic, in a session, beside which nobody fetches."""

    def __init__(self, partitions=3, **fields):
        self.records = Records()
        self.records.broker(2)
        self.keys = [key_of("t", number) for number in range(partitions)]
        for number in range(partitions):
            self.records.topic(number=number, **(PAIR | fields))
        self.who = {"replica_id": 2, "replica_epoch": 12}
        self.epoch, self.session_id = 0, 0
        rows = {"t": [self.row(number, 0) for number in range(partitions)]}
        self.session_id = answer_of(self.send(rows, 0), FETCH, VERSION).session_id
        for _ in range(2):  # the first tells nothing more, the second is the same again
            self.send({}, 0)

    def row(self, number, offset):
        return {"partition": number, "fetch_offset": offset, "log_start_offset": 0}

    def send(self, rows, max_wait_ms=500, **who):
        session = {"session_id": self.session_id, "session_epoch": self.epoch}
        asked = self.records.ask(
            rows, version=VERSION, max_wait_ms=max_wait_ms, **session, **(self.who | who)
        )
        self.epoch += 1
        return asked

    @property
    def session(self):
        return self.records.sessions._cache.get(self.session_id)

    @property
    def held(self):
        return [key[1] for key in self.session.quiet.held]

    def append(self, *numbers):
        self.records.append({key_of("t", number): produced(WALL_MS) for number in numbers})

    def replica(self, number=1):
        return self.records.manager.partitions[key_of("t", number)].role.replicas[2]


def rows_of(asked):
    """Number of each row, and the first offset of its records."""
    found = {}
    for (_, number), row in fetched_rows(asked, VERSION).items():
        batches = iterate_batches(row.records or b"")
        found[number] = next((each.header.base_offset for each in batches), None)
    return found


def is_parked(asked):
    return asked.parts == []


def test_partitions_without_news_are_held_and_passed_by():
    follower = Follower()
    assert follower.held == [0, 1, 2]
    partition = follower.records.manager.partitions[QUIET]
    role = partition.role
    del partition.role
    partition.__class__ = Counted
    partition.role = role
    asked = follower.send({})
    assert is_parked(asked)
    assert partition.looks == 0
    assert follower.held == [0, 1, 2]


def test_a_parked_request_is_answered_with_what_a_held_partition_gets():
    follower = Follower()
    asked = follower.send({})
    follower.append(1)
    assert rows_of(asked) == {1: 0}
    assert follower.held == [0, 2]


def test_the_next_request_reads_what_happened_between():
    follower = Follower()
    follower.append(1)
    assert rows_of(follower.send({})) == {1: 0}
    follower.send({"t": [follower.row(1, 1)]}, 0)
    assert follower.held == [0, 2]
    for _ in range(2):
        follower.send({}, 0)
    assert sorted(follower.held) == [0, 1, 2]


def test_each_of_several_records_is_got_once():
    follower = Follower()
    for offset in range(4):
        asked = follower.send({"t": [follower.row(0, offset)]})
        follower.append(0)
        assert rows_of(asked) == {0: offset}
    assert follower.held == [1, 2]


def test_two_held_partitions_of_one_event_are_read_both():
    follower = Follower()
    asked = follower.send({})
    follower.records.manager.append(
        {key_of("t", number): produced(WALL_MS) for number in (1, 2)},
        required_acks=1, timeout_ms=50, answer=lambda _: None,
    )  # fmt: skip
    follower.records.go_on()
    first = rows_of(asked)
    second = rows_of(follower.send({}, 0)) if len(first) == 1 else {}
    assert first | second == {1: 0, 2: 0}


def test_a_watermark_that_another_follower_raised_is_told_once():
    follower = Follower(isr=(1, 2, 3), replicas=(1, 2, 3))
    follower.records.broker(3)
    follower.append(1)
    follower.send({"t": [follower.row(1, 1)]}, 0)
    for _ in range(3):
        follower.send({}, 0)
    assert 1 in follower.held
    other = {"replica_id": 3, "replica_epoch": 13}
    for key in (0, 2):
        follower.records.ask({"t": [follower.row(key, 0)]}, version=VERSION, **other)
    follower.records.ask({"t": [follower.row(1, 1)]}, version=VERSION, **other)
    rows = fetched_rows(follower.send({}, 0), VERSION)
    assert {number: row.high_watermark for (_, number), row in rows.items()} == {1: 1}
    assert fetched_rows(follower.send({}, 0), VERSION) == {}


def test_other_metadata_lets_all_be_read_again():
    follower = Follower()
    before = follower.session.quiet.held[QUIET]
    follower.send({}, 0)
    assert follower.session.quiet.held[QUIET] is before
    follower.records.broker(3)
    assert fetched_rows(follower.send({}, 0), VERSION) == {}
    assert follower.held == [0, 1, 2], "the reads are the same again"
    assert follower.session.quiet.held[QUIET] is not before
    follower.records.forget(QUIET)
    rows = fetched_rows(follower.send({}, 0), VERSION)
    assert len(rows) == 3
    assert ErrorCode.none not in {row.error_code for row in rows.values()}


def test_a_request_of_another_registration_reads_all():
    follower = Follower()
    asked = follower.send({}, 0, replica_epoch=11)
    codes = {each.error_code for each in fetched_rows(asked, VERSION).values()}
    assert codes == {ErrorCode.not_leader_or_follower}
    assert follower.held == []


def test_a_request_of_another_follower_reads_all():
    follower = Follower()
    asked = follower.send({}, 0, replica_id=4, replica_epoch=14)
    codes = {each.error_code for each in fetched_rows(asked, VERSION).values()}
    assert codes == {ErrorCode.not_leader_or_follower}
    assert follower.held == []


def test_all_are_read_again_after_a_time():
    follower = Follower()
    follower.records.advance(LOOK_MS - 1)
    follower.records.manager.partitions[QUIET].log.log.roll(5, WALL_MS)  # no event tells
    follower.send({}, 0)
    assert follower.held == [0, 1, 2]
    follower.records.advance(1)
    follower.send({}, 0)
    assert follower.held == [0, 2]


def test_a_row_of_a_request_for_a_held_partition_is_read():
    follower = Follower()
    asked = follower.send({"t": [follower.row(1, 7)]}, 0)
    rows = fetched_rows(asked, VERSION)
    assert {number: row.error_code for (_, number), row in rows.items()} == {
        1: ErrorCode.offset_out_of_range
    }
    assert follower.held == [0, 2]


def test_a_forgotten_partition_is_not_held():
    follower = Follower()
    session = {"session_id": follower.session_id, "session_epoch": follower.epoch}
    asked = follower.records.ask(
        {}, {"t": [1]}, version=VERSION, max_wait_ms=500, **session, **follower.who
    )
    assert follower.held == [0, 2]
    follower.append(1)
    assert is_parked(asked)
    follower.append(2)
    assert rows_of(asked) == {2: 0}


def test_a_follower_that_was_passed_by_was_caught_up_at_its_last_request():
    follower = Follower()
    follower.records.advance(30)
    follower.send({}, 0)
    sent_ms = follower.records.clock.now_ms
    assert follower.replica().last_caught_up_ms < sent_ms
    follower.records.advance(20)
    follower.append(1)
    replica = follower.replica()
    assert (replica.last_fetch_ms, replica.last_caught_up_ms) == (sent_ms, sent_ms)


def test_requests_that_passed_a_partition_by_are_counted_as_its_requests():
    follower = Follower(partitions=2)
    counted = follower.records.counters.of(QUIET[0])
    before = counted.fetch_requests
    for _ in range(3):
        follower.send({}, 0)
    assert counted.fetch_requests == before
    follower.records.advance(LOOK_MS)
    follower.send({}, 0)
    assert counted.fetch_requests == before + 4 * 2
    assert follower.records.counters.fetch_requests == counted.fetch_requests


def test_a_newer_session_of_the_follower_takes_the_partition_over():
    follower = Follower()
    older, older_session = follower.session_id, follower.session
    follower.epoch = follower.session_id = 0
    rows = {"t": [follower.row(number, 0) for number in range(3)]}
    follower.session_id = answer_of(follower.send(rows, 0), FETCH, VERSION).session_id
    for _ in range(2):
        follower.send({}, 0)
    assert follower.session_id != older
    assert follower.held == [0, 1, 2]
    assert list(older_session.quiet.held) == []


def test_a_session_of_a_consumer_holds_nothing():
    records = Records()
    records.topic(**PAIR)
    session = answer_of(
        records.ask({"t": [(0, 0)]}, version=VERSION, session_epoch=0), FETCH, VERSION
    ).session_id
    for epoch in (1, 2, 3):
        records.ask({}, version=VERSION, session_id=session, session_epoch=epoch)
    assert records.sessions._cache.get(session).quiet is None


def test_a_request_without_the_right_to_follow_passes_nothing_by():
    follower = Follower()
    follower.records.access._rules = AccessRules()
    rows = fetched_rows(follower.send({}, 0), VERSION)
    assert {each.error_code for each in rows.values()} == {ErrorCode.topic_authorization_failed}
    assert len(rows) == 3
    assert follower.held == []


def test_a_check_of_several_partitions_lets_all_be_looked_at():
    follower = Follower()
    follower.records.manager.check_all([BUSY, QUIET])
    assert follower.held == [2]


def test_a_session_that_names_topics_by_name_holds_nothing():
    records = Records()
    records.topic(**PAIR)
    who = {"replica_id": 2}
    session_id = answer_of(
        records.ask({"t": [(0, 0)]}, version=12, session_epoch=0, **who), FETCH, 12
    ).session_id
    assert records.sessions._cache.get(session_id).quiet is None


def test_a_partition_whose_row_is_to_be_sent_or_that_was_forgotten_is_not_held():
    follower = Follower()
    quiet = follower.session.quiet
    held = quiet.release(QUIET)
    assert not quiet.hold(replace(held.read, row=replace(held.read.row, partition=9)))
    assert not quiet.hold(replace(held.read, row=replace(held.read.row, high_watermark=5)))
    assert follower.held == [0, 2]
    assert quiet.hold(held.read)


def looked_at(follower):
    return [each.key[1] for each in follower.session.looked_at()]


def test_a_partition_that_is_looked_at_again_is_the_last():
    follower = Follower()
    assert looked_at(follower) == []
    follower.append(2)
    follower.append(0)
    assert looked_at(follower) == [2, 0]
    assert rows_of(follower.send({}, 0)) == {2: 0, 0: 0}
    assert looked_at(follower) == [2, 0]
    follower.append(1)
    assert rows_of(follower.send({"t": [follower.row(2, 1)]}, 0)) == {0: 0, 1: 0}
    assert looked_at(follower) == [2, 0, 1], "those with records are behind the others"


def test_a_partition_that_comes_later_is_looked_at_and_one_that_goes_is_not():
    follower = Follower()
    follower.records.topic(number=3, **PAIR)
    follower.send({"t": [follower.row(3, 0)]}, 0)
    assert looked_at(follower) == [3]
    session = {"session_id": follower.session_id, "session_epoch": follower.epoch}
    follower.records.ask(
        {}, {"t": [1, 3]}, version=VERSION, max_wait_ms=0, **session, **follower.who
    )
    assert looked_at(follower) == []
    assert follower.held == [0, 2]
    assert len(follower.session.partitions) == 2


def in_pieces(follower, rows, **who):
    """A request whose pieces are done one by one: its answers, and the pieces."""
    session = {"session_id": follower.session_id, "session_epoch": follower.epoch}
    values = {"max_bytes": 1 << 20, "min_bytes": 1, "max_wait_ms": 500}
    rows = {name: [row_of(**row) for row in of_topic] for name, of_topic in rows.items()}
    body = request_bytes(VERSION, rows, None, **(values | session | follower.who | who))
    call, asked = follower.records.made_call(FETCH, VERSION, body)
    runs = []
    call.run = runs.append
    follower.records.reader.serve(call)
    call.run = finished
    follower.epoch += 1
    return asked, runs[0] if runs else iter(())


@pytest.mark.parametrize("done", range(6))
def test_what_happens_between_the_pieces_of_a_request_is_not_missed(done):
    follower = Follower()
    asked, pieces = in_pieces(follower, {"t": [follower.row(0, 0)]})
    for _ in range(done):
        next(pieces, None)
    follower.append(1)
    for _ in pieces:
        pass
    follower.records.go_on()
    assert rows_of(asked) == {1: 0}


@pytest.mark.parametrize(("replica_id", "replica_epoch"), [(-1, -1), (3, 13)])
@pytest.mark.parametrize("done", range(8))
def test_what_is_held_is_held_for_who_asked_last(done, replica_id, replica_epoch):
    follower = Follower(isr=(1, 2, 3), replicas=(1, 2, 3))
    follower.records.broker(3)
    _, pieces = in_pieces(follower, {})
    for _ in range(done):
        next(pieces, None)
    follower.send({}, 0, replica_id=replica_id, replica_epoch=replica_epoch)
    for _ in pieces:
        pass
    quiet = follower.session.quiet
    assert not quiet.held or quiet.basis.replica_id == 2


@pytest.mark.parametrize("before", [10, 11, 12])
@pytest.mark.parametrize("after", range(10, 14))
def test_no_partition_is_answered_twice_to_requests_that_overlap(before, after):
    follower = Follower()
    _, older = in_pieces(follower, {"t": [follower.row(n, 0) for n in range(3)]})
    for _ in range(before):
        next(older, None)
    asked, newer = in_pieces(follower, {"t": [follower.row(n, 0) for n in range(3)]})
    for _ in range(after):
        next(newer, None)
    for _ in older:
        pass
    follower.records.manager.check(QUIET)
    for _ in newer:
        pass
    follower.append(1)
    answers = answer_of(asked, FETCH, VERSION).responses
    numbers = [row.partition_index for topic in answers for row in topic.partitions]
    assert len(numbers) == len(set(numbers))


def test_deleted_records_are_told_by_the_request_that_waits():
    follower = Follower()
    follower.append(1)
    follower.send({"t": [follower.row(1, 1)]}, 0)
    for _ in range(3):
        follower.send({}, 0)
    assert sorted(follower.held) == [0, 1, 2]
    asked = follower.send({}, 500)
    follower.records.manager.delete_records({QUIET: 1}, timeout_ms=9000, answer=lambda _: None)
    follower.records.advance(500)
    rows = fetched_rows(asked, VERSION)
    assert {number: row.log_start_offset for (_, number), row in rows.items()} == {1: 1}
