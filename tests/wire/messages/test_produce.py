"""Produce: requests and responses of every version equal kio's, and real Kafka's frames."""

import importlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader

from tests.wire.kio_frames import topic_id, written
from tests.wire.recorded_pairs import of_key
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages.codec import split_request
from wire.messages.fields import LeaderEndpoint
from wire.messages.produce import (
    PIECE,
    VERSION_MAX,
    VERSION_MIN,
    PartitionAnswer,
    ProducedPartition,
    decode_produce_request,
    encode_produce_response,
    read_produce_request,
    write_produce_response,
)

PAIRS = of_key(0)
VERSIONS = st.integers(VERSION_MIN, VERSION_MAX)
TOPIC_ID_VERSION = 13
RECORDS = st.none() | st.binary(max_size=200)
PARTITIONS = st.lists(st.tuples(st.integers(-1, 2**31 - 1), RECORDS), max_size=4)
NAMES = st.text(min_size=1, max_size=150)
TOPICS = st.dictionaries(NAMES, PARTITIONS, max_size=4)


def schema(version: int, kind: str):
    return importlib.import_module(f"kio.schema.produce.v{version}.{kind}")


def topic_field(version: int, name: str) -> dict:
    return {"topic_id": topic_id(name)} if version >= TOPIC_ID_VERSION else {"name": name}


def key_of(version: int, name: str) -> str | bytes:
    return topic_id(name).bytes if version >= TOPIC_ID_VERSION else name


def request_bytes(version: int, transactional_id, acks: int, timeout_ms: int, topics) -> bytes:
    kio = schema(version, "request")
    data = tuple(
        kio.TopicProduceData(
            partition_data=tuple(
                kio.PartitionProduceData(index=index, records=records)
                for index, records in partitions
            ),
            **topic_field(version, name),
        )
        for name, partitions in topics.items()
    )
    return written(
        kio.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout=timedelta(milliseconds=timeout_ms),
            topic_data=data,
        )
    )


@given(
    version=VERSIONS,
    transactional_id=st.none() | NAMES,
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=st.integers(0, 2**31 - 1),
    topics=TOPICS,
    before=st.binary(max_size=3),
    behind=st.binary(max_size=3),
)
def test_requests_equal_kios(
    version, transactional_id, acks, timeout_ms, topics, before, behind
) -> None:
    body = request_bytes(version, transactional_id, acks, timeout_ms, topics)
    request = decode_produce_request(version, before + body + behind, len(before))
    assert (request.transactional_id, request.acks) == (transactional_id, acks)
    assert request.timeout_ms == timeout_ms
    assert request.partitions == tuple(
        ProducedPartition(key_of(version, name), index, records)
        for name, partitions in topics.items()
        for index, records in partitions
    )


def test_records_are_views_into_the_frame() -> None:
    body = bytearray(request_bytes(9, None, -1, 1000, {"t": [(0, b"abc")]}))
    (partition,) = decode_produce_request(9, body).partitions
    partition.records[0:1] = b"X"
    assert b"Xbc" in body


@given(version=VERSIONS, topics=TOPICS, data=st.data())
def test_a_cut_request_is_refused(version, topics, data) -> None:
    body = request_bytes(version, "id", 1, 5, topics)
    size = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError, match=f"Produce {version} cannot be read"):
        decode_produce_request(version, body[:size])


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        (3, b"\xff\xff\0\1\0\0\0\0\0\0\0\1\xff\xff", "no name of a topic"),
        (3, b"\xff\xff\0\1\0\0\0\0\xff\xff\xff\xff", "an array of -1 elements at 12"),
        (9, b"\0\0\1\0\0\0\0\0", "an array of -1 elements at 8"),
        (9, b"\0\0\1\0\0\0\0\xff\xff\xff\x7f", "an array of 268435454 elements at 11"),
        (3, b"\0\2\xff\xfe", "codec can't decode"),
        (3, b"\xff\xfe", "a field of -2 bytes at 2, 0 are left"),
    ],
)
def test_lengths_are_compared_with_what_is_left(version, body, reason) -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        decode_produce_request(version, body)
    assert reason in str(raised.value)


ERRORS = st.lists(st.tuples(st.integers(0, 99), st.none() | NAMES), max_size=3).map(tuple)
ANSWERS = st.builds(
    PartitionAnswer,
    topic=st.just(""),
    partition=st.integers(-1, 2**31 - 1),
    code=st.sampled_from(ErrorCode),
    base_offset=st.integers(-1, 2**63 - 1),
    log_append_time_ms=st.just(-1) | st.integers(0, 4 * 10**12),
    log_start_offset=st.integers(-1, 2**63 - 1),
    record_errors=ERRORS,
    message=st.none() | NAMES,
    leader=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
ENDPOINTS = st.lists(
    st.builds(
        LeaderEndpoint,
        node_id=st.integers(0, 2**31 - 1),
        host=NAMES,
        port=st.integers(0, 65535),
        rack=st.none() | NAMES,
    ),
    max_size=2,
).map(tuple)


def kio_answer(kio, version: int, answer: PartitionAnswer):
    fields = {
        "index": answer.partition,
        "error_code": answer.code,
        "base_offset": answer.base_offset,
        "log_append_time": None
        if answer.log_append_time_ms == -1
        else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=answer.log_append_time_ms),
    }
    if version >= 5:
        fields["log_start_offset"] = answer.log_start_offset
    if version >= 8:
        fields["error_message"] = answer.message
        fields["record_errors"] = tuple(
            kio.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in answer.record_errors
        )
    if version >= 10 and answer.leader is not None:
        leader_id, epoch = answer.leader
        fields["current_leader"] = kio.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
    return kio.PartitionProduceResponse(**fields)


@given(
    version=VERSIONS,
    topics=st.dictionaries(NAMES, st.lists(ANSWERS, min_size=1, max_size=3), max_size=3),
    throttle_ms=st.integers(0, 2**31 - 1),
    endpoints=ENDPOINTS,
)
def test_responses_equal_kios(version, topics, throttle_ms, endpoints) -> None:
    kio = schema(version, "response")
    fields = {"throttle_time": timedelta(milliseconds=throttle_ms)}
    if version >= 10:
        fields["node_endpoints"] = tuple(
            kio.NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
        )
    expected = kio.ProduceResponse(
        responses=tuple(
            kio.TopicProduceResponse(
                partition_responses=tuple(kio_answer(kio, version, each) for each in answers),
                **topic_field(version, name),
            )
            for name, answers in topics.items()
        ),
        **fields,
    )
    answers = [
        PartitionAnswer(
            **{
                name: getattr(answer, name)
                for name in PartitionAnswer.__struct_fields__
                if name != "topic"
            },
            topic=key_of(version, topic),
        )
        for topic, of_topic in topics.items()
        for answer in of_topic
    ]
    found = encode_produce_response(version, answers, throttle_ms, endpoints)
    assert found == written(expected)


def test_a_row_of_an_error_has_no_offsets() -> None:
    row = PartitionAnswer(topic="t", partition=0, code=ErrorCode.not_leader_or_follower)
    body = encode_produce_response(9, [row])
    response, _ = entity_reader(schema(9, "response").ProduceResponse)(body, 0)
    ((answer,),) = (topic.partition_responses for topic in response.responses)
    assert (answer.base_offset, answer.log_append_time, answer.log_start_offset) == (-1, None, -1)
    assert (answer.record_errors, answer.error_message) == ((), None)


def test_kafkas_frames_are_here() -> None:
    assert len({pair["api_version"] for pair in PAIRS}) >= 3


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair["id"]))
def test_frames_of_kafka(pair) -> None:
    version, frame = pair["api_version"], bytes.fromhex(pair["request_hex"])
    _, position = split_request(frame)
    request = decode_produce_request(version, frame, position)
    assert request.partitions
    assert all(len(partition.records) >= 61 for partition in request.partitions)
    body = bytes.fromhex(pair["response_hex"])[5 if version >= 9 else 4 :]
    response, _ = entity_reader(schema(version, "response").ProduceResponse)(body, 0)
    answers = [
        PartitionAnswer(
            topic=topic.topic_id.bytes if version >= TOPIC_ID_VERSION else topic.name,
            partition=each.index,
            code=each.error_code,
            base_offset=each.base_offset,
            log_start_offset=each.log_start_offset,
            record_errors=tuple(
                (error.batch_index, error.batch_index_error_message)
                for error in getattr(each, "record_errors", None) or ()
            ),
            message=getattr(each, "error_message", None),
        )
        for topic in response.responses
        for each in topic.partition_responses
    ]
    assert [(a.topic, a.partition) for a in answers] == [
        (partition.topic, partition.partition) for partition in request.partitions
    ]
    assert encode_produce_response(version, answers) == body


def in_pieces(steps):
    """Costs of the pieces, and the result."""
    yielded = []
    while True:
        try:
            yielded.append(next(steps))
        except StopIteration as end:
            return yielded, end.value


@pytest.mark.parametrize(
    ("topics", "count"),
    [
        ({"t": [(n, b"r") for n in range(PIECE - 1)]}, 1),
        ({"t": [(n, b"r") for n in range(PIECE - 2)]}, 0),
        ({f"t{n}": [] for n in range(PIECE - 1)}, 0),
        ({f"t{n}": [] for n in range(2 * PIECE)}, 2),
        ({"t": [(n, b"r") for n in range(2 * PIECE)]}, 2),
    ],
)
def test_many_topics_or_partitions_are_read_in_pieces(topics, count) -> None:
    body = request_bytes(13, None, 1, 5, topics)
    yielded, request = in_pieces(read_produce_request(13, body))
    assert yielded == [2 * PIECE] * count
    assert request == decode_produce_request(13, body)
    assert len(request.partitions) == sum(map(len, topics.values()))


def test_a_request_that_is_cut_behind_its_first_piece_is_refused() -> None:
    body = request_bytes(13, None, 1, 5, {"t": [(n, b"r") for n in range(2 * PIECE)]})
    with pytest.raises(RemoteProtocolError):
        in_pieces(read_produce_request(13, body[:-20]))


@pytest.mark.parametrize(("size", "count"), [(PIECE - 1, 0), (PIECE, 1), (2 * PIECE + 1, 2)])
def test_many_partitions_are_answered_in_pieces(size, count) -> None:
    answers = [PartitionAnswer(topic="t", partition=n) for n in range(size)]
    yielded, body = in_pieces(write_produce_response(9, answers))
    assert yielded == [2 * PIECE] * count
    assert body == encode_produce_response(9, answers)
