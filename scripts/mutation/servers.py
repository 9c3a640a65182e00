"""Worker processes that judge mutants."""

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts.mutation.forks import Job, Verdict
from scripts.mutation.modules import ROOT


class WorkerError(Exception):
    """A worker process that has ended; its log has the reason."""


def start_worker(kind: str, log: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a process of worker.py; the fixed hash seed gives sets one order."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("KRAFTLINE_REQUIRE_PEERS", None)
    log.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.mutation.worker", kind, str(log), *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class Servers:
    """A warm worker and a cold one, each started at its first job."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._running: dict[str, subprocess.Popen[str]] = {}

    def ask(self, job: Job, *, cold: bool) -> Verdict:
        """Return the verdict of a worker on a mutant."""
        if not job.tests:
            return Verdict("survived")
        verdict = self._ask("cold" if cold else "warm", job)
        return self._ask("cold", job) if verdict.outcome == "cold" else verdict

    def close(self) -> None:
        """End the workers."""
        for process in self._running.values():
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def _ask(self, kind: str, job: Job) -> Verdict:
        log = self._folder / f"{kind}-{self._name}.log"
        if kind not in self._running:
            self._running[kind] = start_worker(kind, log)
        process = self._running[kind]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job.as_json()) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise WorkerError(f"the {kind} worker has ended, see {log}")
        return Verdict(**json.loads(answer))
