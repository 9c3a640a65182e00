"""Fetch as a follower writes and reads it: in every version what kio reads and writes."""

import importlib
from datetime import timedelta
from itertools import groupby
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader

from tests.wire.kio_frames import written
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages.replica_fetch import (
    VERSION_MAX,
    VERSION_MIN,
    ReplicaFetchedPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchRow,
    decode_replica_fetched,
    encode_replica_fetch,
)
from wire.types import OffsetAndEpoch

VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 2)
IDS = st.binary(min_size=16, max_size=16).filter(any)
KEYS = st.tuples(st.sampled_from([bytes([n]) * 16 for n in (1, 2, 3)]), INT32)
ROWS = st.builds(
    ReplicaFetchRow,
    fetch_offset=INT64,
    current_leader_epoch=INT32,
    last_fetched_epoch=st.none() | INT32,
    log_start_offset=INT64,
    max_bytes=INT32,
    directory_id=st.none() | IDS,
    high_watermark=st.none() | INT64,
)
REQUESTS = st.builds(
    ReplicaFetchRequest,
    replica_id=INT32,
    replica_epoch=st.none() | INT64,
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    session_id=INT32,
    session_epoch=st.integers(-1, 2**31 - 1),
    rows=st.lists(st.tuples(KEYS, ROWS), max_size=5),
    forgotten=st.lists(KEYS, max_size=4),
)


def schema(version: int, kind: str):
    return importlib.import_module(f"kio.schema.fetch.v{version}.{kind}")


def kio_row(kio, version: int, partition: int, row: ReplicaFetchRow):
    fields = {}
    if version >= 17 and row.directory_id is not None:
        fields["replica_directory_id"] = UUID(bytes=row.directory_id)
    if version >= 18 and row.high_watermark is not None:
        fields["high_watermark"] = row.high_watermark
    return kio.FetchPartition(
        partition=partition,
        current_leader_epoch=row.current_leader_epoch,
        fetch_offset=row.fetch_offset,
        last_fetched_epoch=-1 if row.last_fetched_epoch is None else row.last_fetched_epoch,
        log_start_offset=row.log_start_offset,
        partition_max_bytes=row.max_bytes,
        **fields,
    )


def kio_request(version: int, request: ReplicaFetchRequest):
    kio = schema(version, "request")
    epoch = -1 if request.replica_epoch is None else request.replica_epoch
    who = {"replica_id": request.replica_id}
    if version >= 15:
        who = {
            "replica_state": kio.ReplicaState(replica_id=request.replica_id, replica_epoch=epoch)
        }
    return kio.FetchRequest(
        max_wait=timedelta(milliseconds=request.max_wait_ms),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=tuple(
            kio.FetchTopic(
                topic_id=UUID(bytes=topic),
                partitions=tuple(kio_row(kio, version, key[1], row) for key, row in rows),
            )
            for topic, rows in groupby(request.rows, lambda each: each[0][0])
        ),
        forgotten_topics_data=tuple(
            kio.ForgottenTopic(topic_id=UUID(bytes=topic), partitions=tuple(n for _, n in keys))
            for topic, keys in groupby(request.forgotten, lambda key: key[0])
        ),
        **who,
    )


@given(request=REQUESTS)
def test_requests_equal_kios(request) -> None:
    for version in VERSIONS:
        expected = kio_request(version, request)
        encoded = encode_replica_fetch(version, request)
        assert entity_reader(type(expected))(encoded, 0) == (expected, len(encoded)), version


CODES = st.sampled_from(ErrorCode)
PARTITIONS = st.fixed_dictionaries(
    {
        "partition_index": INT32,
        "error_code": CODES,
        "high_watermark": st.integers(-1, 2**62),
        "last_stable_offset": st.integers(-1, 2**62),
        "log_start_offset": st.integers(-1, 2**62),
        "preferred_read_replica": st.integers(-1, 5),
        "records": st.none() | st.binary(max_size=40),
    }
)
EPOCH_ENDS = st.none() | st.tuples(INT32, INT64)
LEADERS = st.none() | st.tuples(INT32, INT32)
ABORTED = st.none() | st.lists(st.tuples(INT64, INT64), max_size=2)
FETCHED = st.lists(st.tuples(PARTITIONS, EPOCH_ENDS, LEADERS, ABORTED), max_size=3)
TOPICS = st.lists(st.tuples(IDS, FETCHED), max_size=3)


def kio_response(version: int, code, session_id: int, topics, endpoints=()):
    kio = schema(version, "response")
    fields = {}
    if version >= 16:
        fields["node_endpoints"] = tuple(
            kio.NodeEndpoint(node_id=n, host="host", port=9092, rack=None) for n in endpoints
        )
    return kio.FetchResponse(
        throttle_time=timedelta(milliseconds=7),
        error_code=code,
        session_id=session_id,
        responses=tuple(
            kio.FetchableTopicResponse(
                topic_id=UUID(bytes=topic),
                partitions=tuple(kio_partition(kio, *each) for each in fetched),
            )
            for topic, fetched in topics
        ),
        **fields,
    )


def kio_partition(kio, fields, diverging, leader, aborted):
    tagged = {}
    if diverging is not None:
        tagged["diverging_epoch"] = kio.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    if leader is not None:
        tagged["current_leader"] = kio.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    if aborted is not None:
        aborted = tuple(
            kio.AbortedTransaction(producer_id=producer, first_offset=offset)
            for producer, offset in aborted
        )
    return kio.PartitionData(aborted_transactions=aborted, **fields, **tagged)


def expected_partition(topic, fields, diverging, leader, _) -> ReplicaFetchedPartition:
    return ReplicaFetchedPartition(
        key=(topic, fields["partition_index"]),
        code=fields["error_code"],
        high_watermark=fields["high_watermark"],
        log_start_offset=fields["log_start_offset"],
        diverging_epoch=None if diverging is None else OffsetAndEpoch(diverging[1], diverging[0]),
        leader=leader,
        records=memoryview(fields["records"] or b""),
    )


@given(
    code=CODES,
    session_id=INT32,
    topics=TOPICS,
    endpoints=st.lists(INT32, max_size=2),
    around=st.tuples(st.binary(max_size=3), st.binary(max_size=3)),
)
def test_responses_are_what_kio_wrote(code, session_id, topics, endpoints, around) -> None:
    before, behind = around
    expected = ReplicaFetchResponse(
        code=code,
        session_id=session_id,
        partitions=tuple(
            expected_partition(topic, *each) for topic, fetched in topics for each in fetched
        ),
    )
    for version in VERSIONS:
        body = written(kio_response(version, code, session_id, topics, endpoints))
        response = decode_replica_fetched(version, before + body + behind, len(before))
        assert response == expected, version


def row(**fields):
    return {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "high_watermark": 1,
        "last_stable_offset": 1,
        "log_start_offset": 0,
        "records": b"abc",
    } | fields


def response_bytes(version=18, diverging=None, leader=None, **fields) -> bytes:
    each = (row(**fields), diverging, leader, [(1, 2)])
    return written(kio_response(version, ErrorCode.none, 5, [(b"t" * 16, [each])]))


def test_records_are_views_into_the_frame() -> None:
    body = bytearray(response_bytes())
    (partition,) = decode_replica_fetched(18, body).partitions
    partition.records[0:1] = b"X"
    assert b"Xbc" in body


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cut_response_is_refused(version) -> None:
    body = response_bytes(version, diverging=(3, 4), leader=(1, 2))
    for size in range(len(body)):
        with pytest.raises(RemoteProtocolError, match=f"Fetch response {version} cannot be read"):
            decode_replica_fetched(version, body[:size])


@given(position=st.integers(0, 200), value=st.integers(0, 255), junk=st.binary(max_size=80))
def test_bytes_that_are_no_response_raise_nothing_else(position, value, junk) -> None:
    body = bytearray(response_bytes(diverging=(3, 4), leader=(1, 2)))
    body[position % len(body)] = value
    for content in (body, junk):
        try:
            decode_replica_fetched(18, content)
        except RemoteProtocolError:
            continue


@pytest.mark.parametrize("position", [10, 27])
def test_topics_and_partitions_may_not_be_null(position) -> None:
    body = bytearray(response_bytes())
    assert body[position] == 2
    body[position] = 0
    with pytest.raises(RemoteProtocolError, match="an array of -1 elements"):
        decode_replica_fetched(18, body)


def test_an_error_that_is_newer_than_this_code_is_an_unknown_one() -> None:
    body = bytearray(response_bytes())
    body[4:6] = body[32:34] = (29_999).to_bytes(2, "big")
    response = decode_replica_fetched(18, body)
    assert response.code is ErrorCode.unknown_server_error
    assert response.partitions[0].code is ErrorCode.unknown_server_error


def test_a_diverging_epoch_and_a_leader_of_minus_one_are_none() -> None:
    """Kafka leaves the defaults out; another implementation may write them."""
    body = response_bytes(diverging=(3, 4), leader=(1, 2))
    body = body.replace(b"\x00\x0d\x00\x00\x00\x03", b"\x00\x0d\xff\xff\xff\xff")
    body = body.replace(b"\x01\x09\x00\x00\x00\x01", b"\x01\x09\xff\xff\xff\xff")
    (partition,) = decode_replica_fetched(18, body).partitions
    assert (partition.diverging_epoch, partition.leader) == (None, None)
    lowest = response_bytes(diverging=(0, 0), leader=(0, 0))
    (partition,) = decode_replica_fetched(18, lowest).partitions
    assert (partition.diverging_epoch, partition.leader) == (OffsetAndEpoch(0, 0), (0, 0))


def test_tagged_fields_that_are_unknown_are_passed_over() -> None:
    body = response_bytes()
    assert body.endswith(b"abc\0\0\0")
    (partition,) = decode_replica_fetched(18, body[:-3] + b"\1\x07\2zz\0\0").partitions
    assert bytes(partition.records) == b"abc"
