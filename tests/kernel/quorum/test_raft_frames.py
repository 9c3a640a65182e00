"""Every raft frame that real Kafka 3.9.1 and 4.3.1 exchanged, through the messages of the core.

Bytes -> body -> raft message -> body -> bytes: what the core cannot say is missing at the end.
"""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

from kernel.quorum.messages.table import (
    KEY_OF_REQUEST,
    KEY_OF_RESPONSE,
    SENT,
    SERVED,
    refusal,
    request_from_wire,
    request_to_wire,
    response_from_wire,
    response_to_wire,
)
from raft import messages
from wire import ids
from wire.errors import ErrorCode
from wire.messages import codec, metadata_fetch
from wire.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    split_request,
)
from wire.types import Endpoint, OffsetAndEpoch

GOLDEN = Path(__file__).parents[2] / "golden" / "raft" / "pairs.jsonl"
PAIRS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
FETCH, DESCRIBE_QUORUM = 1, 55
RESPONSE_HEADER_BYTES = 5  # correlation id, no tagged fields
VOTERS = [pair for pair in PAIRS if pair["api_key"] in (52, 53, 54, 59)]
FETCHES = [pair for pair in PAIRS if pair["api_key"] == FETCH]


def by_id(pairs):
    return pytest.mark.parametrize("pair", pairs, ids=[pair["id"] for pair in pairs])


@pytest.mark.parametrize("api_key", SERVED)
def test_annotations_name_the_newest_classes(api_key):
    """The newest classes are the shape of bodies: a newer kio moves both."""
    text = Path(SERVED[api_key].__file__).read_text()
    newest = {codec.newest(api_key, kind).__name__ for kind in ("request", "response")}
    named = set(re.findall(r"from (kio\.schema\.\S+) import", text))
    assert named
    assert named <= newest


def test_every_raft_api_is_here():
    assert {pair["api_key"] for pair in PAIRS} == {1, 52, 53, 54, 55, 59}
    assert set(SERVED) == set(KEY_OF_RESPONSE.values()) == {1, 52, 53, 54, 55, 59, 80, 81, 82}
    assert set(SENT) == set(KEY_OF_REQUEST.values()) == {1, 18, 52, 53, 54, 59, 80, 81, 82}
    assert {pair["kafka_version"] for pair in PAIRS} == {"3.9.1", "4.3.1"}


@by_id(VOTERS)
def test_request_survives_the_core(pair):
    frame = bytes.fromhex(pair["request_hex"])
    api_key, version = pair["api_key"], pair["api_version"]
    header, position = split_request(frame)
    body = decode_request(api_key, version, memoryview(frame)[position:])
    message = request_from_wire(api_key, body)
    assert message is not None
    written_key, written = request_to_wire(message)
    assert written_key == api_key
    again = encode_request(api_key, version, header.correlation_id, header.client_id, written)
    assert again == frame


@by_id([pair for pair in VOTERS if pair["response_hex"]])
def test_response_survives_the_core(pair):
    frame = bytes.fromhex(pair["response_hex"])
    correlation_id, body = decode_response(pair["api_key"], pair["api_version"], frame)
    message = response_from_wire(pair["api_key"], body)
    assert message is not None
    again = encode_response(
        pair["api_key"], pair["api_version"], correlation_id, response_to_wire(message)
    )
    assert again == frame


@by_id(FETCHES)
def test_fetch_survives_the_core(pair):
    frame, version = bytes.fromhex(pair["request_hex"]), pair["api_version"]
    _, position = split_request(frame)
    request = metadata_fetch.decode_request(frame[position:])
    assert request is not None
    message = request_from_wire(FETCH, request)
    assert message is not None
    assert message is request, "converted once: from the bytes"
    _, written = request_to_wire(message)
    assert written is message
    assert metadata_fetch.encode_request(version, written) == frame[position:]


@by_id([pair for pair in FETCHES if pair["response_hex"]])
def test_fetched_survives_the_core(pair):
    frame = bytes.fromhex(pair["response_hex"])
    fetched = metadata_fetch.decode_response(frame[RESPONSE_HEADER_BYTES:])
    assert fetched is not None
    message = response_from_wire(FETCH, fetched)
    assert message is fetched, "converted once: from the bytes"
    written = response_to_wire(message)
    assert written is message
    again = metadata_fetch.encode_response(written)
    assert again == frame[RESPONSE_HEADER_BYTES:]


@by_id([pair for pair in PAIRS if pair["api_key"] == DESCRIBE_QUORUM])
def test_describe_quorum_is_understood(pair):
    frame = bytes.fromhex(pair["request_hex"])
    _, position = split_request(frame)
    body = decode_request(DESCRIBE_QUORUM, pair["api_version"], memoryview(frame)[position:])
    assert request_from_wire(DESCRIBE_QUORUM, body) is not None


def replica_state(row):
    directory = row.replica_directory_id
    return messages.ReplicaState(
        replica_id=row.replica_id,
        directory_id=None if directory is None else directory.bytes,
        log_end_offset=row.log_end_offset,
        last_fetch_timestamp_ms=row.last_fetch_timestamp,
        last_caught_up_timestamp_ms=row.last_caught_up_timestamp,
    )


@by_id([p for p in PAIRS if p["api_key"] == DESCRIBE_QUORUM and p["response_hex"]])
def test_describe_quorum_is_answered_byte_for_byte(pair):
    """Kafka's answer as a message of the core becomes Kafka's bytes."""
    frame = bytes.fromhex(pair["response_hex"])
    correlation_id, body = decode_response(DESCRIBE_QUORUM, pair["api_version"], frame)
    partition = body.topics[0].partitions[0]
    message = messages.DescribeQuorumResponse(
        error_code=partition.error_code.value,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(map(replica_state, partition.current_voters)),
        observers=tuple(map(replica_state, partition.observers)),
        nodes=tuple(
            (node.node_id, Endpoint(at.name, at.host, at.port))
            for node in body.nodes
            for at in node.listeners
        ),
    )
    again = encode_response(
        DESCRIBE_QUORUM, pair["api_version"], correlation_id, response_to_wire(message)
    )
    assert again == frame


@pytest.mark.parametrize("api_key", [FETCH, 52, 53, 54, 59])
def test_an_error_of_the_whole_answer_says_nothing_about_leader_and_epoch(api_key):
    """Epoch 0 is behind every node: an answer without a partition changes no role."""
    error = ErrorCode.cluster_authorization_failed
    response = response_from_wire(
        api_key, SimpleNamespace(error_code=error, topics=(), responses=())
    )
    assert response is not None
    assert (response.error_code, response.top_error_code) == (0, error.value)
    assert (response.leader_id, response.leader_epoch) == (None, 0)


def test_a_leader_whose_address_is_not_known_has_none():
    told = response_to_wire(messages.FetchResponse(leader_id=2, leader_epoch=3))
    body = metadata_fetch.decode_response(metadata_fetch.encode_response(told))
    assert body is not None
    assert (body.leader_id, body.leader_epoch, body.leader_endpoint) == (2, 3, None)


@pytest.mark.parametrize("api_key", [52, 53, 54])
@pytest.mark.parametrize(
    "topics",
    [
        [],
        [("__cluster_metadata", [])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 0])],
        [("__cluster_metadata", [0]), ("__cluster_metadata", [0])],
        [("other", [0])],
    ],
)
def test_another_partition_is_refused(api_key, topics):
    body = SimpleNamespace(
        topics=tuple(
            SimpleNamespace(
                topic_name=name,
                partitions=tuple(SimpleNamespace(partition_index=index) for index in partitions),
            )
            for name, partitions in topics
        )
    )
    assert request_from_wire(api_key, body) is None
    answer = refusal(api_key, body)
    assert (answer.error_code, answer.topics) == (ErrorCode.invalid_request, ())
    assert type(answer) is codec.entity_class(api_key, {52: 2, 53: 1, 54: 1}[api_key], "response")


def test_a_fetch_in_kios_shape_is_refused():
    body = codec.default_request(FETCH)
    assert request_from_wire(FETCH, body) is None
    assert refusal(FETCH, body).error_code == ErrorCode.invalid_request
    answer = response_to_wire(messages.FetchResponse(top_error_code=31))
    assert answer.error_code == ErrorCode.cluster_authorization_failed
    assert response_from_wire(FETCH, answer) == messages.FetchResponse(top_error_code=31)
    other = codec.newest(FETCH, "response").FetchResponse(
        throttle_time=timedelta(0), error_code=ErrorCode.none, responses=()
    )
    assert response_from_wire(FETCH, other) is None


@pytest.mark.parametrize(
    ("name", "index", "code"),
    [("__cluster_metadata", 1, 3), ("other", 0, 3), ("__cluster_metadata", None, 42)],
)
def test_a_snapshot_of_another_partition_is_unknown(name, index, code):
    new = codec.newest(59, "request")
    partition = SimpleNamespace(partition=index)
    topic = new.TopicSnapshot(name=name, partitions=() if index is None else (partition,))
    body = new.FetchSnapshotRequest(topics=(topic,))
    assert request_from_wire(59, body) is None
    answer = refusal(59, body)
    if index is None:
        assert answer.error_code.value == code
        assert answer.topics == ()
    else:
        (asked,) = answer.topics[0].partitions
        assert (answer.topics[0].name, asked.index, asked.error_code.value) == (name, index, code)


@pytest.mark.parametrize("api_key", [52, 53, 54, 59])
def test_an_answer_about_no_partition_says_nothing(api_key):
    body = SimpleNamespace(error_code=ErrorCode.none, topics=())
    assert response_from_wire(api_key, body) is None


@pytest.mark.parametrize(
    "kind", ["VoteResponse", "EndQuorumEpochResponse", "FetchSnapshotResponse"]
)
def test_a_response_tells_where_its_leader_is_and_nobody_else(kind):
    """Others are read over, and without a leader all are."""
    made = getattr(messages, kind)
    told = made(leader_id=2, leader_epoch=3, leader_endpoint=Endpoint("", "b", 9))
    body, key = response_to_wire(told), KEY_OF_RESPONSE[made]
    assert [(node.node_id, node.host, node.port) for node in body.node_endpoints] == [(2, "b", 9)]
    other = replace(body.node_endpoints[0], node_id=1, host="a")
    read = response_from_wire(key, replace(body, node_endpoints=(other, *body.node_endpoints)))
    assert read.leader_endpoint == told.leader_endpoint
    assert response_from_wire(key, replace(body, node_endpoints=(other,))).leader_endpoint is None
    lost = made(leader_id=None, leader_epoch=3, leader_endpoint=told.leader_endpoint)
    assert response_to_wire(lost).node_endpoints == ()


@pytest.mark.parametrize(
    "made", [made for made, key in KEY_OF_RESPONSE.items() if key in SENT and key < DESCRIBE_QUORUM]
)
def test_an_error_at_the_top_comes_without_topics(made):
    told = made(top_error_code=31, leader_id=2, leader_epoch=3)
    body = response_to_wire(told)
    assert body.error_code == ErrorCode.cluster_authorization_failed
    assert response_from_wire(KEY_OF_RESPONSE[made], body) == made(top_error_code=31)


@pytest.mark.parametrize(("offset", "epoch"), [(-1, 0), (0, -1), (0, 0), (5, 2)])
def test_a_snapshot_of_a_negative_position_is_none(offset, epoch):
    position = OffsetAndEpoch(offset, epoch)
    told = messages.FetchSnapshotResponse(leader_id=2, leader_epoch=3, snapshot_id=position)
    read = response_from_wire(59, response_to_wire(told))
    assert read.snapshot_id == (None if min(offset, epoch) < 0 else position)


def test_listeners_of_a_new_leader_are_named_in_capitals():
    told = messages.BeginQuorumEpochRequest(
        cluster_id="c",
        voter_id=1,
        voter_directory_id=None,
        leader_id=2,
        leader_epoch=3,
        leader_endpoints=(Endpoint("controller", "n2", 9),),
    )
    read = request_from_wire(*request_to_wire(told))
    assert read.leader_endpoints == (Endpoint("CONTROLLER", "n2", 9),)


def test_ids_on_the_wire():
    assert [ids.node_id_of(number) for number in (-2, -1, 0, 1)] == [None, None, 0, 1]
    assert [ids.node_number(node_id) for node_id in (None, 0, 1)] == [-1, 0, 1]
    uuid = UUID(int=5)
    assert ids.directory_id_of(uuid) == uuid.bytes
    assert ids.directory_uuid(uuid.bytes) == uuid
    assert ids.directory_id_of(None) is ids.directory_uuid(None) is None
