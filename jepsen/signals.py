"""Signals that ask a run to end: they interrupt it wherever it is, and once."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interruption:
    """Effect of the first signal of `ENDING`; later ones do not disturb the undoing.

    While a task is shielded the signal cancels the task; else it raises KeyboardInterrupt. Signals
    that the process was started to ignore (SIGHUP by `nohup`, SIGINT and SIGQUIT by `&` in a
    script) stay ignored.
    """

    def __init__(self) -> None:
        self.came = False
        """True once a signal came, also one that only cancelled a task."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals inside the block; in the main thread only."""
        before = {
            number: signal.getsignal(number)
            for number in ENDING
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        for number in before:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def cancels(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Let a signal cancel the task of this loop, if it still runs, and raise nothing."""
        self._loop, self._task = asyncio.get_running_loop(), task
        try:
            yield
        finally:
            self._loop = self._task = None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.came:
            return
        self.came = True
        if self._loop is None or self._task is None:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._task.cancel)
