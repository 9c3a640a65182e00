"""CPU time of a process and its descendants, including those that end meanwhile (Linux)."""

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

INTERVAL_SECONDS: Final = 0.5


class CpuMeter:
    """Context manager that measures its block: `cpu` and `wall` in seconds.

    Spark ends idle Python workers at any time, and their CPU time would be lost with them. So the
    process tree is read twice a second, and an ended process counts with its last reading.
    """

    def __init__(self) -> None:
        self.cpu = 0.0
        self.wall = 0.0
        self._before: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._started = 0.0

    def __enter__(self) -> Self:
        """Start measuring."""
        self._before = process_ticks()
        self._started = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop measuring and set the figures."""
        self.wall = time.perf_counter() - self._started
        self._over.set()
        self._thread.join()
        self._last.update(process_ticks())
        ticks = sum(after - self._before.get(process, 0) for process, after in self._last.items())
        self.cpu = ticks / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL_SECONDS):
            self._last.update(process_ticks())


def process_ticks() -> dict[int, int]:
    """Clock ticks used by this process and by each of its descendants."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process ended
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    tree = {os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in tree} - tree
        if not more:
            break
        tree |= more
    return {process: ticks[process] for process in tree if process in ticks}
