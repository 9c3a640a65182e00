"""A request of a client, as a handler sees it: reads it, answers it."""

from datetime import timedelta

import pytest

from broker.clients.call import Call
from broker.effects import Part
from quorum_controller.security.authorization import Caller
from wire.api_keys import API_VERSIONS, LIST_OFFSETS
from wire.connections.headers import RequestHeader
from wire.errors import RemoteProtocolError
from wire.messages import codec

Sent = tuple[tuple[Part, ...] | None, str | None]


def call_of(api_key: int, version: int, frame: bytes, position: int) -> tuple[Call, list[Sent]]:
    sent: list[Sent] = []
    call = Call(
        RequestHeader(api_key, version, -7, "client"),
        frame=bytearray(frame),
        position=position,
        caller=Caller(),
        listener="PLAINTEXT",
        respond=lambda parts, reason: sent.append(
            (None if parts is None else tuple(parts), reason)
        ),
    )
    return call, sent


def list_offsets_frame() -> tuple[bytes, int]:
    new = codec.newest(LIST_OFFSETS, "request")
    body = new.ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=(), timeout=timedelta(0))
    frame = codec.encode_request(LIST_OFFSETS, 7, -7, "client", body)
    return frame, codec.split_request(frame)[1]


def test_a_body_is_read_behind_the_header_and_answered_with_one() -> None:
    frame, position = list_offsets_frame()
    call, sent = call_of(LIST_OFFSETS, 7, frame, position)
    assert call.body().isolation_level == 1
    new = codec.newest(LIST_OFFSETS, "response")
    call.answer(new.ListOffsetsResponse(throttle_time=timedelta(0), topics=()))
    ((parts, reason),) = sent
    assert reason is None
    assert parts is not None
    assert codec.decode_response(LIST_OFFSETS, 7, b"".join(map(bytes, parts)))[0] == -7


def test_a_body_that_cannot_be_read_is_refused() -> None:
    frame, position = list_offsets_frame()
    call, sent = call_of(LIST_OFFSETS, 7, frame[:-1], position)
    with pytest.raises(RemoteProtocolError):
        call.body()
    assert sent == []


@pytest.mark.parametrize(
    ("api_key", "version", "header"),
    [
        (LIST_OFFSETS, 5, b"\xff\xff\xff\xf9"),
        (LIST_OFFSETS, 6, b"\xff\xff\xff\xf9\0"),
        (API_VERSIONS, 3, b"\xff\xff\xff\xf9"),
    ],
)
def test_parts_stand_behind_the_header_of_the_version(
    api_key: int, version: int, header: bytes
) -> None:
    call, sent = call_of(api_key, version, b"", 0)
    call.answer_parts((b"first", b"second"))
    assert sent == [((header, b"first", b"second"), None)]


@pytest.mark.parametrize("reason", [None, "Produce with acks=0 failed"])
def test_no_response_may_close_the_connection(reason: str | None) -> None:
    call, sent = call_of(LIST_OFFSETS, 7, b"", 0)
    call.answer_nothing(reason)
    assert sent == [(None, reason)]


def test_an_answer_that_cannot_be_said_in_the_version_closes_the_connection() -> None:
    call, sent = call_of(LIST_OFFSETS, 5, b"", 0)
    new = codec.newest(LIST_OFFSETS, "response")
    topic = new.ListOffsetsTopicResponse(name="x" * 40_000, partitions=())
    call.answer(new.ListOffsetsResponse(throttle_time=timedelta(0), topics=(topic,)))
    ((parts, reason),) = sent
    assert parts is None
    assert reason is not None
    assert reason.startswith("the answer cannot be said in this version: ")
