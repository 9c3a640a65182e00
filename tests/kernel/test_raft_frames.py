"""Every raft frame that real Kafka 3.9.1 and 4.3.1 exchanged, through the messages of the core.

Bytes -> body -> raft message -> body -> bytes: what the core cannot say is missing at the end.
"""

import json
from pathlib import Path

import pytest

from kernel.raft_answers import body_of_response, response_of
from kernel.raft_rpc import body_of_request, request_of
from raft import messages
from wire import metadata_fetch
from wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    split_request,
)
from wire.types import Endpoint

GOLDEN = Path(__file__).parent.parent / "golden" / "raft" / "pairs.jsonl"
PAIRS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
FETCH, DESCRIBE_QUORUM = 1, 55
RESPONSE_HEADER_BYTES = 5  # correlation id, no tagged fields
VOTERS = [pair for pair in PAIRS if pair["api_key"] in (52, 53, 54, 59)]
FETCHES = [pair for pair in PAIRS if pair["api_key"] == FETCH]
WITH_DIRECTORY_IDS = {"dynamic-4.3.1-00478", "dynamic-4.3.1-00479", "dynamic-4.3.1-00505"}
"""EndQuorumEpoch of kraft.version 1: directory ids of successors, which static voters lack."""


def by_id(pairs):
    return pytest.mark.parametrize("pair", pairs, ids=[pair["id"] for pair in pairs])


def test_every_raft_api_is_here():
    assert {pair["api_key"] for pair in PAIRS} == {1, 52, 53, 54, 55, 59}
    assert {pair["kafka_version"] for pair in PAIRS} == {"3.9.1", "4.3.1"}


@by_id(VOTERS)
def test_request_survives_the_core(pair):
    frame = bytes.fromhex(pair["request_hex"])
    api_key, version = pair["api_key"], pair["api_version"]
    header, position = split_request(frame)
    body = decode_request(api_key, version, memoryview(frame)[position:])
    message = request_of(api_key, body)
    assert message is not None
    written_key, written = body_of_request(message)
    assert written_key == api_key
    again = encode_request(api_key, version, header.correlation_id, header.client_id, written)
    assert (again == frame) is (pair["id"] not in WITH_DIRECTORY_IDS)


@by_id([pair for pair in VOTERS if pair["response_hex"]])
def test_response_survives_the_core(pair):
    frame = bytes.fromhex(pair["response_hex"])
    correlation_id, body = decode_response(pair["api_key"], pair["api_version"], frame)
    message = response_of(pair["api_key"], body)
    assert message is not None
    again = encode_response(
        pair["api_key"], pair["api_version"], correlation_id, body_of_response(message)
    )
    assert again == frame


@by_id(FETCHES)
def test_fetch_survives_the_core(pair):
    frame, version = bytes.fromhex(pair["request_hex"]), pair["api_version"]
    _, position = split_request(frame)
    request = metadata_fetch.decode_request(frame[position:])
    assert request is not None
    message = request_of(FETCH, request)
    assert message is not None
    _, written = body_of_request(message)
    assert metadata_fetch.encode_request(version, written) == frame[position:]


@by_id([pair for pair in FETCHES if pair["response_hex"]])
def test_fetched_survives_the_core(pair):
    frame = bytes.fromhex(pair["response_hex"])
    fetched = metadata_fetch.decode_response(frame[RESPONSE_HEADER_BYTES:])
    assert fetched is not None
    message = response_of(FETCH, fetched)
    assert message is not None
    again = metadata_fetch.encode_response(body_of_response(message))
    assert again == frame[RESPONSE_HEADER_BYTES:]


@by_id([pair for pair in PAIRS if pair["api_key"] == DESCRIBE_QUORUM])
def test_describe_quorum_is_understood(pair):
    frame = bytes.fromhex(pair["request_hex"])
    _, position = split_request(frame)
    body = decode_request(DESCRIBE_QUORUM, pair["api_version"], memoryview(frame)[position:])
    assert request_of(DESCRIBE_QUORUM, body) is not None


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
    """What Kafka answered, said by a message of the core, becomes Kafka's bytes."""
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
        DESCRIBE_QUORUM, pair["api_version"], correlation_id, body_of_response(message)
    )
    assert again == frame
