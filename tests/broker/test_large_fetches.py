"""Fetches of many partitions are done over turns, whatever happens to the partitions meanwhile."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from broker.apis.records.fetch import SMALL_MAX
from broker.effects import SendParts
from broker.events import ConnectionClosed, Event, FramesReceived, StopRequested, TimeAdvanced
from network.turn_budget import TURN_UNITS_MAX
from replication.leader import fetches
from replication.leader.fetches import READ_PIECE, READ_UNITS
from tests.broker.brokers import Driven, response
from tests.broker.metadata_log import A
from tests.broker.test_replication import TOPIC_ID
from wire.api_keys import FETCH, PRODUCE
from wire.batches.batch import encode_batch
from wire.errors import ErrorCode
from wire.messages import codec

COUNT = 3 * SMALL_MAX
VERSION = 13
PIECE_UNITS = READ_PIECE * READ_UNITS
NONE = ErrorCode.none


def started(count: int = COUNT, **fields: Any) -> Driven:
    driven = Driven()
    driven.metadata.topic(partitions=count, **fields)
    driven.start()
    for connection_id in (1, 2):
        driven.connect(connection_id)
    return driven


def fetch(count: int = COUNT, offset: int = 0, epoch: int = -1, **fields: Any) -> FramesReceived:
    new = codec.newest(FETCH, "request")
    rows = tuple(
        new.FetchPartition(
            partition=n,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
        )
        for n in range(count)
    )
    body = replace(
        codec.default_request(FETCH),
        max_wait=timedelta(milliseconds=500),
        min_bytes=1,
        topics=(new.FetchTopic(topic_id=TOPIC_ID, partitions=rows),),
    )
    return framed(FETCH, replace(body, **fields))


def produce(*numbers: int) -> FramesReceived:
    new = codec.newest(PRODUCE, "request")
    rows = tuple(
        new.PartitionProduceData(index=number, records=encode_batch([b"v"], 0, -1, 1_000_000))
        for number in numbers
    )
    topic = new.TopicProduceData(topic_id=TOPIC_ID, partition_data=rows)
    return framed(PRODUCE, replace(codec.default_request(PRODUCE), acks=1, topic_data=(topic,)), 2)


def framed(api_key: int, body: Any, connection_id: int = 1) -> FramesReceived:
    frame = codec.encode_request(api_key, VERSION, 5, "client", body)
    return FramesReceived(connection_id, [bytearray(frame)])


def turn(driven: Driven, *events: Event) -> list[Any]:
    """One turn alone; its cost is bounded, and what it sends to the first client."""
    driven.take_memory(events)
    effects = driven.broker.take(events, driven.now) + driven.broker.settle()
    assert driven.broker._budget.spent < TURN_UNITS_MAX + PIECE_UNITS + 100
    return [e.parts for e in effects if isinstance(e, SendParts) and e.connection_id == 1]


def rest(driven: Driven) -> list[Any]:
    """Turns until nothing waits; what they send."""
    sent = []
    while driven.broker._turns.is_busy:
        sent += turn(driven, TimeAdvanced())
    return sent


def rows_of(sent: list[Any]) -> dict[int, tuple[ErrorCode, int]]:
    """Code and bytes of records by partition, of the one answer."""
    (parts,) = sent
    (topic,) = response(FETCH, VERSION, parts).responses
    return {
        row.partition_index: (row.error_code, len(row.records or b"")) for row in topic.partitions
    }


def test_a_large_fetch_is_read_over_turns_and_answered_once() -> None:
    driven = started()
    driven.step(produce(0, COUNT - 1))
    assert turn(driven, fetch()) == []
    turns = 1
    sent: list[Any] = []
    while driven.broker._turns.is_busy:
        sent += turn(driven, TimeAdvanced())
        turns += 1
    assert turns >= COUNT * READ_UNITS // (TURN_UNITS_MAX + PIECE_UNITS)
    rows = rows_of(sent)
    assert (list(rows), {code for code, _ in rows.values()}) == (list(range(COUNT)), {NONE})
    assert [number for number, (_, size) in rows.items() if size] == [0, COUNT - 1]
    assert driven.broker.memory.used_bytes == 0


def test_a_fetch_of_few_partitions_is_one_piece() -> None:
    driven = started(SMALL_MAX)
    driven.step(produce(0))
    request = fetch(SMALL_MAX)
    driven.take_memory([request])
    effects = driven.broker.take([request], driven.now)
    sent = [e for e in effects if isinstance(e, SendParts)]
    assert len(sent) == 1


def test_records_that_come_between_two_pieces_are_not_missed() -> None:
    for number in (0, COUNT - 1):
        driven = started()
        turn(driven, fetch())
        sent = turn(driven, produce(number)) + rest(driven)
        rows = rows_of(sent)
        assert [number for number, (_, size) in rows.items() if size] == [number]


def test_a_large_fetch_that_waits_is_read_again_over_turns() -> None:
    driven = started()
    turn(driven, fetch())
    assert rest(driven) == []
    assert driven.broker.counts().fetch.delayed == 1
    sent = turn(driven, produce(3))
    assert sent == []
    assert [number for number, (_, size) in rows_of(rest(driven)).items() if size] == [3]
    assert driven.broker.counts().fetch.delayed == 0
    turn(driven, fetch(offset=1))
    rest(driven)


def test_a_large_fetch_is_answered_at_its_deadline_which_counts_from_the_last_piece() -> None:
    driven = started()
    turn(driven, fetch())
    driven.now_ms += 400
    assert rest(driven) == []
    driven.now_ms += 499
    driven.step(TimeAdvanced())
    assert rest(driven) == []
    driven.now_ms += 1
    sent = turn(driven, TimeAdvanced()) + rest(driven)
    assert len(rows_of(sent)) == COUNT


def test_bytes_of_a_response_are_shared_by_all_pieces() -> None:
    driven = started()
    driven.step(produce(*range(COUNT)))
    size_bytes = len(encode_batch([b"v"], 0, -1, 1_000_000))
    turn(driven, fetch(max_bytes=3 * size_bytes))
    rows = rows_of(rest(driven))
    assert [number for number, (_, size) in rows.items() if size] == [0, 1, 2]
    driven.step(produce(COUNT - 1))
    turn(driven, fetch(max_bytes=1))
    rows = rows_of(rest(driven))
    assert {n: size for n, (_, size) in rows.items() if size} == {0: size_bytes}


@pytest.mark.parametrize("room", [3, 0])
def test_what_is_read_again_shares_the_bytes_of_a_response_too(room: int) -> None:
    driven = started()
    size_bytes = len(encode_batch([b"v"], 0, -1, 1_000_000))
    turn(driven, fetch(max_bytes=max(1, room * size_bytes)))
    assert rest(driven) == []
    request = produce(*range(COUNT))
    driven.take_memory([request])
    driven.broker.take([request], driven.now)
    rows = rows_of(rest(driven))
    assert [number for number, (_, size) in rows.items() if size] == list(range(max(1, room)))


def test_to_read_again_is_no_progress_of_a_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    updates, read = [], fetches.read_partitions

    def noted(*args: Any, **fields: Any) -> Any:
        updates.append(fields["updates_replicas"])
        return read(*args, **fields)

    monkeypatch.setattr(fetches, "read_partitions", noted)
    driven = started()
    turn(driven, fetch())
    rest(driven)
    assert set(updates) == {True}
    updates.clear()
    turn(driven, produce(1))
    rest(driven)
    assert set(updates) == {False}


def test_partitions_of_a_topic_that_is_deleted_between_two_pieces() -> None:
    driven = started()
    turn(driven, fetch())
    driven.metadata.remove()
    sent = driven.publish()
    answers = [e.parts for e in sent if isinstance(e, SendParts)] + rest(driven)
    codes = [code for code, _ in rows_of(answers).values()]
    at = codes.index(ErrorCode.unknown_topic_or_partition)
    assert set(codes[:at]) <= {NONE, ErrorCode.unknown_topic_or_partition}
    assert set(codes[at:]) == {ErrorCode.unknown_topic_or_partition}


def test_partitions_whose_leader_moves_between_two_pieces() -> None:
    driven = started(replicas=(1, 2), isr=(1, 2))
    driven.metadata.register(2)
    driven.publish()
    turn(driven, fetch(epoch=0))
    turn(driven, TimeAdvanced())
    for number in range(COUNT):
        driven.metadata.change(number, leader=2)
    answers = [e.parts for e in driven.publish() if isinstance(e, SendParts)] + rest(driven)
    codes = {code for code, _ in rows_of(answers).values()}
    assert ErrorCode.fenced_leader_epoch in codes
    assert codes <= {NONE, ErrorCode.fenced_leader_epoch}


def test_a_directory_that_fails_between_two_pieces() -> None:
    driven = started()
    turn(driven, fetch())
    driven.broker._on_disk_failure((A, 0), OSError(5, "gone"))
    codes = {code for code, _ in rows_of(rest(driven)).values()}
    assert ErrorCode.kafka_storage_error in codes
    assert codes <= {NONE, ErrorCode.kafka_storage_error}


def test_a_broker_that_stops_between_two_pieces() -> None:
    driven = started()
    turn(driven, fetch())
    effects = driven.step(StopRequested())
    answers = [e.parts for e in effects if isinstance(e, SendParts)] + rest(driven)
    codes = {code for code, _ in rows_of(answers).values()}
    assert codes <= {NONE, ErrorCode.not_leader_or_follower}
    assert driven.broker.counts().fetch.delayed == 0


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_connection_that_closes_takes_its_large_fetch_with_it(*, is_parked: bool) -> None:
    driven = started()
    turn(driven, fetch())
    if is_parked:
        rest(driven)
    turn(driven, ConnectionClosed(1))
    rest(driven)
    counts = driven.broker.counts()
    assert (counts.fetch.delayed, counts.fetch.watched) == (0, 0)
    assert len(driven.broker._front) == 1
    assert driven.broker.memory.used_bytes == 0


def test_a_session_of_many_partitions_is_read_over_turns() -> None:
    driven = started()
    driven.step(produce(0))
    turn(driven, fetch(session_epoch=0))
    (parts,) = rest(driven)
    session_id = response(FETCH, VERSION, parts).session_id
    assert session_id > 0
    driven.step(produce(5))
    again = fetch(0, session_id=session_id, session_epoch=1, topics=())
    assert turn(driven, again) == []
    rows = rows_of(rest(driven))
    assert [number for number, (_, size) in rows.items() if size] == [0, 5]


@pytest.mark.parametrize("numbers", [(0,), (0, COUNT - 1)])
def test_records_of_any_pieces_are_enough_to_answer_at_once(numbers: tuple[int, ...]) -> None:
    driven = started()
    driven.step(produce(*numbers))
    size_bytes = len(encode_batch([b"v"], 0, -1, 1_000_000))
    turn(driven, fetch(min_bytes=len(numbers) * size_bytes))
    while driven.broker.counts().fetch.delayed:
        sent = turn(driven, TimeAdvanced())
    assert list(rows_of(sent or rest(driven))) == list(range(COUNT))
    assert driven.broker.counts().counters.fetch_requests == COUNT
