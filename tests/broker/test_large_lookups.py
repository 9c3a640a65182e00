"""Look-ups of many partitions or producers are done over turns, small ones at once.

Whatever happens to the partitions meanwhile: each is answered as it is at its piece.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.clients.call import PIECE_UNITS
from broker.clients.front import CALL_UNITS
from broker.effects import SendParts
from broker.events import Event, FramesReceived, ImagePublished, TimeAdvanced
from network.turn_budget import TURN_UNITS_MAX
from storage.producers.producer_state import ProducerStateEntry
from tests.broker.brokers import LOG_DIR, Driven, response
from tests.broker.large_produces import batch, produce, started
from tests.broker.metadata_log import A
from wire.api_keys import (
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
)
from wire.errors import ErrorCode
from wire.messages import codec

COUNT = 300
LATEST, MAX_TIMESTAMP = -1, -3
NONE = ErrorCode.none
VERSIONS = {
    DELETE_RECORDS: 2,
    LIST_OFFSETS: 11,
    DESCRIBE_LOG_DIRS: 5,
    DESCRIBE_PRODUCERS: 0,
    OFFSET_FOR_LEADER_EPOCH: 4,
}


def framed(api_key: int, body: Any) -> FramesReceived:
    frame = codec.encode_request(api_key, VERSIONS[api_key], 5, "client", body)
    return FramesReceived(1, [bytearray(frame)])


def list_offsets(count: int = COUNT, timestamp: int = LATEST) -> FramesReceived:
    new = codec.newest(LIST_OFFSETS, "request")
    rows = tuple(
        new.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=timestamp)
        for n in range(count)
    )
    body = replace(
        codec.default_request(LIST_OFFSETS),
        replica_id=-1,
        topics=(new.ListOffsetsTopic(name="a", partitions=rows),),
    )
    return framed(LIST_OFFSETS, body)


def log_dirs(count: int | None = None) -> FramesReceived:
    new = codec.newest(DESCRIBE_LOG_DIRS, "request")
    topics = None
    if count is not None:
        topics = (new.DescribableLogDirTopic(topic="a", partitions=tuple(range(count))),)
    return framed(DESCRIBE_LOG_DIRS, new.DescribeLogDirsRequest(topics=topics))


def producers(count: int = COUNT) -> FramesReceived:
    new = codec.newest(DESCRIBE_PRODUCERS, "request")
    topics = (new.TopicRequest(name="a", partition_indexes=tuple(range(count))),)
    return framed(DESCRIBE_PRODUCERS, new.DescribeProducersRequest(topics=topics))


def leader_epochs(count: int = COUNT) -> FramesReceived:
    new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "request")
    rows = tuple(
        new.OffsetForLeaderPartition(partition=n, current_leader_epoch=-1, leader_epoch=0)
        for n in range(count)
    )
    topics = (new.OffsetForLeaderTopic(topic="a", partitions=rows),)
    body = new.OffsetForLeaderEpochRequest(replica_id=-2, topics=topics)
    return framed(OFFSET_FOR_LEADER_EPOCH, body)


Rows = dict[int, tuple[ErrorCode, Any]]


def offsets_of(body: Any) -> Rows:
    (topic,) = body.topics
    return {row.partition_index: (row.error_code, row.offset) for row in topic.partitions}


def sizes_of(body: Any) -> Rows:
    (result,) = body.results
    rows = [row for topic in result.topics for row in topic.partitions]
    return {row.partition_index: (result.error_code, row.partition_size) for row in rows}


def states_of(body: Any) -> Rows:
    (topic,) = body.topics
    return {
        row.partition_index: (row.error_code, [one.producer_id for one in row.active_producers])
        for row in topic.partitions
    }


def ends_of(body: Any) -> Rows:
    (topic,) = body.topics
    return {row.partition: (row.error_code, row.end_offset) for row in topic.partitions}


Case = tuple[int, Callable[..., FramesReceived], Callable[[Any], Rows], Any, Any]
CASES: list[Case] = [  # with what there is behind a record, and without one
    (LIST_OFFSETS, list_offsets, offsets_of, 1, 0),
    (DESCRIBE_LOG_DIRS, log_dirs, sizes_of, len(batch()), 0),
    (DESCRIBE_PRODUCERS, producers, states_of, [], []),
    (OFFSET_FOR_LEADER_EPOCH, leader_epochs, ends_of, 1, 0),
]


def turn(driven: Driven, *events: Event) -> list[Any]:
    """One turn alone; its cost is bounded, and what it sends."""
    driven.take_memory(events)
    effects = driven.broker.take(events, driven.now) + driven.broker.settle()
    assert driven.broker._budget.spent < TURN_UNITS_MAX + PIECE_UNITS + CALL_UNITS
    return [each.parts for each in effects if isinstance(each, SendParts)]


def over_turns(driven: Driven, request: FramesReceived) -> tuple[int, list[Any]]:
    """The number of turns of a request, and what they send."""
    sent, count = turn(driven, request), 1
    while driven.broker._turns.is_busy:
        sent += turn(driven, TimeAdvanced())
        count += 1
    return count, sent


def with_record(count: int = COUNT) -> Driven:
    """A broker with a record in the first partition and in the last."""
    driven = started(count)
    driven.step(produce([(0, batch()), (count - 1, batch())], connection_id=2))
    return driven


@pytest.mark.parametrize(("api_key", "request_of", "rows_of", "filled", "empty"), CASES)
def test_many_partitions_are_looked_up_over_turns(
    api_key: int, request_of: Any, rows_of: Any, filled: Any, empty: Any
) -> None:
    driven = with_record()
    turns, (parts,) = over_turns(driven, request_of(COUNT))
    rows = rows_of(response(api_key, VERSIONS[api_key], parts))
    assert list(rows) == list(range(COUNT))
    assert rows == {
        number: (NONE, filled if number in (0, COUNT - 1) else empty) for number in range(COUNT)
    }
    assert turns >= 3
    assert driven.broker.memory.used_bytes == 0


@pytest.mark.parametrize(("api_key", "request_of", "rows_of", "filled", "empty"), CASES)
def test_few_partitions_are_one_piece_that_is_charged(
    api_key: int, request_of: Any, rows_of: Any, filled: Any, empty: Any
) -> None:
    driven = with_record(16)
    request = request_of(16)
    driven.take_memory([request])
    effects = driven.broker.take([request], driven.now)
    ((parts,),) = [[each.parts for each in effects if isinstance(each, SendParts)]]
    assert rows_of(response(api_key, VERSIONS[api_key], parts))[0] == (NONE, filled)
    assert CALL_UNITS + 16 * 3 <= driven.broker._budget.spent < CALL_UNITS + PIECE_UNITS


def test_all_logs_of_a_directory_are_described_over_turns() -> None:
    driven = with_record()
    turns, (parts,) = over_turns(driven, log_dirs())
    rows = sizes_of(response(DESCRIBE_LOG_DIRS, 5, parts))
    assert (list(rows), rows[0][1], rows[1][1]) == (list(range(COUNT)), len(batch()), 0)
    assert turns >= 3


@pytest.mark.parametrize(("api_key", "request_of", "rows_of", "filled", "empty"), CASES)
def test_a_topic_that_is_deleted_between_two_pieces(
    api_key: int, request_of: Any, rows_of: Any, filled: Any, empty: Any
) -> None:
    driven = with_record()
    sent = turn(driven, request_of(COUNT))
    driven.metadata.remove()
    sent += turn(driven, ImagePublished(*driven.metadata.take()))
    while driven.broker._turns.is_busy:
        sent += turn(driven, TimeAdvanced())
    rows = rows_of(response(api_key, VERSIONS[api_key], sent[0]))
    if api_key == DESCRIBE_LOG_DIRS:  # it names what its first pieces saw
        assert list(rows) == list(range(len(rows)))
        return
    codes = [code for code, _ in rows.values()]
    at = codes.index(ErrorCode.unknown_topic_or_partition)
    assert 0 < at < COUNT == len(codes)
    assert set(codes[:at]) == {NONE}
    assert set(codes[at:]) == {ErrorCode.unknown_topic_or_partition}


@pytest.mark.parametrize(("api_key", "request_of", "rows_of", "filled", "empty"), CASES)
def test_a_directory_that_fails_between_two_pieces(
    api_key: int, request_of: Any, rows_of: Any, filled: Any, empty: Any
) -> None:
    driven = with_record()
    turn(driven, request_of(COUNT))
    driven.broker._on_disk_failure((A, 0), OSError(5, "gone"))
    sent = []
    while driven.broker._turns.is_busy:
        sent += turn(driven, TimeAdvanced())
    body = response(api_key, VERSIONS[api_key], sent[0])
    if api_key == DESCRIBE_LOG_DIRS:
        (result,) = body.results
        found = (result.log_dir, result.error_code, result.topics)
        assert found == (LOG_DIR, ErrorCode.kafka_storage_error, ())
        return
    codes = [code for code, _ in rows_of(body).values()]
    assert codes[0] is NONE
    assert codes[-1] is ErrorCode.kafka_storage_error


def with_producers(count: int) -> Driven:
    driven = with_record(1)
    log = driven.broker._replicas.partitions[A, 0].log
    assert log is not None
    log.producers._producers.update({n: ProducerStateEntry(n, 0) for n in range(count)})
    return driven


def test_many_producers_of_a_partition_are_described_over_turns() -> None:
    driven = with_producers(1_000)
    turns, (parts,) = over_turns(driven, producers(1))
    assert states_of(response(DESCRIBE_PRODUCERS, 0, parts)) == {0: (NONE, list(range(1_000)))}
    assert turns >= 4


def test_a_topic_that_is_deleted_between_two_pieces_of_its_producers() -> None:
    driven = with_producers(1_000)
    turn(driven, producers(1))
    driven.metadata.remove()
    sent = turn(driven, ImagePublished(*driven.metadata.take()))
    while driven.broker._turns.is_busy:
        sent += turn(driven, TimeAdvanced())
    rows = states_of(response(DESCRIBE_PRODUCERS, 0, sent[0]))
    assert rows == {0: (ErrorCode.unknown_topic_or_partition, [])}


def test_a_look_up_by_time_costs_what_it_decodes() -> None:
    """Of two partitions the first has a batch of many records: the second waits for its turn."""
    spent = []
    for count in (1, 600):
        driven = started(2)
        driven.step(produce([(0, batch(count)), (1, batch())], connection_id=2))
        while driven.broker._turns.is_busy:
            turn(driven, TimeAdvanced())
        request = list_offsets(2, MAX_TIMESTAMP)
        driven.take_memory([request])
        effects = driven.broker.take([request], driven.now)
        spent.append(driven.broker._budget.spent)
        is_one = any(isinstance(each, SendParts) for each in effects)
        assert is_one is (count == 1)
        sent = [each.parts for each in effects if isinstance(each, SendParts)]
        while not sent:
            sent = turn(driven, TimeAdvanced())
        assert offsets_of(response(LIST_OFFSETS, 11, sent[0])) == {
            0: (NONE, count - 1),
            1: (NONE, 0),
        }
    small, large = spent
    assert small < CALL_UNITS + 100
    assert large >= 600


def test_a_deletion_of_records_is_charged_by_its_partitions() -> None:
    driven = started(16)
    new = codec.newest(DELETE_RECORDS, "request")
    rows = tuple(new.DeleteRecordsPartition(partition_index=n, offset=0) for n in range(16))
    topic = new.DeleteRecordsTopic(name="a", partitions=rows)
    request = framed(
        DELETE_RECORDS, replace(codec.default_request(DELETE_RECORDS), topics=(topic,))
    )
    driven.take_memory([request])
    driven.broker.take([request], driven.now)
    assert CALL_UNITS + 16 * 7 <= driven.broker._budget.spent < CALL_UNITS + 16 * 7 + 10
