"""History of a run, written while it happens: every event is in the files before the next.

`history.jsonl` is the canonical file, `history.msgpack` holds the same, `nemesis.jsonl` the faults
alone. A killed harness leaves a readable prefix; readers leave out a torn last line.
"""

import contextlib
import time
from pathlib import Path
from typing import Any, Final

from jepsen.linearizability import Event, Format, History, written_history
from jepsen.linearizability.history import INFO, INVOKE

NEMESIS: Final = "nemesis"
JSONL_FILE: Final = "history.jsonl"
MSGPACK_FILE: Final = "history.msgpack"
NEMESIS_FILE: Final = "nemesis.jsonl"


class Recorder:
    """Appends events; times are nanoseconds of the monotonic clock since the run began."""

    def __init__(self, folder: Path) -> None:
        """Open the files, emptied.

        Args:
            folder: Folder of the files; it exists.
        """
        self._started_ns = time.monotonic_ns()
        self._jsonl = (folder / JSONL_FILE).open("wb", buffering=0)
        self._msgpack = (folder / MSGPACK_FILE).open("wb", buffering=0)
        self._nemesis = (folder / NEMESIS_FILE).open("wb", buffering=0)
        self.events: Final[list[Event]] = []

    def invoke(self, process: int, f: str, value: Any, **extra: Any) -> int:
        """Record a call before its first byte is sent; return the index for `complete`."""
        event = self._event(process, INVOKE, f, value, None, extra)
        self._write(event)
        return len(self.events) - 1

    def complete(
        self, index: int, kind: str, value: Any, error: str | None = None, **found: Any
    ) -> None:
        """Record that the whole response was parsed, or that there will be none.

        Args:
            index: Result of `invoke`.
            kind: `ok`, `fail` or `info`.
            value: Value of the completion.
            error: Reason for a failure or an unknown outcome.
            found: Further fields of the completion alone.
        """
        invoked = self.events[index]
        extra = {**invoked.extra, "pair": index, **found}
        self._write(self._event(invoked.process, kind, invoked.f, value, error, extra))

    def fault(self, f: str, value: Any, error: str | None = None) -> None:
        """Record an action of the nemesis, also a failed one."""
        event = self._event(NEMESIS, INFO, f, value, error, {})
        self._write(event)
        self._nemesis.write(written_history([event], Format.JSONL))

    def note(self, process: str, f: str, value: Any) -> None:
        """Record what befell somebody who is no client: it is not judged as an operation."""
        self._write(self._event(process, INFO, f, value, None, {}))

    def now_ns(self) -> int:
        """Time of the events, now."""
        return self.since_start_ns(time.monotonic_ns())

    def since_start_ns(self, monotonic_ns: int) -> int:
        """Time of the events at a time of the monotonic clock, which all processes share."""
        return monotonic_ns - self._started_ns

    def history(self) -> History:
        """History so far."""
        return History(self.events, source=JSONL_FILE)

    def close(self) -> None:
        """Close all files, also after one reports that it could not be written.

        Raises:
            OSError: one reports so.
        """
        with contextlib.ExitStack() as files:
            for file in (self._jsonl, self._msgpack, self._nemesis):
                files.callback(file.close)

    def _event(
        self,
        process: int | str,
        kind: str,
        f: str,
        value: Any,
        error: str | None,
        extra: dict[str, Any],
    ) -> Event:
        return Event(
            process=process,
            type=kind,
            f=f,
            value=value,
            index=len(self.events),
            time=self.now_ns(),
            error=error,
            extra=extra,
        )

    def _write(self, event: Event) -> None:
        self.events.append(event)
        self._jsonl.write(written_history([event], Format.JSONL))
        self._msgpack.write(written_history([event], Format.MSGPACK))
