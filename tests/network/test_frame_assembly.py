"""Frames received straight into memory: the same as those of the reader of a byte stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.frame_assembly import GRANT_BYTES, SHARED_BYTES, FrameAssembly
from wire.connections.framing import FrameReader, frame
from wire.errors import RemoteProtocolError

FRAME_BYTES_MAX = 200


def assembly(shared_bytes: int = 16, grant_bytes: int = 32) -> FrameAssembly:
    shared = memoryview(bytearray(shared_bytes))
    return FrameAssembly(FRAME_BYTES_MAX, shared, grant_bytes=grant_bytes)


def receive(receiving: FrameAssembly, portion: bytes) -> list[bytearray]:
    """Receive a portion as a socket gives it: never more than the buffer takes."""
    frames: list[bytearray] = []
    while portion and receiving.failure is None:
        buffer = receiving.buffer()
        count = min(len(buffer), len(portion))
        buffer[:count] = portion[:count]
        frames += receiving.received(count)
        portion = portion[count:]
    return frames


def read_all(stream: bytes) -> tuple[list[bytes], str | None]:
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.feed(stream)
    frames: list[bytes] = []
    try:
        while (content := reader.next_frame()) is not None:
            frames.append(content)
    except RemoteProtocolError as error:
        return frames, str(error)
    return frames, None


def portions(stream: bytes, cuts: list[int]) -> list[bytes]:
    found = []
    for size in cuts:
        found.append(stream[:size])
        stream = stream[size:]
    return [*found, stream]


@given(
    contents=st.lists(st.binary(max_size=FRAME_BYTES_MAX), max_size=8),
    cuts=st.lists(st.integers(1, 70), max_size=30),
    shared_bytes=st.integers(4, 32),
)
def test_any_portions_give_the_same_frames(
    contents: list[bytes], cuts: list[int], shared_bytes: int
) -> None:
    receiving = assembly(shared_bytes)
    found: list[bytearray] = []
    for portion in portions(b"".join(map(frame, contents)), cuts):
        found += receive(receiving, portion)
    assert found == contents
    assert receiving.failure is None


@given(stream=st.binary(max_size=60), cuts=st.lists(st.integers(1, 20), max_size=10))
def test_any_bytes_give_the_frames_and_the_refusal_of_the_reader(
    stream: bytes, cuts: list[int]
) -> None:
    stream = b"\0\0\0\x03abc\0\0" + stream
    receiving = assembly()
    found: list[bytearray] = []
    for portion in portions(stream, cuts):
        found += receive(receiving, portion)
    assert (found, receiving.failure) == read_all(stream)


@given(data=st.data())
def test_connections_share_the_memory_of_small_frames(data: st.DataObject) -> None:
    shared = memoryview(bytearray(16))
    both = [FrameAssembly(FRAME_BYTES_MAX, shared, grant_bytes=32) for _ in range(2)]
    contents = [
        data.draw(st.lists(st.binary(max_size=40), max_size=5), label=f"of {i}") for i in range(2)
    ]
    streams = [b"".join(map(frame, each)) for each in contents]
    found: list[list[bytearray]] = [[], []]
    while any(streams):
        turn = data.draw(st.integers(0, 1), label="turn")
        size = data.draw(st.integers(1, 30), label="size")
        found[turn] += receive(both[turn], streams[turn][:size])
        streams[turn] = streams[turn][size:]
    assert found == contents


@pytest.mark.parametrize("length", [-1, FRAME_BYTES_MAX + 1, 0x47455420, 0x16030102])
def test_a_bad_length_ends_the_stream_behind_the_frames_before_it(length: int) -> None:
    bad = length.to_bytes(4, "big", signed=True)
    receiving = assembly(64, 64)
    assert receive(receiving, frame(b"first") + frame(b"") + bad + b"more") == [b"first", b""]
    assert receiving.failure == read_all(bad)[1]
    with pytest.raises(AssertionError):
        receiving.buffer()


@pytest.mark.parametrize("length", [0, 1, FRAME_BYTES_MAX])
def test_lengths_at_their_bounds_are_frames(length: int) -> None:
    receiving = assembly()
    assert receive(receiving, frame(b"x" * length)) == [b"x" * length]
    assert receiving.failure is None


def test_a_large_frame_is_received_where_it_stays() -> None:
    """After the bytes that came with its length nothing of it is copied."""
    content = bytes(range(256)) * 4096
    receiving = FrameAssembly(len(content))
    assert len(receiving.buffer()) == SHARED_BYTES
    assert receive(receiving, frame(content)[:1004]) == []
    rest = receiving.buffer()
    assert len(rest) == len(content) - 1000, "the rest of the frame and nothing behind it"
    own = rest.obj
    assert isinstance(own, bytearray)
    assert len(own) == len(content)
    rest[:] = content[1000:]
    del rest
    (received,) = receiving.received(len(content) - 1000)
    assert received is own
    assert received == content


def test_frames_do_not_share_memory() -> None:
    receiving = assembly(64, 64)
    first, second = receive(receiving, frame(b"first") + frame(b"second"))
    first[0] = 0
    receive(receiving, frame(b"xxxxxxxxxxxxxxx"))
    assert (first, second) == (b"\0irst", b"second")


def test_a_length_alone_gets_little_memory_which_grows_with_what_comes() -> None:
    receiving = FrameAssembly(100 * 1024 * 1024)
    receive(receiving, (10 * 1024 * 1024).to_bytes(4, "big"))
    sizes = []
    for _ in range(4):
        buffer = receiving.buffer()
        sizes.append(len(buffer))
        frames = receiving.received(len(buffer))
    assert sizes == [GRANT_BYTES, GRANT_BYTES, 2 * GRANT_BYTES, GRANT_BYTES]
    assert [len(content) for content in frames] == [10 * 1024 * 1024]


def test_a_length_cut_in_two_is_kept_while_others_use_the_shared_memory() -> None:
    shared = memoryview(bytearray(16))
    one, other = (FrameAssembly(FRAME_BYTES_MAX, shared, grant_bytes=32) for _ in range(2))
    assert receive(one, frame(b"abc") + b"\0\0") == [b"abc"]
    assert receive(other, frame(b"x" * 12)) == [b"x" * 12]
    assert receive(one, b"\0\4defg") == [b"defg"]


def test_a_buffer_can_be_given_out_again() -> None:
    """As when the socket had nothing after all."""
    receiving = assembly()
    receive(receiving, frame(b"x" * 100)[:10])
    assert len(receiving.buffer()) == len(receiving.buffer())
    assert receive(receiving, frame(b"x" * 100)[10:]) == [b"x" * 100]


@pytest.mark.parametrize("count", [0, 17])
def test_only_received_bytes_are_reported(count: int) -> None:
    receiving = assembly(16)
    receiving.buffer()
    with pytest.raises(AssertionError):
        receiving.received(count)


def test_bytes_are_received_into_a_buffer_that_was_given_out() -> None:
    receiving = assembly()
    with pytest.raises(AssertionError):
        receiving.received(1)
