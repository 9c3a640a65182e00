"""Frames out of a byte stream in any portions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.connections.framing import FrameReader, frame
from wire.errors import RemoteProtocolError


def read_all(reader):
    frames = []
    while (content := reader.next_frame()) is not None:
        frames.append(content)
    return frames


@given(contents=st.lists(st.binary(max_size=50), max_size=10), cuts=st.lists(st.integers(1, 40)))
def test_any_portions_give_the_same_frames(contents, cuts):
    stream = b"".join(frame(content) for content in contents)
    reader = FrameReader(50)
    frames = []
    for size in [*cuts, len(stream)]:
        portion, stream = stream[:size], stream[size:]
        reader.feed(portion)
        frames += read_all(reader)
    reader.feed(stream)
    frames += read_all(reader)
    assert frames == contents
    assert reader.buffered_bytes == 0


def test_half_frames_wait():
    reader = FrameReader(50)
    reader.feed(b"\0\0\0\x04abc")
    assert reader.next_frame() is None
    reader.feed(b"d\0")
    assert reader.next_frame() == b"abcd"
    assert reader.next_frame() is None
    assert reader.buffered_bytes == 1


def test_portions_of_a_frame_are_kept_as_they_came_until_the_last():
    reader = FrameReader(1 << 20)
    portions = [bytes([number]) * 1000 for number in range(9)]
    reader.feed((9000).to_bytes(4, "big"))
    assert reader.next_frame() is None
    for portion in portions[:-1]:
        reader.feed(portion)
        assert reader.next_frame() is None
    kept = [each.obj for each in reader._portions if isinstance(each, memoryview)]
    assert all(one is other for one, other in zip(kept, portions[:-1], strict=True))
    assert reader.buffered_bytes == 8000
    reader.feed(portions[-1] + b"\0\0")
    reader.feed(b"\0\1x")
    assert reader.buffered_bytes == 9005
    assert read_all(reader) == [b"".join(portions), b"x"]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"\xff\xff\xff\xff", "length -1"),
        (b"\0\0\0\x33", "length 51"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
    ],
)
def test_impossible_lengths_are_named(start, words):
    reader = FrameReader(50)
    reader.feed(start)
    with pytest.raises(RemoteProtocolError, match=words):
        reader.next_frame()
