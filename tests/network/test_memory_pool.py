"""The memory of requests: exact limits, an order of those who wait, and the time of their waits."""

import pytest

from network.memory_pool import SMALL_BYTES_MAX, MemoryPool, counted_bytes, counted_bytes_of
from wire.api_keys import FETCH, PRODUCE


def start_of(api_key: int) -> bytes:
    return api_key.to_bytes(2, "big")


def test_frames_fit_up_to_the_size_exactly() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 4)
    assert pool.take(2, 6)
    assert not pool.take(3, 1)
    assert (pool.used_bytes, pool.is_waiting(3), pool.is_waiting(2)) == (10, True, False)


def test_a_frame_larger_than_the_pool_is_alone_in_it() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 1)
    assert not pool.take(2, 11)
    pool.release(1)
    assert pool.first_with_room() == 2
    assert pool.take(2, 11)
    assert not pool.take(1, 1)
    pool.release(11)
    assert pool.take(1, 1)


def test_who_waits_goes_on_in_the_order_in_which_they_came() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 10)
    assert [pool.take(2, 8), pool.take(3, 1), pool.take(2, 8)] == [False] * 3
    assert pool.first_with_room() is None
    pool.release(5)
    assert pool.first_with_room() is None, "one that would fit does not overtake"
    assert not pool.take(4, 1)
    pool.release(3)
    assert pool.first_with_room() == 2
    assert not pool.take(3, 1)
    assert pool.take(2, 8)
    assert pool.first_with_room() is None
    pool.release(2)
    assert pool.take(3, 1)
    assert pool.first_with_room() == 4
    assert pool.take(4, 1)
    assert pool.first_with_room() is None


def test_who_leaves_holds_up_nobody() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 9)
    assert not pool.take(2, 2)
    assert not pool.take(3, 1)
    pool.leave(2)
    assert pool.first_with_room() == 3
    pool.leave(2)
    assert pool.take(3, 1)


def test_no_more_is_given_back_than_was_taken() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 9)
    with pytest.raises(AssertionError):
        pool.release(10)
    with pytest.raises(AssertionError):
        pool.release(-1)
    pool.release(9)
    assert pool.used_bytes == 0
    with pytest.raises(AssertionError):
        MemoryPool(0)


def test_the_time_in_which_anyone_waits_is_counted_once() -> None:
    now = [100]
    pool = MemoryPool(10, lambda: now[0])
    assert pool.take(1, 10)
    now[0] = 150
    assert pool.depleted_ns == 0
    assert not pool.take(2, 1)
    now[0] = 170
    assert not pool.take(3, 1)
    assert pool.depleted_ns == 20
    pool.leave(2)
    now[0] = 180
    assert pool.depleted_ns == 30
    pool.leave(3)
    now[0] = 300
    assert pool.depleted_ns == 30
    assert not pool.take(2, 1)
    now[0] = 307
    assert pool.depleted_ns == 37


def test_who_took_memory_is_known() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 10)
    assert not pool.take(2, 1)
    assert pool.take_users() == {1}
    assert pool.take_users() == set()


def test_frames_that_nobody_takes_give_back_what_they_hold() -> None:
    pool = MemoryPool(10)
    assert pool.take(1, 10)
    pool.drop([bytearray(start_of(PRODUCE)), bytearray(start_of(FETCH)), bytearray(5)])
    assert pool.used_bytes == 3


@pytest.mark.parametrize(
    ("length", "start", "counted"),
    [
        (SMALL_BYTES_MAX, start_of(FETCH), 0),
        ((1 << 20) + 1, start_of(FETCH), (1 << 20) + 1),
        (2, start_of(PRODUCE), 2),
        (1, start_of(PRODUCE)[:1], 0),
        (0, b"", 0),
    ],
)
def test_produces_and_large_requests_count(length: int, start: bytes, counted: int) -> None:
    assert counted_bytes(length, start) == counted
    assert counted_bytes(length, memoryview(start)) == counted
    assert counted_bytes_of(bytearray(start).ljust(length, b"x")) == counted
