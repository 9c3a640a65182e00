"""Frames of megabytes, whose memory grows as their portions come."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.connections.framing import frame
from wire.connections.growing_frames import (
    IDLE_BYTES_MAX,
    KEPT_BYTES_MAX,
    MAPPED_BYTES_MIN,
    GrowingFrames,
)
from wire.errors import RemoteProtocolError


def read_all(reader):
    frames = []
    while (content := reader.next_frame()) is not None:
        frames.append(content)
    return frames


@given(contents=st.lists(st.binary(max_size=50), max_size=10), cuts=st.lists(st.integers(1, 40)))
def test_any_portions_give_the_same_frames(contents, cuts):
    stream = b"".join(frame(content) for content in contents)
    reader = GrowingFrames(50)
    frames = []
    for size in [*cuts, len(stream)]:
        portion, stream = stream[:size], stream[size:]
        reader.feed(memoryview(portion))
        frames += read_all(reader)
    reader.feed(stream)
    frames += read_all(reader)
    assert frames == contents


def test_portions_that_come_before_the_frame_is_taken_are_of_the_next_ones():
    reader = GrowingFrames(50)
    for portion in (b"\0\0\0\x04abc", b"d\0", b"\0\0", b"\1e"):
        reader.feed(portion)
        if portion.endswith(b"c"):
            assert reader.next_frame() is None
    assert read_all(reader) == [b"abcd", b"e"]


def test_a_frame_is_filled_in_place():
    reader = GrowingFrames(1 << 20)
    reader.feed((3000).to_bytes(4, "big"))
    assert reader.next_frame() is None
    begun = reader._frame
    for _ in range(3):
        assert reader.next_frame() is None
        reader.feed(bytes(1000))
    assert reader.buffered_bytes == 3000
    reader.feed(b"behind")
    assert reader.buffered_bytes == 3006
    assert reader.next_frame() is begun
    assert reader.buffered_bytes == 6


@pytest.mark.parametrize("length", [-1, 51])
def test_lengths_outside_the_limit_are_refused(length):
    reader = GrowingFrames(50)
    reader.feed(length.to_bytes(4, "big", signed=True)[:3])
    assert reader.next_frame() is None
    reader.feed(length.to_bytes(4, "big", signed=True)[3:])
    with pytest.raises(RemoteProtocolError, match=f"length {length} "):
        reader.next_frame()


def test_a_frame_of_the_limit_and_an_empty_one():
    reader = GrowingFrames(50)
    reader.feed(frame(bytes(50)) + frame(b""))
    assert read_all(reader) == [bytes(50), b""]


def taken(reader, size):
    """The memory of a frame of this size, and the frame."""
    reader.feed(size.to_bytes(4, "big"))
    reader.feed(random.Random(size).randbytes(size))
    frame = reader.next_frame()
    assert frame == random.Random(size).randbytes(size)
    return frame.obj, frame


def test_memory_of_a_large_frame_is_used_again_when_nobody_holds_it():
    reader = GrowingFrames(1 << 30)
    memory, frame = taken(reader, MAPPED_BYTES_MIN)
    kept = id(memory)
    row, expected = frame[5:9], bytes(frame[5:9])
    del memory, frame
    other, _ = taken(reader, MAPPED_BYTES_MIN)
    assert id(other) != kept, "a view of it is held"
    assert row == expected
    kept = id(other)
    del other, _, row
    again, frame = taken(reader, MAPPED_BYTES_MIN)
    assert id(again) == kept
    assert len(frame) == MAPPED_BYTES_MIN
    del again, frame
    larger, _ = taken(reader, MAPPED_BYTES_MIN + 1)
    assert len(larger) == MAPPED_BYTES_MIN + 1


def test_memory_of_small_and_of_very_large_frames_is_not_kept():
    reader = GrowingFrames(1 << 30)
    assert type(taken(reader, MAPPED_BYTES_MIN - 1)[0]) is bytearray
    for size, kept in ((KEPT_BYTES_MAX, KEPT_BYTES_MAX), (KEPT_BYTES_MAX + 1, None)):
        reader = GrowingFrames(1 << 30)
        reader.feed(size.to_bytes(4, "big"))
        assert reader.next_frame() is None
        assert (reader._kept and len(reader._kept)) == kept


def kept_bytes(*sizes):
    """Bytes that are kept when frames of these sizes have begun."""
    reader = GrowingFrames(1 << 30)
    for size in sizes:
        reader.feed(size.to_bytes(4, "big"))
        reader.next_frame()
        reader._frame = None  # it need not come
    return 0 if reader._kept is None else len(reader._kept)


def test_much_memory_is_given_back_when_frames_are_small_again():
    many = IDLE_BYTES_MAX + 4
    assert kept_bytes(many, many // 4) == many
    assert kept_bytes(many, many // 4 - 1) == many // 4 - 1
    assert kept_bytes(many, 5) == 0
    assert kept_bytes(IDLE_BYTES_MAX, 5) == IDLE_BYTES_MAX
