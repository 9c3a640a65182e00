"""Process that traces the quick tests, or runs them against one mutant after the other.

`python -m scripts.mutation.worker trace FILE SHARD SHARDS` writes a trace. `... warm` and
`... cold` read one job a line from standard input and answer with one line each. Every mutant has
a process of its own, a fork: of a process that has collected all tests (warm), where the code of
loaded functions is replaced; or of one that has imported third-party modules only (cold), for
mutants of code that runs at import. Neither writes a file of the tree.
"""

import ast
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.mutation import quick_tests
from scripts.mutation.forks import Job, Reporter, Verdict, run_fork
from scripts.mutation.loaded_code import LoadedFunctions
from scripts.mutation.modules import PACKAGES, ROOT, Importer
from scripts.mutation.points import Point, mutated
from scripts.mutation.tracing import Trace, Tracer

FOREIGN: Final = ("hypothesis", "kio.schema", "msgspec", "immutables", "aiohttp")
"""Modules that a cold process imports before it forks; none of the project."""
MEMORY: Final = Path("/dev/shm")  # noqa: S108  # only the place of scratch folders


class Recorder:
    """Plugin that records which statements each test runs."""

    def __init__(self, tracer: Tracer, shard: int, shards: int) -> None:
        self.trace = Trace()
        self._tracer = tracer
        self._shard = shard
        self._shards = shards

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the test files of this shard."""
        files = {path: number for number, path in enumerate(sorted({i.path for i in items}))}
        items[:] = [item for item in items if files[item.path] % self._shards == self._shard]

    def pytest_collection_finish(self) -> None:
        """Assign the statements that have run so far to the import."""
        self.trace.imported.update(self._tracer.take())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record set-up, call and tear-down of a test with its fixtures."""
        number = len(self.trace.tests)
        self.trace.tests.append(item.nodeid)
        started = time.process_time()
        try:
            return (yield)
        finally:
            self.trace.seconds.append(round(time.process_time() - started, 4))
            for place in self._tracer.take():
                self.trace.runs[place] |= 1 << number

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Mark a test that fails or is skipped: it cannot judge a mutant."""
        if not report.passed:
            self.trace.failed.add(len(self.trace.tests) - 1)


class Server:
    """Plugin that answers jobs after the collection instead of running the tests."""

    def __init__(self, jobs: Iterator[Job], answers: int, scratch: Path) -> None:
        self._jobs = jobs
        self._answers = answers
        self._scratch = scratch

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run every job in a fork."""
        items = {item.nodeid: item for item in session.items}
        functions = LoadedFunctions()
        trusted: dict[str, bool] = {}
        for job in self._jobs:
            run = partial(self._verdict, session, items, functions)
            answer(self._answers, confirmed(job, run, trusted))
        return True

    def _verdict(
        self,
        session: pytest.Session,
        items: dict[str, pytest.Item],
        functions: LoadedFunctions,
        job: Job,
    ) -> Verdict:
        path = ROOT / job.point.module if job.point else None
        swap = None
        if job.point and path:
            source = path.read_text("utf-8")
            swap = functions.swap(path, ast.parse(source), mutated(job.point, source))
            if swap is None:
                return Verdict("cold")  # the functions cannot be found: import the mutant

        def action(reporter: Reporter) -> None:
            if swap is not None:
                swap()
            run_items(session, [items[t.id] for t in job.tests if t.id in items], reporter)

        return run_fork(job, action, self._scratch)


class Chosen:
    """Plugin of a cold fork that runs the tests of a job in its order."""

    def __init__(self, job: Job, reporter: Reporter) -> None:
        self._job = job
        self._reporter = reporter

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests until one fails; a test that a mutant has removed is a failure too."""
        if session.testsfailed:
            self._reporter.failed("")
            return True
        items = {item.nodeid: item for item in session.items}
        missing = [test.id for test in self._job.tests if test.id not in items]
        if missing:
            self._reporter.failed(missing[0])
            return True
        run_items(session, [items[test.id] for test in self._job.tests], self._reporter)
        return True


def confirmed(job: Job, run: Callable[[Job], Verdict], trusted: dict[str, bool]) -> Verdict:
    """Return the verdict of the tests that pass alone without a mutant.

    Args:
        job: a mutant with its tests; tests that do not pass are removed.
        run: runs a job in a fork.
        trusted: result of each test that was run alone, kept for later jobs.
    """
    verdict = run(job)
    while verdict.killer:
        killer = verdict.killer
        if killer not in trusted:
            alone = Job(None, [test for test in job.tests if test.id == killer])
            trusted[killer] = run(alone).outcome == "survived"
        if trusted[killer]:
            break
        job.tests = [test for test in job.tests if test.id != killer]
        verdict = run(job) if job.tests else Verdict("survived")
    return verdict


def run_items(session: pytest.Session, items: list[pytest.Item], reporter: Reporter) -> None:
    """Run tests in this order until one fails."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        reporter.started(item.nodeid)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            reporter.failed(item.nodeid)
            return
    reporter.passed()


def serve_cold(jobs: Iterator[Job], answers: int, scratch: Path) -> None:
    """Import the mutant of each job anew in a fork and answer its verdict."""
    for name in FOREIGN:
        __import__(name)
    trusted: dict[str, bool] = {}
    for job in jobs:
        answer(answers, confirmed(job, partial(_run_cold, scratch), trusted))


def _run_cold(scratch: Path, job: Job) -> Verdict:
    def action(reporter: Reporter) -> None:
        if job.point is not None:
            _import_mutant(job.point)
        files = sorted({test.id.partition("::")[0] for test in job.tests})
        if quick_tests.run(Chosen(job, reporter), files) not in {0, 1}:
            reporter.failed("")  # the mutant cannot even be imported

    return run_fork(job, action, scratch)


def _import_mutant(point: Point) -> None:
    def compiler(module: str, source: bytes) -> ast.Module:
        text = source.decode()
        return mutated(point, text) if module == point.module else ast.parse(text)

    Importer([point.module.partition("/")[0]], compiler).install()


def trace(path: Path, shard: int, shards: int) -> None:
    """Run the quick tests once and write which statements each of them runs."""
    tracer = Tracer()
    Importer(PACKAGES, tracer.instrument).install()
    recorder = Recorder(tracer, shard, shards)
    quick_tests.run(recorder)
    recorder.trace.write(path)


def answer(descriptor: int, verdict: Verdict) -> None:
    """Write a verdict as one line."""
    os.write(descriptor, json.dumps(verdict.as_json()).encode() + b"\n")


def read_jobs(descriptor: int) -> Iterator[Job]:
    """Yield jobs, one a line, until the other side closes."""
    with os.fdopen(descriptor, encoding="utf-8") as lines:
        for line in lines:
            content: dict[str, Any] = json.loads(line)
            yield Job.from_json(content)


def main(words: list[str]) -> None:
    """Trace the quick tests, or answer jobs as a warm or cold worker."""
    kind = words[0]
    scratch = Path(tempfile.mkdtemp(prefix="mutants-", dir=MEMORY if MEMORY.is_dir() else None))
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(scratch)
    jobs, answers = read_jobs(os.dup(0)), os.dup(1)
    quick_tests.silence(Path(words[1]))
    try:
        if kind == "trace":
            trace(Path(words[2]), int(words[3]), int(words[4]))
        elif kind == "warm":
            quick_tests.run(Server(jobs, answers, scratch))
        else:
            serve_cold(jobs, answers, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
