"""Processes of this machine that share the items of a large stage."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from pipeline.core.errors import BadInputError
from pipeline.core.stage import Stage
from pipeline.jobs.job import Progress
from pipeline.spark_session import TASK_ATTEMPTS

# Below this size the start of the processes, half a second each, costs more than it gains.
POOL_BYTES_MIN: Final = 8 << 20
Item = TypeVar("Item")
Found = TypeVar("Found")


class LocalProcesses:
    """Processes that share the items of a stage; a killed one costs an attempt, as with Spark.

    Args:
        count: number of processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def for_stage(cls, stage: Stage[Any, Any]) -> Self | None:
        """Processes for a stage; None if it is better run in this process."""
        count = min(len(stage.items), os.cpu_count() or 1)
        if count < 2 or sum(stage.sizes) < POOL_BYTES_MIN:
            return None
        return cls(count)

    def run(self, stage: Stage[Item, Found], shown: Progress) -> list[Found]:
        """Run a stage; the first error of an item ends it.

        Raises:
            BadInputError: processes were killed in each of four attempts.
        """
        found: dict[int, Found] = {}
        for attempt in range(1, TASK_ATTEMPTS + 1):
            try:
                self._attempt(stage, found, shown)
                break
            except BrokenProcessPool as error:
                if attempt == TASK_ATTEMPTS:
                    raise BadInputError(
                        f"processes of the job were killed in each of {attempt} attempts: is there"
                        " memory for as many as there are cores?"
                    ) from error
        return [found[index] for index in range(len(stage.items))]

    def _attempt(self, stage: Stage[Item, Found], found: dict[int, Found], shown: Progress) -> None:
        """Run the items that have no result yet, and add theirs."""
        # a process that is forked from one with threads, as Arrow's, may stand still
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.count, context, initializer=_prepare)
        try:
            waiting: dict[Future[Found], int] = {
                pool.submit(stage.work, item): index
                for index, item in enumerate(stage.items) if index not in found
            }  # fmt: skip
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    index = waiting.pop(future)
                    found[index] = future.result()
                    shown.step(stage.sizes[index])
            pool.shutdown()
        finally:
            for process in list((pool._processes or {}).values()):  # noqa: SLF001  # till 3.14
                process.terminate()
            pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    """Leave Ctrl-C to the first process, which ends the others; end with it; one core each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_first, daemon=True).start()
    pa.set_cpu_count(1)


def _end_with_first() -> None:
    """End this process with the first one, also if that is killed: nobody asks it for more."""
    first = multiprocessing.parent_process()
    assert first is not None, "a process of a pool"
    first.join()
    os._exit(1)
