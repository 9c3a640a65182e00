"""The Fetch of one partition, read and written at once: as field by field, whatever the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.fetch.v18.response import FetchResponse
from kio.serial import entity_reader
from msgspec.structs import replace

from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import one_row
from wire.messages.fetch_request import decode_fetch_request, read_fetch_request
from wire.messages.fetch_response import FetchedPartition, encode_fetch_response
from wire.messages.field_reader import NOT_READABLE, FieldReader
from wire.messages.fields import LeaderEndpoint
from wire.messages.replica_fetch import (
    ReplicaFetchRequest,
    ReplicaFetchRow,
    _response,
    decode_replica_fetched,
    encode_replica_fetch,
)
from wire.steps import finished

TOPIC = bytes(range(16))
ROW = ReplicaFetchRow(
    fetch_offset=5,
    current_leader_epoch=6,
    last_fetched_epoch=7,
    log_start_offset=8,
    max_bytes=9,
)
REQUEST = ReplicaFetchRequest(
    replica_id=1,
    replica_epoch=2,
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=1 << 20,
    session_id=3,
    session_epoch=4,
    rows=(((TOPIC, 0), ROW),),
)
VERSIONS = (15, 16, 17, 18)
FOLLOWER = encode_replica_fetch(18, REQUEST)
CONSUMER = FOLLOWER[:71] + one_row.CONSUMER_REQUEST_END
ANSWER = FetchedPartition(
    topic=TOPIC,
    partition=3,
    code=ErrorCode.unknown_leader_epoch,
    high_watermark=4,
    last_stable_offset=5,
    log_start_offset=6,
)


def outcome(read):
    try:
        return read()
    except RemoteProtocolError as error:
        return str(error)


def read_fields(frame: bytes, position: int = 0):
    try:
        return _response(FieldReader(frame, position, is_flexible=True))
    except NOT_READABLE as error:
        return f"Fetch response 18 cannot be read: {error}"


def response(records: bytes | None, answer: FetchedPartition = ANSWER) -> bytes:
    size = 0 if records is None else len(records)
    before, behind = encode_fetch_response(18, [replace(answer, records_bytes=size)], session_id=9)
    if records is None:
        before = before[:-1] + one_row.NULL
    return before + (records or b"") + behind


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_for_one_partition_has_one_size_and_is_read_at_once(version: int) -> None:
    frame = encode_replica_fetch(version, REQUEST)
    assert len(frame) == one_row.REQUEST.size
    assert list(read_fetch_request(version, frame)) == []  # no pieces: what is compared with
    assert decode_fetch_request(version, b"ab" + frame, 2) == finished(
        read_fetch_request(version, frame)
    )


@pytest.mark.parametrize("field", ["directory_id", "high_watermark"])
def test_a_row_with_tagged_fields_is_written_with_them(field: str) -> None:
    row = replace(ROW, **{field: TOPIC if field == "directory_id" else 5})
    frame = encode_replica_fetch(18, replace(REQUEST, rows=(((TOPIC, 0), row),)))
    assert len(frame) > one_row.REQUEST.size
    assert decode_fetch_request(18, frame) == decode_fetch_request(18, FOLLOWER)


def test_a_request_that_forgets_is_written_with_it() -> None:
    frame = encode_replica_fetch(18, replace(REQUEST, forgotten=((TOPIC, 4),)))
    assert decode_fetch_request(18, frame).forgotten == ((TOPIC, 4),)


def test_a_response_that_names_brokers_is_written_with_them() -> None:
    endpoint = LeaderEndpoint(1, "host", 9092, None)
    before, behind = encode_fetch_response(18, [ANSWER], endpoints=(endpoint,))
    assert b"host" in behind
    assert before.startswith(encode_fetch_response(18, [ANSWER])[0][:-1])


@given(
    position=st.integers(0, one_row.REQUEST.size - 1),
    value=st.integers(0, 255),
    version=st.sampled_from((14, *VERSIONS)),
    is_consumer=st.booleans(),
)
def test_a_request_of_any_bytes_is_read_as_field_by_field(
    position, value, version, is_consumer
) -> None:
    frame = bytearray(CONSUMER if is_consumer else FOLLOWER)
    frame[min(position, len(frame) - 1)] = value
    assert outcome(lambda: decode_fetch_request(version, frame)) == outcome(
        lambda: finished(read_fetch_request(version, frame))
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_consumer_s_request_for_one_partition_is_read_at_once(version: int) -> None:
    request = decode_fetch_request(version, b"ab" + CONSUMER, 2)
    assert request == finished(read_fetch_request(version, CONSUMER))
    assert (request.replica_id, request.replica_epoch, request.rack_id) == (-1, -1, "")
    assert len(request.partitions) == 1


@pytest.mark.parametrize("whole", [FOLLOWER, CONSUMER])
@pytest.mark.parametrize("position", [12, 21, 38, *range(71, 78), 90])
def test_no_mark_of_a_request_is_taken_for_granted(whole: bytes, position: int) -> None:
    frame = bytearray(whole)
    position = min(position, len(frame) - 1)
    for value in range(4):
        frame[position] = value
        assert outcome(lambda: decode_fetch_request(18, frame)) == outcome(
            lambda: finished(read_fetch_request(18, frame))
        ), value


def test_a_response_of_a_reader_of_committed_transactions_without_any_is_written_at_once() -> None:
    before, behind = encode_fetch_response(18, [replace(ANSWER, aborted_transactions=())])
    none, _ = encode_fetch_response(18, [ANSWER])
    assert (len(before), behind) == (one_row.RESPONSE.size + 1, one_row.RESPONSE_END)
    assert [old + new for old, new in zip(none, before, strict=True) if old != new] == [1]
    row = kio_response(before + behind).responses[0].partitions[0]
    assert row.aborted_transactions == ()
    assert kio_response(none + behind).responses[0].partitions[0].aborted_transactions is None


def kio_response(frame: bytes):
    response, size = entity_reader(FetchResponse)(frame, 0)
    assert size == len(frame)
    return response


@pytest.mark.parametrize("records", [None, b"", b"r", b"r" * 200])
def test_a_response_for_one_partition_is_read_at_once(records: bytes | None) -> None:
    frame = response(records)
    read = decode_replica_fetched(18, b"ab" + frame, 2)
    assert read == read_fields(frame)
    assert read.session_id == 9
    (partition,) = read.partitions
    assert partition.records == (records or b"")
    assert partition.code is ErrorCode.unknown_leader_epoch


@given(position=st.integers(0, 80), value=st.integers(0, 255), tail=st.binary(max_size=3))
def test_a_response_of_any_bytes_is_read_as_field_by_field(position, value, tail) -> None:
    frame = bytearray(response(b"record") + tail)
    frame[min(position, len(frame) - 1)] = value
    assert outcome(lambda: decode_replica_fetched(18, frame)) == read_fields(bytes(frame))


@pytest.mark.parametrize("position", [10, 27, 58])
def test_no_mark_of_a_response_is_taken_for_granted(position: int) -> None:
    frame = bytearray(response(b"record"))
    for value in range(4):
        frame[position] = value
        assert outcome(lambda: decode_replica_fetched(18, frame)) == read_fields(bytes(frame))


@pytest.mark.parametrize("size", range(len(response(b"record"))))
def test_a_response_that_is_cut_is_refused(size: int) -> None:
    frame = response(b"record")[:size]
    assert outcome(lambda: decode_replica_fetched(18, frame)) == read_fields(frame)


@pytest.mark.parametrize(
    "fields",
    [
        {"aborted_transactions": ((1, 2),)},
        {"diverging_epoch": (1, 2)},
        {"leader": (1, 2)},
    ],
)
def test_a_response_with_other_fields_is_written_and_read_with_them(fields) -> None:
    frame = response(b"record", replace(ANSWER, **fields))
    assert decode_replica_fetched(18, frame) == read_fields(frame)
    assert frame != response(b"record")
