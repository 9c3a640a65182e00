"""A round that someone runs, step by step, for the broker that owns the log."""

from collections.abc import Callable, Iterator
from typing import Protocol

from storage.cleaner.clean_job import CleanEvent, CleanJob, GroupCleaned, Progress, RoundEnded
from storage.cleaner.cleaner import clean
from storage.vfs import Vfs


class RoundAbortedError(Exception):
    """The round was aborted; it left nothing."""


class CleanerDiedError(Exception):
    """Whoever ran the round is gone, with it; it may have left `.cleaned` files."""


class UnexpectedCleanerError(Exception):
    """The round failed for no reason that is known: an error of the program."""


class CleanSession(Protocol):
    """One round. `step` and `close` run in a lane, one at a time; `abort` on any thread."""

    def step(self, bytes_per_second: float) -> GroupCleaned | RoundEnded:
        """Run it up to the end of the next group, or to its own, not faster than that.

        Raises:
            CorruptLogError: a segment is damaged. So for `OutOfSpaceError`, `OSError` and
                `FsyncError` of its disk.
            RoundAbortedError: `abort` was called.
            CleanerDiedError: it cannot go on.
            UnexpectedCleanerError: an error of the program.
        """
        ...

    def abort(self) -> None:
        """Let the step that runs end soon."""
        ...

    def close(self) -> None:
        """End it; what is not told of is removed."""
        ...


OpenSession = Callable[[str, CleanJob], CleanSession]
"""Makes a session of a round for the thread of this name; it begins with its first step."""


class InlineSession:
    """A session in the process of the broker, without a throttle.

    Args:
        vfs: the disk.
        job: the round.
    """

    def __init__(self, vfs: Vfs, job: CleanJob) -> None:
        self._events: Iterator[CleanEvent] = clean(vfs, job)
        self._is_aborted = False

    def step(self, _bytes_per_second: float) -> GroupCleaned | RoundEnded:
        """As `CleanSession.step`."""
        for event in self._events:
            if self._is_aborted:
                break
            if not isinstance(event, Progress):
                return event
        self.close()
        raise RoundAbortedError

    def abort(self) -> None:
        """As `CleanSession.abort`."""
        self._is_aborted = True

    def close(self) -> None:
        """As `CleanSession.close`."""
        self._events.close()  # type: ignore[attr-defined]
