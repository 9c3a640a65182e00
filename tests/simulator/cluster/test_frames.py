"""Frames of a connection, also where a chunk holds a part of one."""

import struct

import pytest

from simulator.campaign.recording import Recording
from simulator.cluster.frames import FrameReader, Part
from simulator.cluster.network import Pipe
from wire.api_keys import FETCH, VOTE


def request(api_key, correlation_id, body=b"body"):
    content = struct.pack(">hhi", api_key, 0, correlation_id) + body
    return struct.pack(">i", len(content)) + content


def response(correlation_id, body=b"a longer body"):
    content = struct.pack(">i", correlation_id) + body
    return struct.pack(">i", len(content)) + content


def test_a_response_has_the_api_of_the_request_with_its_correlation_id():
    reader = FrameReader()
    first, second = request(FETCH, 7), request(VOTE, 8)
    assert reader.parts(first + second, to_server=True) == [
        Part(FETCH, first, is_whole=True),
        Part(VOTE, second, is_whole=True),
    ]
    assert [part.api_key for part in reader.parts(response(8) + response(7), to_server=False)] == [
        VOTE,
        FETCH,
    ]
    (unasked,) = reader.parts(response(9), to_server=False)
    assert unasked.api_key is None


def test_the_rest_of_a_frame_is_of_that_frame_and_no_header():
    reader = FrameReader()
    reader.parts(request(FETCH, 1), to_server=True)
    large = response(1, struct.pack(">ii", 4, 99) * 5)
    chunks = [large[:10], large[10:20], large[20:] + response(2)]
    parts = [reader.parts(chunk, to_server=False) for chunk in chunks]
    assert [[(p.api_key, p.is_whole) for p in found] for found in parts] == [
        [(FETCH, False)],
        [(FETCH, False)],
        [(FETCH, False), (None, True)],
    ]
    assert b"".join(part.data for found in parts for part in found) == b"".join(chunks)


def test_a_chunk_that_ends_within_a_header_is_a_bug_of_the_sender():
    with pytest.raises(AssertionError, match="within a header"):
        FrameReader().parts(request(FETCH, 1)[:7], to_server=True)


def test_the_picture_names_a_message_in_pieces_by_what_it_is():
    class Client:
        host = 1

        def opened(self): ...
        def received(self, data): ...
        def closed(self, *, refused): ...

    recording, pipe = Recording(), Pipe(Client(), 2)
    large = request(FETCH, 1, b"x" * 100)
    for chunk in (large[:40], large[40:] + request(VOTE, 2)):
        recording.sent(0, pipe, pipe.to_server, 1, chunk)
    assert [message[5] for message in recording.messages] == ["Fetch", "Fetch, Vote"]
