"""The cleaner process: runs rounds of the log cleaner beside the node, one at a time.

Rounds are Python over every record of a log: on a thread of the node they would hold up those that
serve requests. Frames go over its standard input and output: INT32 length, then msgpack of `Order`
or `Answer`. It waits for the throttle and looks for an abort between two reads; it ends with the
node, whose end closes its input.
"""

import gc
import os
import select
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol

import msgspec

from storage.cleaner.clean_job import CleanEvent, CleanJob, GroupCleaned, Progress, RoundEnded
from storage.cleaner.cleaner import clean
from storage.errors import CorruptLogError, FsyncError, OutOfSpaceError
from storage.os_vfs import OsVfs
from storage.vfs import Vfs

LENGTH: Final = struct.Struct(">i")
GC_THRESHOLD: Final = 100_000
NICE: Final = 5
"""Lower priority than that of the node, whose clients wait."""


class Begin(msgspec.Struct, frozen=True, tag=True):
    """A round, in the place of any other."""

    job: CleanJob


class Step(msgspec.Struct, frozen=True, tag=True):
    """Go on to the end of the next group; answered with one `Answer`."""

    bytes_per_second: float


class Abort(msgspec.Struct, frozen=True, tag=True):
    """End the round, and the step that runs, soon."""


class Close(msgspec.Struct, frozen=True, tag=True):
    """End the round; answered with `Closed` when its files are gone."""


class Closed(msgspec.Struct, frozen=True, tag=True):
    """The round is ended."""


class Failure(Enum):
    """The kind of an error."""

    ABORTED = "aborted"
    DAMAGE = "damage"
    SPACE = "space"
    SYNC = "sync"
    SYSTEM = "system"
    UNEXPECTED = "unexpected"


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The round failed; `number` is a position, or an errno."""

    failure: Failure
    path: str = ""
    number: int = 0
    reason: str = ""


Order = Begin | Step | Abort | Close
Answer = GroupCleaned | RoundEnded | Failed | Closed


class Reader(Protocol):
    """A pipe to read from."""

    def read(self, size: int, /) -> bytes | None:
        """At most so many bytes, at least one before the end."""
        ...

    def fileno(self) -> int:
        """Its descriptor."""
        ...


class Writer(Protocol):
    """A pipe to write to."""

    def write(self, content: bytes, /) -> int:
        """Write all of it."""
        ...

    def flush(self) -> None:
        """Let it leave."""
        ...


class Frames:
    """Frames in and out, on blocking files."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def read(self) -> bytes | None:
        """The next frame; None at the end."""
        length = self._exactly(LENGTH.size)
        return None if length is None else self._exactly(LENGTH.unpack(length)[0])

    def _exactly(self, size: int) -> bytes | None:
        content = bytearray()
        while len(content) < size:  # a pipe gives what is there
            part = self._reader.read(size - len(content))
            if not part:
                return None
            content += part
        return bytes(content)

    def write(self, message: Order | Answer) -> None:
        """Write one."""
        content = msgspec.msgpack.encode(message)
        self._writer.write(LENGTH.pack(len(content)) + content)
        self._writer.flush()

    def is_readable(self, wait_s: float) -> bool:
        """True if a frame, or the end, is there within a time. The reader does not buffer."""
        return bool(select.select([self._reader], [], [], wait_s)[0])


class CleanerProcess:
    """The loop of the process."""

    def __init__(self, vfs: Vfs, frames: Frames) -> None:
        self._vfs = vfs
        self._frames = frames
        self._decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
        self._events: Iterator[CleanEvent] = iter(())
        self._is_aborted = False
        self._is_over = False

    def run(self) -> None:
        """Take orders until the input ends."""
        while not self._is_over:
            self._take()

    def _take(self) -> None:
        """Take one order."""
        frame = self._frames.read()
        if frame is None:
            self._is_over = self._is_aborted = True
            self._close()
            return
        match self._decoder.decode(frame):
            case Begin(job):
                self._close()
                self._events, self._is_aborted = clean(self._vfs, job), False
            case Step(rate):
                self._frames.write(self._step(rate))
            case Abort():
                self._is_aborted = True
            case Close():
                self._close()
                self._frames.write(Closed())

    def _close(self) -> None:
        close = getattr(self._events, "close", None)
        if close is not None:
            close()
        self._events = iter(())

    def _step(self, bytes_per_second: float) -> Answer:
        begun_s, done_bytes = time.monotonic(), 0
        try:
            for event in self._events:
                if not isinstance(event, Progress):
                    return event
                done_bytes += event.size_bytes
                self._wait(begun_s + done_bytes / bytes_per_second - time.monotonic())
                if self._is_aborted:
                    break
        except Exception as error:  # noqa: BLE001 - top of the process: the node is told
            return failed(error)
        self._close()
        return Failed(Failure.ABORTED)

    def _wait(self, wait_s: float) -> None:
        """Wait for the throttle, and take what is there; an abort ends it."""
        end_s = time.monotonic() + max(0.0, wait_s)
        while not self._is_aborted:
            left_s = end_s - time.monotonic()
            if not self._frames.is_readable(max(0.0, left_s)):
                return
            self._take()


def failed(error: Exception) -> Failed:
    """An error as an answer."""
    match error:
        case CorruptLogError():
            return Failed(Failure.DAMAGE, error.path, error.position, error.reason)
        case OutOfSpaceError():
            return Failed(Failure.SPACE, error.path)
        case FsyncError():
            return Failed(Failure.SYNC, error.path, 0, error.reason)
        case OSError():
            path = str(error.filename or "")
            return Failed(Failure.SYSTEM, path, error.errno or 0, str(error.strerror))
        case _:
            lines = traceback.format_exception(error)
            return Failed(Failure.UNEXPECTED, "", 0, "".join(lines[-3:]).strip())


def main() -> None:
    """Run the process until the node closes its input."""
    os.nice(NICE)
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 50)
    reader = open(sys.stdin.fileno(), "rb", buffering=0)  # noqa: PTH123, SIM115
    frames = Frames(reader, sys.stdout.buffer)
    CleanerProcess(OsVfs(), frames).run()
