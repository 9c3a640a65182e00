"""Judging of mutants: the trace it needs, and the workers that share the queue."""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.mutation.modules import ROOT, fingerprint
from scripts.mutation.points import Point
from scripts.mutation.sampling import Coverage
from scripts.mutation.score import Result, Results
from scripts.mutation.servers import Servers, WorkerError, start_worker
from scripts.mutation.tracing import Trace, read_trace

CACHE: Final = ROOT / ".mutants"
"""Traces and logs; git ignores it."""
TRACES_KEPT: Final = 3


def say(line: str) -> None:
    """Write a progress line to standard error."""
    sys.stderr.write(f"mutants: {line}\n")
    sys.stderr.flush()


def trace_of_tree(jobs: int) -> Trace:
    """Return the trace of an earlier run over the same files, or of a new one.

    Raises:
        WorkerError: the tests could not be run.
    """
    path = CACHE / f"trace-{fingerprint()}.gz"
    if not path.exists():
        began = time.monotonic()
        say("running the quick tests once, to see which of them runs which statement")
        parts = [CACHE / f"part-{number}.gz" for number in range(jobs)]
        logs = [CACHE / f"trace-{number}.log" for number in range(jobs)]
        for stale in (*parts, *logs):
            stale.unlink(missing_ok=True)
        workers = [
            start_worker("trace", log, str(part), str(number), str(jobs))
            for number, (part, log) in enumerate(zip(parts, logs, strict=True))
        ]
        for worker in workers:
            worker.communicate()
        whole = Trace()
        for part, log in zip(parts, logs, strict=True):
            if not part.exists():
                raise WorkerError(f"the quick tests cannot be traced, see {log}")
            whole.add(read_trace(part))
            part.unlink()
        whole.write(path)
        say(
            f"{len(whole.tests)} tests in {time.monotonic() - began:.0f} s; "
            f"{len(whole.failed)} did not pass and judge nothing"
        )
    old = sorted(CACHE.glob("trace-*.gz"), key=lambda file: file.stat().st_mtime)
    for stale in old[:-TRACES_KEPT]:
        stale.unlink()
    return read_trace(path)


class Run:
    """Waiting mutants, shared by `jobs` pairs of workers; each result is kept at once."""

    def __init__(self, results: Results, path: Path | None, coverage: Coverage) -> None:
        self._results = results
        self._path = path
        self._coverage = coverage
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._total = 0
        self._queue: Iterator[Point] = iter(())
        self._failures: list[WorkerError] = []

    def judge(self, waiting: list[Point], jobs: int) -> None:
        """Judge every mutant.

        Raises:
            WorkerError: a worker process has ended; results so far are kept.
        """
        self._total = len(self._results.found) + len(waiting)
        self._queue = iter(waiting)
        threads = [threading.Thread(target=self._work, args=(str(n),)) for n in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _work(self, name: str) -> None:
        servers = Servers(CACHE, name)
        try:
            while point := self._next():
                job = self._coverage.job(point)
                verdict = servers.ask(job, cold=self._coverage.runs_at_import(point))
                self._keep(
                    Result(
                        id=point.id,
                        line=point.line,
                        outcome=verdict.outcome,
                        killer=verdict.killer,
                        covering=job.covering,
                        ran=verdict.ran,
                        seconds=verdict.seconds,
                    )
                )
        except WorkerError as error:
            self._failures.append(error)
        finally:
            servers.close()

    def _next(self) -> Point | None:
        with self._lock:
            return next(self._queue, None)

    def _keep(self, result: Result) -> None:
        with self._lock:
            self._results.found[result.id] = result
            if self._path is not None:
                self._results.write(self._path)
            say(
                f"{len(self._results.found)}/{self._total} "
                f"{time.monotonic() - self._began:5.0f} s  {result.outcome:8} "
                f"{result.seconds:6.2f} s  {result.place}"
            )
