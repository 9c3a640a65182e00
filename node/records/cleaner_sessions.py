"""Sessions of rounds in cleaner processes: one process for each thread of `log.cleaner.threads`.

A process is started by the first round of its thread, and again by the next one after it died. It
ends with the node: its input is closed then, whatever the end.
"""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

import msgspec

from node.records.cleaner_process import (
    Abort,
    Answer,
    Begin,
    CleanerProcess,
    Close,
    Closed,
    Failed,
    Failure,
    Frames,
    Order,
    Step,
)
from storage.cleaner.clean_job import CleanJob, GroupCleaned, RoundEnded
from storage.cleaner.session import (
    CleanerDiedError,
    RoundAbortedError,
    UnexpectedCleanerError,
)
from storage.errors import CorruptLogError, FsyncError, OutOfSpaceError

COMMAND: Final = f"from {CleanerProcess.__module__} import main; main()"


class Process:
    """A cleaner process that runs."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(  # noqa: S603 - of this program
            [sys.executable, "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # an interrupt of the terminal is that of the node
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._frames = Frames(self._process.stdout, self._process.stdin)
        self._writing = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(Answer)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def tell(self, order: Order) -> None:
        """Write an order; any thread. One to a dead process is lost."""
        with self._writing, suppress(OSError, ValueError):
            self._frames.write(order)

    def ask(self, order: Order) -> Answer:
        """Write an order and wait for its answer.

        Raises:
            CleanerDiedError: there is none.
        """
        self.tell(order)
        frame = self._frames.read()
        if frame is None:
            raise CleanerDiedError(f"the cleaner process ended with code {self._process.wait()}")
        answer: Answer = self._decoder.decode(frame)
        return answer

    def close(self) -> None:
        """Close its input, which ends it, and wait for that."""
        with suppress(OSError):
            self._process.communicate()


class ProcessSession:
    """A round in the process of a thread.

    Args:
        processes: of the threads.
        thread: name of the thread.
        job: the round.
    """

    def __init__(self, processes: "CleanerProcesses", thread: str, job: CleanJob) -> None:
        self._processes = processes
        self._thread = thread
        self._job = job
        self._process: Process | None = None
        self._is_aborted = False

    def step(self, bytes_per_second: float) -> GroupCleaned | RoundEnded:
        """As `CleanSession.step`."""
        if self._process is None:
            self._process = self._processes.process(self._thread)
            self._process.tell(Begin(self._job))
        if self._is_aborted:
            raise RoundAbortedError
        try:
            answer = self._process.ask(Step(bytes_per_second))
        except CleanerDiedError:
            self._processes.died(self._thread)
            self._process = None
            raise
        if isinstance(answer, GroupCleaned | RoundEnded):
            return answer
        assert isinstance(answer, Failed), f"{answer=}"
        raise _error(answer)

    def abort(self) -> None:
        """As `CleanSession.abort`."""
        self._is_aborted = True
        process = self._process
        if process is not None:
            process.tell(Abort())

    def close(self) -> None:
        """As `CleanSession.close`."""
        if self._process is None:
            return
        try:
            answer = self._process.ask(Close())
            assert isinstance(answer, Closed), f"{answer=}"
        except CleanerDiedError:
            self._processes.died(self._thread)
        self._process = None


class CleanerProcesses:
    """The processes of one node, by thread; each is used by the lane of its thread alone."""

    def __init__(self) -> None:
        self.running: dict[str, Process] = {}

    def open(self, thread: str, job: CleanJob) -> ProcessSession:
        """Make a session of a round."""
        return ProcessSession(self, thread, job)

    def process(self, thread: str) -> Process:
        """The process of a thread, started if it is not running.

        Raises:
            CleanerDiedError: it cannot be started.
        """
        if thread not in self.running:
            try:
                self.running[thread] = Process()
            except OSError as error:
                raise CleanerDiedError(f"no cleaner process can be started: {error}") from error
        return self.running[thread]

    def died(self, thread: str) -> None:
        """Leave a process that is gone."""
        process = self.running.pop(thread, None)
        if process is not None:
            process.close()

    def close(self) -> None:
        """End all processes."""
        for thread in list(self.running):
            self.died(thread)


def _error(answer: Failed) -> Exception:
    match answer.failure:
        case Failure.ABORTED:
            return RoundAbortedError()
        case Failure.DAMAGE:
            return CorruptLogError(answer.path, answer.number, answer.reason)
        case Failure.SPACE:
            return OutOfSpaceError(answer.path)
        case Failure.SYNC:
            return FsyncError(answer.path, answer.reason)
        case Failure.SYSTEM:
            return OSError(answer.number, answer.reason, answer.path)
        case Failure.UNEXPECTED:
            return UnexpectedCleanerError(answer.reason)
