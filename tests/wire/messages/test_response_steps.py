"""Responses written in pieces have the bytes of those written at once."""

from datetime import timedelta
from typing import Any

import pytest

from wire.api_keys import (
    API_VERSIONS,
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
)
from wire.errors import ErrorCode, LocalProtocolError
from wire.messages import codec
from wire.messages.response_steps import PIECE, ROW_UNITS, write_response
from wire.steps import finished

FIRST = {
    LIST_OFFSETS: 1,
    DESCRIBE_LOG_DIRS: 1,
    DESCRIBE_PRODUCERS: 0,
    OFFSET_FOR_LEADER_EPOCH: 2,
    DELETE_RECORDS: 0,
}
LAST = {
    LIST_OFFSETS: 11,
    DESCRIBE_LOG_DIRS: 5,
    DESCRIBE_PRODUCERS: 0,
    OFFSET_FOR_LEADER_EPOCH: 4,
    DELETE_RECORDS: 2,
}


def list_offsets(count: int, name: str = "a") -> Any:
    new = codec.newest(LIST_OFFSETS, "response")
    rows = tuple(
        new.ListOffsetsPartitionResponse(
            partition_index=n, error_code=ErrorCode.none, timestamp=n, offset=2 * n, leader_epoch=3
        )
        for n in range(count)
    )
    topics = (
        new.ListOffsetsTopicResponse(name=name, partitions=rows),
        new.ListOffsetsTopicResponse(name="empty", partitions=()),
    )
    return new.ListOffsetsResponse(throttle_time=timedelta(milliseconds=7), topics=topics)


def log_dirs(count: int) -> Any:
    new = codec.newest(DESCRIBE_LOG_DIRS, "response")
    rows = tuple(
        new.DescribeLogDirsPartition(
            partition_index=n, partition_size=n, offset_lag=2, is_future_key=bool(n % 2)
        )
        for n in range(count)
    )
    results = tuple(
        new.DescribeLogDirsResult(
            error_code=ErrorCode.none,
            log_dir=path,
            topics=(new.DescribeLogDirsTopic(name="a", partitions=rows),),
            total_bytes=5,
            usable_bytes=4,
            is_cordoned=True,
        )
        for path in ("/1", "/2")
    )
    return new.DescribeLogDirsResponse(
        throttle_time=timedelta(0), error_code=ErrorCode.none, results=results
    )


def producers(count: int) -> Any:
    new = codec.newest(DESCRIBE_PRODUCERS, "response")
    states = tuple(
        new.ProducerState(
            producer_id=n,
            producer_epoch=1,
            last_sequence=2,
            last_timestamp=3,
            coordinator_epoch=4,
            current_txn_start_offset=5,
        )
        for n in range(count)
    )
    rows = (
        new.PartitionResponse(
            partition_index=0, error_code=ErrorCode.none, active_producers=states
        ),
        new.PartitionResponse(
            partition_index=1,
            error_code=ErrorCode.not_leader_or_follower,
            error_message="not here",
            active_producers=(),
        ),
    )
    topics = (new.TopicResponse(name="a", partitions=rows),)
    return new.DescribeProducersResponse(throttle_time=timedelta(0), topics=topics)


def leader_epochs(count: int) -> Any:
    new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "response")
    rows = tuple(
        new.EpochEndOffset(partition=n, error_code=ErrorCode.none, leader_epoch=1, end_offset=n)
        for n in range(count)
    )
    topics = (new.OffsetForLeaderTopicResult(topic="a", partitions=rows),)
    return new.OffsetForLeaderEpochResponse(throttle_time=timedelta(0), topics=topics)


def deletions(count: int) -> Any:
    new = codec.newest(DELETE_RECORDS, "response")
    rows = tuple(
        new.DeleteRecordsPartitionResult(
            partition_index=n, low_watermark=n, error_code=ErrorCode.none
        )
        for n in range(count)
    )
    topics = (new.DeleteRecordsTopicResult(name="a", partitions=rows),)
    return new.DeleteRecordsResponse(throttle_time=timedelta(0), topics=topics)


BODIES = {
    LIST_OFFSETS: list_offsets,
    DESCRIBE_LOG_DIRS: log_dirs,
    DESCRIBE_PRODUCERS: producers,
    OFFSET_FOR_LEADER_EPOCH: leader_epochs,
    DELETE_RECORDS: deletions,
}


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key in BODIES for version in range(FIRST[key], LAST[key] + 1)],
)
def test_pieces_have_the_bytes_of_a_whole(api_key: int, version: int) -> None:
    for count in (0, 1, 300):
        body = BODIES[api_key](count)
        written = finished(write_response(api_key, version, 9, body))
        assert written == codec.encode_response(api_key, version, 9, body)


def test_each_piece_has_so_many_rows_and_yields_its_cost() -> None:
    # beside the rows: the head of the body, of either topic, their ends, the end of the body
    for count, pieces in ((PIECE - 7, 0), (PIECE - 6, 1), (2 * PIECE - 7, 1), (2 * PIECE - 6, 2)):
        yielded = list(write_response(LIST_OFFSETS, 11, 9, list_offsets(count)))
        assert yielded == [PIECE * ROW_UNITS] * pieces


def test_a_text_that_is_too_long_is_cut_or_refused_as_at_once() -> None:
    with pytest.raises(LocalProtocolError, match="ListOffsets response version 5"):
        finished(write_response(LIST_OFFSETS, 5, 9, list_offsets(1, "a" * (1 << 15))))
    assert finished(write_response(LIST_OFFSETS, 6, 9, list_offsets(1, "a" * (1 << 15))))


def test_a_body_of_another_form_has_its_own_writer() -> None:
    with pytest.raises(AssertionError):
        finished(write_response(API_VERSIONS, 3, 9, list_offsets(1)))
