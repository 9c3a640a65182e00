"""Forked processes, one a mutant, with a time limit for each test and a verdict at the end."""

import json
import os
import resource
import select
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from scripts.mutation.points import Point

START_SECONDS: Final = 120.0
"""Limit for the time before the first test: the fork, and in a cold process the imports."""
TEST_SECONDS: Final = 10.0
TEST_FACTOR: Final = 8.0
"""A test may take 10 s plus 8 times its duration without a mutant; beyond that it is endless."""
MEMORY_BYTES: Final = 8 << 30
"""Limit of address space: a mutant may append for ever, and must not exhaust the machine."""
READ_BYTES: Final = 65536


@dataclass(slots=True)
class Test:
    """A test and its duration without a mutant."""

    id: str
    seconds: float


@dataclass(slots=True)
class Job:
    """A mutant and the tests that cover it, in the order to run; no point: the unchanged code."""

    point: Point | None
    tests: list[Test]
    covering: int = 0  # tests that could be run

    def as_json(self) -> dict[str, Any]:
        """Return the job as one JSON value."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Build the job from its JSON value."""
        point = content["point"]
        if point is not None:
            point = Point(**{**point, "names": tuple(point["names"])})
        tests = [Test(**test) for test in content["tests"]]
        return cls(point, tests, content["covering"])


@dataclass(slots=True)
class Verdict:
    """Outcome of the tests of one mutant."""

    outcome: str  # killed, timeout, survived; cold: the mutant has to be imported anew
    killer: str = ""  # the first test that failed or never ended; "" also if the import failed
    ran: int = 0  # tests that were started
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as one JSON value."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Reporter:
    """Channel from a fork to its parent: one line a test, one at the end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def started(self, test: str) -> None:
        """Report that a test begins."""
        self._say("started", test)

    def failed(self, test: str) -> None:
        """Report that a test has failed: the mutant is dead."""
        self._say("failed", test)

    def passed(self) -> None:
        """Report that all tests have passed."""
        self._say("passed", "")

    def _say(self, what: str, test: str) -> None:
        os.write(self._descriptor, json.dumps([what, test]).encode() + b"\n")


def run_fork(job: Job, action: Callable[[Reporter], None], scratch: Path) -> Verdict:
    """Run an action in a fork and end the fork when a test takes too long."""
    began = time.monotonic()
    here, there = os.pipe()
    folder = scratch / f"{time.monotonic_ns():x}"
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        _run_child(there, action, folder)
    os.close(there)
    try:
        verdict = _watch(here, {test.id: test.seconds for test in job.tests})
    finally:
        os.close(here)
        _end(pid)
        shutil.rmtree(folder, ignore_errors=True)
    verdict.seconds = round(time.monotonic() - began, 2)
    return verdict


def _run_child(descriptor: int, action: Callable[[Reporter], None], folder: Path) -> None:
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        action(Reporter(descriptor))
        code = 0
    finally:
        os._exit(code)


def _watch(descriptor: int, seconds: dict[str, float]) -> Verdict:
    """Follow the reports of a fork to its end; a fork that breaks off counts as a killed mutant."""
    verdict = Verdict("killed")
    deadline = time.monotonic() + START_SECONDS
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            verdict.outcome = "timeout"
            return verdict
        read = os.read(descriptor, READ_BYTES)
        if not read:
            return verdict
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            what, test = json.loads(line)
            if what != "started":
                verdict.outcome = "survived" if what == "passed" else "killed"
                verdict.killer = test
                return verdict
            verdict.killer = test
            verdict.ran += 1
            deadline = time.monotonic() + TEST_SECONDS + TEST_FACTOR * seconds.get(test, 0.0)


def _end(pid: int) -> None:
    """Kill a fork and the processes that it started."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.waitpid(pid, 0)
