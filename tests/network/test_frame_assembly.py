"""Frames received straight into memory: the same as those of the reader of a byte stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.frame_assembly import GRANT_BYTES, SHARED_BYTES, FrameAssembly
from network.memory_pool import MemoryPool
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
    shared_bytes=st.integers(6, 32),
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
    receive(receiving, (10 * 1024 * 1024).to_bytes(4, "big") + b"\0\0")
    sizes = []
    for _ in range(4):
        buffer = receiving.buffer()
        sizes.append(len(buffer))
        frames = receiving.received(len(buffer))
    assert sizes == [GRANT_BYTES - 2, GRANT_BYTES, 2 * GRANT_BYTES, GRANT_BYTES]
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


# ---- memory of a pool ------------------------------------------------------------------------


def pooled(pool: MemoryPool, connection_id: int = 1, shared_bytes: int = 64) -> FrameAssembly:
    shared = memoryview(bytearray(shared_bytes))
    return FrameAssembly(
        FRAME_BYTES_MAX, shared, grant_bytes=64, pool=pool, connection_id=connection_id
    )


def produce(size_bytes: int) -> bytes:
    """A frame that counts."""
    return frame(b"\0\0".ljust(size_bytes, b"p"))


def test_a_frame_takes_its_whole_length_once_its_api_key_has_come() -> None:
    pool = MemoryPool(100)
    receiving = pooled(pool)
    sent = produce(90)
    assert receive(receiving, sent[:5]) == []
    assert (pool.used_bytes, receiving.is_within_frame) == (0, False)
    assert receive(receiving, sent[5:6]) == []
    assert (pool.used_bytes, receiving.is_within_frame) == (90, True)
    assert receive(receiving, sent[6:] + frame(b"\0\1x")) == [sent[4:], b"\0\1x"]
    assert (pool.used_bytes, receiving.is_within_frame) == (90, False), "who got it gives it back"
    receiving.close()
    assert pool.used_bytes == 90


@pytest.mark.parametrize("cut", [50, 0])
def test_a_frame_that_was_handed_on_is_not_given_back_at_the_end(cut: int) -> None:
    """Received with memory of its own, or whole."""
    pool = MemoryPool(100)
    receiving = pooled(pool)
    sent = produce(56)
    assert receive(receiving, sent[:cut]) + receive(receiving, sent[cut:]) == [sent[4:]]
    receiving.close()
    assert pool.used_bytes == 56


def test_small_requests_do_not_wait() -> None:
    pool = MemoryPool(100)
    assert pool.take(2, 100)
    assert not pool.take(3, 1)
    assert receive(pooled(pool), frame(b"\0\1fetch")) == [b"\0\1fetch"]


@pytest.mark.parametrize("content", [b"", b"\0", b"\0\1"])
def test_a_frame_without_more_than_an_api_key_is_whole(content: bytes) -> None:
    pool = MemoryPool(1)
    assert receive(pooled(pool), frame(content) + frame(content)) == [content, content]
    assert pool.used_bytes == 0


@pytest.mark.parametrize("size_bytes", [20, 150])
def test_a_frame_without_room_waits_and_the_frames_behind_it(size_bytes: int) -> None:
    """It waits whole, if it is small, or with its first bytes."""
    pool = MemoryPool(160)
    one, other = pooled(pool, 1), pooled(pool, 2)
    assert receive(one, produce(150)[:50]) == []
    sent = frame(b"\0\1first") + produce(size_bytes)[: 20 + 4]
    assert receive(other, sent) == [b"\0\1first"]
    assert (other.is_starved, pool.used_bytes, pool.first_with_room()) == (True, 150, None)
    with pytest.raises(AssertionError, match="before there is memory"):
        other.buffer()
    one.close()
    assert (pool.used_bytes, pool.first_with_room()) == (0, 2)
    frames = other.granted() + receive(other, produce(size_bytes)[24:])
    assert frames == [produce(size_bytes)[4:]]
    assert (other.is_starved, pool.used_bytes) == (False, size_bytes)
    assert receive(other, frame(b"\0\1next")) == [b"\0\1next"]
    with pytest.raises(AssertionError):
        other.granted()


def test_the_second_frame_of_a_connection_waits_behind_others() -> None:
    pool = MemoryPool(10)
    one, other = pooled(pool, 1), pooled(pool, 2)
    assert pool.take(3, 10)
    assert receive(one, produce(6) + produce(5)) == []
    assert receive(other, produce(5)) == []
    pool.release(10)
    assert pool.first_with_room() == 1
    assert one.granted() == [produce(6)[4:]]
    assert (one.is_starved, pool.first_with_room()) == (True, None)
    pool.release(6)
    assert pool.first_with_room() == 2
    assert other.granted() == [produce(5)[4:]]
    assert pool.first_with_room() == 1
    assert one.granted() == [produce(5)[4:]]
    assert not one.is_starved


def test_what_is_closed_gives_its_memory_back_and_does_not_wait() -> None:
    pool = MemoryPool(100)
    one, other = pooled(pool, 1), pooled(pool, 2)
    receive(one, produce(90)[:10])
    receive(other, produce(90)[:10])
    other.close()
    assert (pool.used_bytes, pool.is_waiting(2)) == (90, False)
    one.close()
    one.close()
    assert pool.used_bytes == 0
    assembly().close()


def test_a_bad_length_behind_a_frame_that_waited() -> None:
    pool = MemoryPool(100)
    assert pool.take(2, 100)
    receiving = pooled(pool)
    receive(receiving, produce(5) + b"\xff" * 4)
    assert receiving.failure is None
    pool.release(100)
    assert receiving.granted() == [produce(5)[4:]]
    assert receiving.failure is not None


@given(
    contents=st.lists(st.binary(max_size=FRAME_BYTES_MAX), max_size=8),
    cuts=st.lists(st.integers(1, 70), max_size=30),
    pool_bytes=st.integers(1, 250),
)
def test_a_pool_changes_no_frame(contents: list[bytes], cuts: list[int], pool_bytes: int) -> None:
    """A frame that is handed on gives its memory back when the connection waits for memory."""
    pool = MemoryPool(pool_bytes)
    receiving = pooled(pool)
    found: list[bytearray] = []
    for portion in portions(b"".join(map(frame, contents)), cuts):
        left = portion
        while left:
            buffer = receiving.buffer()
            count = min(len(buffer), len(left))
            buffer[:count] = left[:count]
            left = left[count:]
            frames = receiving.received(count)
            found += frames
            while receiving.is_starved:
                assert frames, "nothing else holds memory"
                pool.drop(frames)
                frames = receiving.granted()
                found += frames
            pool.drop(frames)
    assert found == contents
    assert pool.used_bytes == 0


def test_progress_is_that_of_the_frame_that_holds_memory():
    def receive(data):
        assembly.buffer()[: len(data)] = data
        return assembly.received(len(data))

    assembly = FrameAssembly(1 << 20, pool=MemoryPool(1 << 20))
    content = frame(b"\0\0" + bytes(98))
    assert assembly.progress is None
    receive(frame(b"\0\1" + bytes(98))[:50])
    assert assembly.progress is None, "it holds none"
    receive(frame(b"\0\1" + bytes(98))[50:])
    seen = []
    for _ in range(2):
        for part in (content[:50], content[50:60]):
            receive(part)
            seen.append(assembly.progress)
        receive(content[60:])
        assert assembly.progress is None
    assert len(set(seen)) == 4
