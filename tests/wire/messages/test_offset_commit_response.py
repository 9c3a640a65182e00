"""OffsetCommit's response: the same bytes as kio's, in every version."""

from datetime import timedelta
from uuid import UUID

import pytest

from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.offset_commit_response import (
    ROWS_PACKED_MAX,
    TopicRow,
    _packer,
    encode_offset_commit_response,
)

OFFSET_COMMIT = 8
NONE, UNKNOWN = ErrorCode.none, ErrorCode.unknown_topic_or_partition
NO_ID = bytes(16)


def of_kio(version: int, rows: list[TopicRow], throttle_ms: int) -> bytes:
    new = codec.response_module(OFFSET_COMMIT, version)
    topics = tuple(
        new.OffsetCommitResponseTopic(
            **(
                {"name": name}
                if version < 10
                else {"topic_id": None if topic_id == NO_ID else UUID(bytes=topic_id)}
            ),
            partitions=tuple(
                new.OffsetCommitResponsePartition(partition_index=number, error_code=code)
                for number, code in codes
            ),
        )
        for name, topic_id, codes in rows
    )
    time = {"throttle_time": timedelta(milliseconds=throttle_ms)} if version >= 3 else {}
    body = new.OffsetCommitResponse(topics=topics, **time)
    frame = codec.encode_response(OFFSET_COMMIT, version, 7, body)
    return frame[5 if version >= 8 else 4 :]


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.parametrize("throttle_ms", [0, 70_000])
def test_every_version_is_as_kio_writes_it(version: int, throttle_ms: int) -> None:
    many = [(number, NONE) for number in range(200)]
    rows: list[list[TopicRow]] = [
        [],
        [("t", b"i" * 16, [(3, NONE)])],
        [("", NO_ID, []), ("\u00e9" * 100, b"j" * 16, [(1 << 20, UNKNOWN), (0, NONE)])],
        [("many", NO_ID, many)],
        [(str(number), bytes([number]) * 16, [(number, UNKNOWN)]) for number in range(130)],
    ]
    for each in rows:
        found = encode_offset_commit_response(version, each, throttle_ms)
        assert found == of_kio(version, each, throttle_ms)


def test_long_rows_are_packed_in_parts_whose_packers_are_few() -> None:
    """The memory of what is kept has a bound, whatever clients ask for."""
    for count in (ROWS_PACKED_MAX, ROWS_PACKED_MAX + 1, 3 * ROWS_PACKED_MAX, 1000):
        rows = [("t", bytes(16), [(n, ErrorCode.none) for n in range(count)])]
        for version in (7, 9):
            assert encode_offset_commit_response(version, rows) == of_kio(version, rows, 0)
    assert _packer.cache_info().maxsize == 2 * ROWS_PACKED_MAX
