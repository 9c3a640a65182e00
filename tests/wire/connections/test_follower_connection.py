"""The follower's connection: Fetch in the newest common version, other APIs as everywhere."""

import importlib
from datetime import timedelta

import pytest
from kio.serial import entity_reader

from tests.wire.messages.test_replica_fetch import kio_request, response_bytes
from wire.api_keys import API_VERSIONS, FETCH, LIST_OFFSETS
from wire.connections.follower_connection import FollowerConnection
from wire.connections.framing import frame
from wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from wire.messages.codec import default_request, encode_response, newest, split_request
from wire.messages.conversion import default_entity
from wire.messages.replica_fetch import ReplicaFetchRequest, ReplicaFetchRow, decode_replica_fetched

ROW = ReplicaFetchRow(
    fetch_offset=5,
    current_leader_epoch=1,
    last_fetched_epoch=1,
    log_start_offset=0,
    max_bytes=99,
)
REQUEST = ReplicaFetchRequest(
    replica_id=2,
    replica_epoch=12,
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=1000,
    session_id=4,
    session_epoch=7,
    rows=[((b"t" * 16, 3), ROW)],
    forgotten=[(b"u" * 16, 1)],
)


def versions_bytes(correlation_id, fetch_max):
    """An answer to ApiVersions with Fetch and ListOffsets."""
    new = newest(API_VERSIONS, "response")
    ranges = ((FETCH, 4, fetch_max), (LIST_OFFSETS, 1, 11))
    body = new.ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            new.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, low, high in ranges
        ),
        throttle_time=timedelta(0),
    )
    return frame(encode_response(API_VERSIONS, 3, correlation_id, body))


def connected(fetch_max=18):
    connection = FollowerConnection("client")
    connection.opening_bytes()
    assert connection.receive(versions_bytes(0, fetch_max)) == []
    return connection


@pytest.mark.parametrize(("fetch_max", "version"), [(13, 13), (16, 16), (18, 18), (20, 18)])
def test_fetch_is_in_the_newest_common_version(fetch_max, version):
    connection = connected(fetch_max)
    correlation_id, content = connection.request(FETCH, REQUEST)
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    header, position = split_request(content[4:])
    assert (header.api_key, header.api_version, header.client_id) == (FETCH, version, "client")
    assert header.correlation_id == correlation_id
    schema = importlib.import_module(f"kio.schema.fetch.v{version}.request")
    body, _ = entity_reader(schema.FetchRequest)(content[4:], position)
    assert body == kio_request(version, REQUEST)
    answer = response_bytes(version)
    start = correlation_id.to_bytes(4, "big") + b"\0"
    (response,) = connection.receive(frame(start + answer))
    assert (response.api_key, response.correlation_id) == (FETCH, correlation_id)
    assert response.body == decode_replica_fetched(version, answer)
    assert bytes(response.body.partitions[0].records) == b"abc"


def test_a_leader_without_ids_of_topics_is_not_fetched_from():
    with pytest.raises(LocalProtocolError, match="Fetch up to version 12"):
        connected(12).request(FETCH, REQUEST)


def test_other_apis_have_the_bodies_of_kio():
    connection = connected()
    correlation_id, content = connection.request(LIST_OFFSETS, default_request(LIST_OFFSETS))
    assert split_request(content[4:])[0].api_key == LIST_OFFSETS
    body = default_entity(newest(LIST_OFFSETS, "response").ListOffsetsResponse)
    answer = encode_response(LIST_OFFSETS, 11, correlation_id, body)
    (response,) = connection.receive(frame(answer))
    assert response.body == body


def test_a_response_that_cannot_be_read_ends_the_connection():
    connection = connected()
    connection.request(FETCH, REQUEST)
    with pytest.raises(RemoteProtocolError, match="Fetch response 18 cannot be read"):
        connection.receive(frame(b"\0\0\0\1\0\1"))
