"""Members of groups as processes of the run; what they tell goes into the history at once."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any, Final

from jepsen.cluster import ROOT
from jepsen.groups.names import KILLED, LEFT, PAUSED, RESUMED, STARTED
from jepsen.history import Recorder

LINE_BYTES_MAX: Final = 1024 * 1024
LEAVE_S: Final = 20.0


class Member:
    """A running member of a group."""

    def __init__(self, recorder: Recorder, errors: Path, group: str, number: int) -> None:
        """Start nothing yet.

        Args:
            recorder: Takes what it tells.
            errors: File for its standard error, shared with others.
            group: The group's id.
            number: Among all members that this group ever had.
        """
        self.group: Final = group
        self.name: Final = f"{group}/{number}"
        self._recorder = recorder
        self._errors = errors
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self.is_paused = False

    async def start(
        self, bootstrap: str, protocol: str, topics: tuple[str, ...], *, ahead: int
    ) -> None:
        """Start the process, which commits so many records more than it has read."""
        words = (bootstrap, self.group, protocol, str(ahead), *topics)
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", f"{__package__}.member", *words,
                cwd=ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=errors, limit=LINE_BYTES_MAX, start_new_session=True,
            )  # fmt: skip
        self._listening = asyncio.create_task(self._listen(self._process))
        self._note(STARTED)

    @property
    def is_alive(self) -> bool:
        """True until its process ends."""
        return self._process is not None and self._process.returncode is None

    async def leave(self) -> None:
        """Let it leave its group; one that does not end in time is killed."""
        self.resume()
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._ended()
        except TimeoutError:
            await self.kill()
        else:
            self._note(LEFT)

    async def kill(self) -> None:
        """Send SIGKILL; all that it told is in the history on return."""
        self._send(signal.SIGKILL)
        await self._ended()
        self._note(KILLED)

    def pause(self) -> None:
        """Send SIGSTOP."""
        self._send(signal.SIGSTOP)
        self.is_paused = True
        self._note(PAUSED)

    def resume(self) -> None:
        """Send SIGCONT, if it is paused."""
        if self.is_paused:
            self.is_paused = False
            self._note(RESUMED)
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None, "it was started"
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _ended(self) -> None:
        assert self._process is not None, "it was started"
        assert self._listening is not None, "it was started"
        await self._process.wait()
        await asyncio.shield(self._listening)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if not line.endswith(b"\n"):
                return  # torn by a kill
            event: dict[str, Any] = json.loads(line)
            for name in ("at", "began"):
                if name in event:
                    event[name] = self._recorder.since_start_ns(event[name])
            self._recorder.note(self.name, event.pop("f"), {"group": self.group, **event})

    def _note(self, f: str) -> None:
        at = self._recorder.now_ns()
        self._recorder.note(self.name, f, {"group": self.group, "at": at})
