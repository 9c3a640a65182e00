"""Flushes in the loop only while the disk is quick; on the thread else, one at a time."""

import asyncio
import threading

import pytest

from node.flusher import FORGIVEN, QUICK_S, RECENT, SLOW_S, Flusher, Pace


def pace_of(*seconds: float) -> Pace:
    pace = Pace()
    for took in seconds:
        pace.note(took)
    return pace


def test_a_disk_must_prove_itself() -> None:
    quick = [QUICK_S / 3] * RECENT
    assert not pace_of(*quick[1:]).is_quick
    assert pace_of(*quick).is_quick


@pytest.mark.parametrize(("count", "is_quick"), [(FORGIVEN, True), (FORGIVEN + 1, False)])
def test_some_flushes_may_take_longer(count: int, is_quick: bool) -> None:
    seconds = [QUICK_S] * count + [QUICK_S / 3] * (RECENT - count)
    assert pace_of(*seconds).is_quick is is_quick


def test_one_slow_flush_counts_until_it_is_forgotten() -> None:
    pace = pace_of(*[QUICK_S / 3] * RECENT, SLOW_S)
    for _ in range(RECENT - 1):
        assert not pace.is_quick
        pace.note(QUICK_S / 3)
    pace.note(QUICK_S / 3)
    assert pace.is_quick


class Plan:
    """A flush that says on which thread it ran."""

    def __init__(self, error: OSError | None = None) -> None:
        self.thread: threading.Thread | None = None
        self._error = error

    def run(self) -> None:
        self.thread = threading.current_thread()
        if self._error is not None:
            raise self._error


def test_on_the_thread_and_here() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Queue[tuple[int, BaseException | None]] = asyncio.Queue()
        flusher = Flusher(loop, lambda token, error: done.put_nowait((token, error)))
        there, here, failed = Plan(), Plan(), Plan(OSError("no disk"))
        flusher.run_on_thread(1, there)
        assert await done.get() == (1, None)
        assert there.thread not in (None, threading.main_thread())
        flusher.run_here(2, here)
        assert await done.get() == (2, None)
        assert here.thread is threading.main_thread()
        flusher.run_on_thread(3, failed)
        token, error = await done.get()
        assert token == 3
        assert isinstance(error, OSError)
        assert not flusher.may_run_in_loop
        flusher.close()
        assert there.thread is not None
        assert not there.thread.is_alive()

    asyncio.run(scenario())


def test_quick_flushes_earn_the_loop() -> None:
    async def scenario() -> None:
        flusher = Flusher(asyncio.get_running_loop(), lambda token, error: None)
        for token in range(RECENT):
            flusher.run_here(token, Plan())
        assert flusher.may_run_in_loop
        flusher.close()

    asyncio.run(scenario())
