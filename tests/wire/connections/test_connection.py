"""Both ends of a connection, against each other and against nonsense."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.api_table import ListenerKind, api_versions_body, apis
from wire.connections.client_connection import ClientConnection
from wire.connections.connection import ServerConnection, parse_request
from wire.connections.framing import frame
from wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from wire.messages.codec import default_request, encode_request, newest
from wire.messages.conversion import default_entity

TABLE = apis(ListenerKind.BROKER, [3, 19, 20, 60])
FEATURES = {"metadata.version": (1, 21), "kraft.version": (0, 1)}


def metadata_response():
    return default_entity(newest(3, "response").MetadataResponse)


def connected(limits=None, table=TABLE):
    server = ServerConnection(table, 10_000)
    client = ClientConnection("c", version_limits=limits)
    (request,) = server.receive(client.opening_bytes())
    body = api_versions_body(table, FEATURES, {"metadata.version": 21}, 5)
    assert client.receive(server.respond(request.reply_slot, body)) == []
    return server, client


def test_negotiation_takes_the_highest_common_version():
    _, client = connected({19: 5})
    assert client.is_negotiated
    assert client.negotiated_version(19) == 5
    assert client.negotiated_version(3) == 13
    assert client.negotiated_version(52) is None
    with pytest.raises(LocalProtocolError, match="Vote"):
        client.request(52, default_request(52))


def test_requests_before_the_answer_wait():
    server = ServerConnection(TABLE, 10_000)
    client = ClientConnection("c")
    (hello,) = server.receive(client.opening_bytes())
    first, nothing = client.request(3, default_request(3))
    assert nothing == b""
    client.receive(server.respond(hello.reply_slot, api_versions_body(TABLE)))
    (request,) = server.receive(client.bytes_to_send())
    assert (request.api_key, request.correlation_id) == (3, first)
    (response,) = client.receive(server.respond(request.reply_slot, metadata_response()))
    assert response.correlation_id == first
    assert response.body == metadata_response()


@given(order=st.permutations(range(6)), size=st.integers(1, 50))
def test_responses_keep_the_order_of_requests(order, size):
    server, client = connected()
    sent = [client.request(3, default_request(3)) for _ in range(6)]
    stream = b"".join(content for _, content in sent)
    requests = []
    for start in range(0, len(stream), size):
        requests += server.receive(stream[start : start + size])
    assert server.in_flight_count == 6
    answered = []
    for index in order:
        written = server.respond(requests[index].reply_slot, metadata_response())
        answered += client.receive(written)
    assert [response.correlation_id for response in answered] == [number for number, _ in sent]
    assert server.in_flight_count == 0


def test_in_flight_is_bounded():
    server = ServerConnection(TABLE, 1000, in_flight_max=2)
    stream = b"".join(frame(encode_request(3, 9, n, None, default_request(3))) for n in range(3))
    first, second = server.receive(stream)
    assert not server.wants_bytes
    assert server.receive(b"") == []
    assert server.respond(second.reply_slot, metadata_response()) == b""
    assert server.respond(first.reply_slot, metadata_response())
    (third,) = server.receive(b"")
    assert third.correlation_id == 2


def test_api_versions_too_new_is_answered_in_version_0():
    server = ServerConnection(TABLE, 1000)
    header = struct.pack(">hhih", 18, 99, 5, -1) + b"\0whatever"
    (request,) = server.receive(frame(header))
    assert request.error is ErrorCode.unsupported_version
    body = api_versions_body(TABLE, FEATURES, error=request.error)
    written = server.respond(request.reply_slot, body)
    assert written == frame(struct.pack(">ihihhh", 5, 35, 1, 18, 0, 4))


def test_client_falls_back_to_version_0():
    client = ClientConnection("c")
    client.opening_bytes()
    assert client.receive(frame(struct.pack(">ihihhh", 0, 35, 1, 18, 0, 0))) == []
    asked = client.bytes_to_send()
    assert struct.unpack_from(">hhi", asked, 4) == (18, 0, 1)
    client.receive(frame(struct.pack(">ihihhh", 1, 0, 1, 3, 0, 4)))
    assert client.negotiated_version(3) == 4


@pytest.mark.parametrize("error", [-1, 1, 256, 0x2300])
def test_every_error_but_an_unknown_version_ends_the_greeting(error):
    client = ClientConnection("c")
    client.opening_bytes()
    with pytest.raises(RemoteProtocolError, match=f"answered with error {error}"):
        client.receive(frame(struct.pack(">ihb", 0, error, 0)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (struct.pack(">hhih", 999, 0, 1, -1), "API 999"),
        (struct.pack(">hhih", 52, 0, 1, -1), "Vote"),
        (struct.pack(">hhih", 19, 99, 1, -1), "version 99 of CreateTopics"),
        (struct.pack(">hhih", 19, 1, 1, -1), "only 2 to 7"),
        (struct.pack(">hhih", 19, 7, 1, -1) + b"\0\xff\xff", "cannot be read"),
        (struct.pack(">hhih", 19, 7, 1, 50), "client id"),
        (struct.pack(">hhih", 19, 7, 1, 1) + b"\xff\0", "UTF-8"),
        (b"\0\x03", "no header"),
        (b"", "no header"),
    ],
)
def test_nonsense_closes_the_connection(content, words):
    with pytest.raises(RemoteProtocolError, match=words):
        ServerConnection(TABLE, 1000).receive(frame(content))


def test_requests_before_nonsense_are_answered_and_then_it_ends():
    server = ServerConnection(TABLE, 1000)
    good = frame(encode_request(3, 9, 1, None, default_request(3)))
    bad = frame(struct.pack(">hhih", 999, 0, 2, -1))
    first, second = server.receive(good + good + bad + good)
    assert server.failure is not None
    assert "API 999" in server.failure
    assert not server.wants_bytes
    assert server.receive(good) == []
    assert server.respond(first.reply_slot, metadata_response())
    assert server.respond(second.reply_slot, metadata_response())
    assert server.in_flight_count == 0


def test_versions_that_are_only_offered_close_the_connection():
    table = apis(ListenerKind.BROKER, [0])
    with pytest.raises(RemoteProtocolError, match="version 1 of Produce"):
        ServerConnection(table, 1000).receive(frame(struct.pack(">hhih", 0, 1, 1, -1)))


@pytest.mark.parametrize("length", [-1, 1001, 2**31 - 1])
def test_impossible_length_closes_the_connection(length):
    with pytest.raises(RemoteProtocolError, match="length"):
        ServerConnection(TABLE, 1000).receive(struct.pack(">i", length))


@given(st.binary(max_size=80))
def test_any_bytes_wait_or_close(content):
    server = ServerConnection(TABLE, 1000)
    with contextlib.suppress(RemoteProtocolError):  # nothing else is raised
        server.receive(content)


def test_unexpected_responses_close_the_client():
    _, client = connected()
    with pytest.raises(RemoteProtocolError, match="without a request"):
        client.receive(frame(struct.pack(">i", 77)))
    client.request(3, default_request(3))
    with pytest.raises(RemoteProtocolError, match="is due"):
        client.receive(frame(struct.pack(">i", 77)))


def test_a_received_frame_can_be_parsed_again_from_an_envelope():
    server, client = connected()
    _, content = client.request(19, default_request(19))
    (request,) = server.receive(content)
    assert parse_request(TABLE, request.frame).body == request.body
    response = default_entity(newest(19, "response").CreateTopicsResponse)
    from wire.messages.codec import encode_response

    encoded = encode_response(19, request.api_version, request.correlation_id, response)
    (answer,) = client.receive(server.respond_encoded(request.reply_slot, encoded))
    assert answer.body == response


def test_features_from_level_zero_are_left_out_below_version_4():
    for version, names in ((3, ["metadata.version"]), (4, ["metadata.version", "kraft.version"])):
        from wire.messages.codec import decode_response, encode_response

        encoded = encode_response(18, version, 1, api_versions_body(TABLE, FEATURES))
        _, body = decode_response(18, version, encoded)
        assert [feature.name for feature in body.supported_features] == names
