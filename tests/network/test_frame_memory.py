"""Memory of frames: used again when nobody holds it, and never before."""

import pytest

from network.frame_memory import KEPT_MAX, FrameMemory


@pytest.mark.parametrize("size_bytes", [100, 60, 40, 101, 200])
def test_memory_that_nobody_holds_is_used_again_in_any_size(size_bytes: int) -> None:
    memory = FrameMemory(1_000)
    frame = memory.take(100)
    place = id(frame)
    del frame
    again = memory.take(size_bytes)
    assert (id(again), len(again)) == (place, size_bytes)


def test_memory_is_not_used_again_while_a_view_of_it_is_held() -> None:
    memory = FrameMemory(1_000)
    frame = memory.take(8)
    frame[:] = b"produced"
    view = memoryview(frame)[2:5]
    del frame
    other = memory.take(8)
    other[:] = b"anything"
    assert view.tobytes() == b"odu"


def test_memory_that_is_held_does_not_hide_what_is_free() -> None:
    memory = FrameMemory(1_000)
    held = memory.take(8)
    free = memory.take(8)
    place = id(free)
    del free
    assert id(memory.take(8)) == place
    assert len(held) == 8


def test_few_frames_are_kept() -> None:
    memory = FrameMemory(1_000)
    held = [memory.take(8) for _ in range(KEPT_MAX + 1)]
    assert len(memory._kept) == KEPT_MAX
    assert all(one is not held[0] for one in memory._kept)


def test_a_frame_that_has_grown_is_let_go() -> None:
    memory = FrameMemory(8)
    frame = memory.take(8)
    frame.extend(b"1")
    del frame
    assert memory.take(8) is not None
    assert [len(one) for one in memory._kept] == [8]
    assert len(memory._kept) == 1
