"""The client of the warm process: it starts one for this process, and asks it."""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from testing.errors import WarmError

PACKAGE: Final = __name__.rpartition(".")[0]
ROOT: Final = Path(__file__).parents[PACKAGE.count(".") + 1]
"""Folder in which the top-level package of this one lies, for the path of the new process."""
END_S: Final = 10.0
ANSWER_S: Final = 120.0
"""Bound of the wait for an answer; those that wait for nodes have bounds below it."""
_CODE: Final = (
    "import sys; root, package, descriptor = sys.argv[1:]\n"
    "if root not in sys.path: sys.path.insert(0, root)\n"
    "import importlib; importlib.import_module(package + '.warm_process').main(int(descriptor))"
)


class Warm:
    """One warm process; its nodes and folders end with it, and it ends with this process.

    It begins to import at once; the first `ask` waits for that.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONOPTIMIZE"}
        number = theirs.fileno()
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own code
                [sys.executable, "-P", "-c", _CODE, str(ROOT), PACKAGE, str(number)],
                pass_fds=[number],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C of a terminal is for the tests, not for nodes
            )
        ours.settimeout(ANSWER_S)
        self._socket = ours
        self._lines = ours.makefile("rb")
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._is_cut = False
        """An answer was not read: the next one would be taken for it."""

    @property
    def is_usable(self) -> bool:
        """True in the process that made it, while it lives and answers."""
        return self._owner == os.getpid() and not self._is_cut and self.process.poll() is None

    def ask(self, op: str, **arguments: Any) -> Any:
        """Send one request and wait for its result.

        Whatever interrupts the wait, as Ctrl-C does, ends the process with its nodes and folders.

        Raises:
            WarmError: it was refused, the process is gone or another one's, or has no answer.
        """
        if self._owner != os.getpid():
            raise WarmError("the cluster is that of the process that started it, not of a fork")
        if self._is_cut:
            raise WarmError("the warm process was ended as its answer was not waited for")
        line = json.dumps({"op": op, **arguments}).encode() + b"\n"
        with self._lock:
            try:
                self._socket.sendall(line)
                answer = self._lines.readline()
            except OSError as error:
                self._cut()
                raise WarmError(f"the warm process gave no answer: {error!r}") from error
            except BaseException:
                self._cut()
                raise
        if not answer:
            raise WarmError("the warm process is gone; its standard error says why")
        found = json.loads(answer)
        if "error" in found:
            raise WarmError(found["error"])
        return found["result"]

    def _cut(self) -> None:
        self._is_cut = True
        self._hang_up()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._socket.close()

    def close(self) -> None:
        """End the process with its nodes; their folders are gone when this returns."""
        if self._owner != os.getpid():
            return
        self._hang_up()
        self.process.wait(END_S)


_warm: Warm | None = None
_lock = threading.Lock()


def warm_up() -> Warm:
    """The warm process of this process; it is started if there is none, without waiting."""
    global _warm  # noqa: PLW0603 - one for each process is the point
    with _lock:
        if _warm is None or not _warm.is_usable:
            _warm = Warm()
            atexit.register(_warm.close)
        return _warm
