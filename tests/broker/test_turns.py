"""A step of a broker is bounded: what it does costs units, the rest waits for the next turns."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from broker.clients.costs import CALL_UNITS, PARTITION_UNITS
from broker.effects import Lane, RunWork, SendParts, SetReading
from broker.event_queue import BYTES_PER_UNIT, EVENT_UNITS
from broker.events import (
    Answered,
    Event,
    FramesReceived,
    ImagePublished,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
    StopRequested,
    TimeAdvanced,
    WorkDone,
)
from broker.replicas.image_queue import Change
from network.turn_budget import TURN_UNITS_MAX
from tests.broker.brokers import LOG_DIR, Driven, _error_of
from tests.broker.fronts import api_versions, list_offsets
from wire.api_keys import FETCH, PRODUCE
from wire.messages import codec

PER_TURN = TURN_UNITS_MAX // EVENT_UNITS


def started() -> Driven:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    driven.connect()
    return driven


def turn(driven: Driven, *events: Event) -> list[Any]:
    """One turn alone, whose cost is bounded."""
    effects = driven.broker.take(events, driven.now) + driven.broker.settle()
    assert driven.broker._budget.spent < TURN_UNITS_MAX + 100
    return effects


def is_at_once(driven: Driven) -> bool:
    """True if the driver goes on as soon as it has looked at its sockets."""
    return driven.broker.next_deadline_ms() <= driven.now_ms


def test_the_ends_of_work_are_taken_over_turns_in_order() -> None:
    driven, done = started(), []
    work = driven.broker._work
    for number in range(2 * PER_TURN + 1):
        work.run(Lane.FILES, "", lambda: None, lambda _, number=number: done.append(number))
    first = work._awaited._next_token - (2 * PER_TURN + 1)
    turn(driven)
    turn(driven, *(WorkDone(first + number) for number in range(2 * PER_TURN + 1)))
    counts = [len(done)]
    while is_at_once(driven):
        turn(driven, TimeAdvanced())
        counts.append(len(done))
    assert counts == [PER_TURN, 2 * PER_TURN, 2 * PER_TURN + 1]
    assert done == sorted(done)


@pytest.mark.parametrize(
    "event",
    [PeerBytes(9, b""), PeerConnected(9), PeerDisconnected(9, refused=False)],
)
def test_events_of_peers_wait_for_their_turn(event: Event) -> None:
    driven = started()
    turn(driven, *[event] * (PER_TURN + 1))
    assert is_at_once(driven)
    turn(driven, TimeAdvanced())
    assert not is_at_once(driven)


def test_bytes_of_peers_cost() -> None:
    driven = started()
    received = PeerBytes(9, bytes(BYTES_PER_UNIT * (TURN_UNITS_MAX - EVENT_UNITS)))
    turn(driven, received, PeerBytes(9, b""))
    assert is_at_once(driven)
    turn(driven, TimeAdvanced())
    turn(driven, PeerBytes(9, received.data[:-1]), PeerBytes(9, b""))
    assert not is_at_once(driven)


def test_answers_of_the_controller_wait_for_their_turn() -> None:
    driven, answers = started(), []
    asks = driven.broker._asks
    tokens = [asks._awaited.add(answers.append) for _ in range(PER_TURN + 1)]
    turn(driven, *(Answered(token, token) for token in tokens))
    assert (answers, is_at_once(driven)) == (tokens[:-1], True)
    turn(driven, TimeAdvanced())
    assert (answers, is_at_once(driven)) == (tokens, False)


def test_produce_and_fetch_cost_by_their_partitions() -> None:
    driven = started()
    names = tuple(UUID(bytes=bytes([number]) * 16) for number in range(3))
    new = codec.newest(PRODUCE, "request")
    topics = tuple(
        new.TopicProduceData(
            topic_id=name, partition_data=(new.PartitionProduceData(index=0, records=b""),)
        )
        for name in names
    )
    produce = replace(codec.default_request(PRODUCE), acks=1, topic_data=topics)
    new = codec.newest(FETCH, "request")
    row = new.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    rows = tuple(new.FetchTopic(topic_id=name, partitions=(row,)) for name in names)
    fetch = replace(codec.default_request(FETCH), topics=rows)
    for api_key, body in ((PRODUCE, produce), (FETCH, fetch)):
        driven.request(api_key, 13, body)
        assert CALL_UNITS + 3 * PARTITION_UNITS <= driven.broker._budget.spent < 200


def test_requests_of_many_connections_are_answered_over_turns() -> None:
    driven = started()
    for number in range(2, 40):
        driven.connect(number)
    frames = [FramesReceived(number, [list_offsets(number)]) for number in range(1, 40)]
    first = turn(driven, *frames)
    sent = [e.connection_id for e in first if isinstance(e, SendParts)]
    paused = [e.connection_id for e in first if isinstance(e, SetReading)]
    assert paused == list(range(len(sent) + 1, 40)), "those that wait are not read"
    turn_count = 1
    while is_at_once(driven):
        sent += [e.connection_id for e in turn(driven, TimeAdvanced()) if isinstance(e, SendParts)]
        turn_count += 1
    assert sent == list(range(1, 40))
    assert turn_count > 2


def test_an_image_is_applied_beside_requests_that_never_end() -> None:
    driven = started()
    driven.metadata.topic("b", b"b" * 16, partitions=100)
    image = ImagePublished(*driven.metadata.take())
    turn(driven, image, FramesReceived(1, [api_versions(n) for n in range(400)]))
    hosted = [len(driven.broker._local.hosted)]
    for _ in range(28):
        turn(driven, FramesReceived(1, [list_offsets(n) for n in range(64)]))
        hosted.append(len(driven.broker._local.hosted))
    assert 0 < hosted[0] < 101
    assert hosted[-1] == 101
    assert driven.broker._front.is_busy


def test_the_upkeep_of_many_logs_takes_turns() -> None:
    """With its first checks all at once, and each log that leads for the first time."""
    driven, count = Driven(), 100
    driven.metadata.topic(partitions=count)
    driven.start()
    driven.now_ms += 30_000
    turn_count, works = 1, turn(driven, TimeAdvanced())
    while is_at_once(driven) or works:
        ends = [
            WorkDone(each.token, _error_of(each)) for each in works if isinstance(each, RunWork)
        ]
        works = turn(driven, *ends)
        turn_count += 1
    assert turn_count > count * 10 // TURN_UNITS_MAX, "the checks of a log cost 10 units or so"
    path = f"{LOG_DIR}/recovery-point-offset-checkpoint"
    assert len(driven.vfs.read(path).splitlines()) == count + 2


def test_a_stop_leaves_partitions_over_turns() -> None:
    driven, count = Driven(), 3 * TURN_UNITS_MAX // Change.PARTITION // 2
    driven.metadata.topic(partitions=count)
    driven.start()
    turn(driven, StopRequested())
    assert is_at_once(driven)
    assert len(driven.broker._local.hosted) == count // 3
    turn(driven, TimeAdvanced())
    assert not is_at_once(driven)
    assert not driven.broker._local.hosted


def test_the_parts_that_share_turns() -> None:
    broker = started().broker
    parts = [
        broker._front, broker._later, broker._replicas, broker._fetchers, broker._local,
        broker._groups, broker._transactions.coordinator,
        broker._local.upkeep,
    ]  # fmt: skip
    assert list(broker._turns._parts) == parts
    assert broker._fetchers._budget is broker._budget
