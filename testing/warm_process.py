"""The process that is kept warm: a node is imported here once, and each node is a fork of it.

It serves one socket, requests and answers as lines of JSON, one at a time:

- `ping`: `{}`, once everything is imported.
- `folder`: a new folder for a cluster.
- `start properties cluster_id log faults`: forks a node; its pid. With `faults` it has a door for
  them (node/records/fault_door.py).
- `fault pid ...` (testing/fault_rules.py): its number; `fault_hits` and `fault_end pid number`: the
  requests that it met; `faults_end pid`: ends all. A node that is gone has met none.
- `signal pid number`, `wait pid timeout_s` (`code`; null: it lives), `alive pids`.
- `remove folder`, `ready ports`, `leader ...`, `elect ...` (testing/requests.py).

When the socket ends, the process that asked is gone, also by SIGKILL: nodes are killed and folders
removed. If this process is killed, the system kills its nodes (PR_SET_PDEATHSIG, Linux).
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from testing import folders
from testing.door import Door, FaultError
from testing.errors import RefusedError

PR_SET_PDEATHSIG: Final = 1
PARENT_LOOK_S: Final = 1.0
"""A child of the parent may hold the other end of the socket for longer than the parent lives."""
WAIT_STEP_S: Final = 0.002
PRELOADED: Final = (
    0, 1, 2, 3, 10, 11, 12, 13, 14, 18, 19, 22, 43, 45, 52, 53, 55, 56, 60, 62, 63, 67,
)  # fmt: skip
"""APIs of which a new cluster and its first clients make use: 2 ms each, 40 ms together. They are
loaded once the client is idle. The first cluster does not wait for them: its nodes load what they
use, the most of it never."""


class WarmProcess:
    """The nodes and folders of one client."""

    def __init__(self) -> None:
        self._nodes: set[int] = set()
        self._ended: dict[int, int] = {}
        self._folders: dict[str, folders.OwnedFolder] = {}
        self._base = folders.base()
        folders.sweep_all()
        self._doors: dict[int, Door] = {}
        """By the node's pid, of nodes that live and have one."""
        self.inherited: list[socket.socket] = []
        self._operations: dict[str, Callable[..., Any]] = {
            "ping": dict,
            "folder": self._folder,
            "remove": self._remove,
            "start": self._start,
            "signal": self._signal,
            "wait": self._wait,
            "alive": self._alive,
            "fault": self._fault,
            "fault_hits": partial(self._ask_door, "hits"),
            "fault_end": partial(self._ask_door, "end"),
            "faults_end": partial(self._ask_door, "clear"),
        }

    def answer(self, line: bytes) -> bytes:
        """Perform one request; an error is answered, and ends nothing."""
        from testing import requests  # noqa: PLC0415 - it imports the protocol

        try:
            request = json.loads(line)
            name = request.pop("op")
            operation = self._operations.get(name) or requests.OPERATIONS[name]
            answer = {"result": operation(**request)}
        except RefusedError as error:
            answer = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - the client raises it
            answer = {"error": f"{type(error).__name__}: {error}"}
        return json.dumps(answer).encode() + b"\n"

    def end(self) -> None:
        """Kill all nodes and remove all folders."""
        for pid in self._nodes:
            os.kill(pid, signal.SIGKILL)
        for pid in self._nodes:
            os.waitpid(pid, 0)
        self._nodes.clear()
        for folder in self._folders.values():
            folder.remove()

    def _folder(self) -> str:
        made = folders.OwnedFolder(self._base)
        self._folders[str(made.path)] = made
        return str(made.path)

    def _remove(self, folder: str) -> None:
        self._folders.pop(folder).remove()

    def _start(self, properties: str, cluster_id: str, log: str, *, faults: bool) -> int:
        ours, theirs = socket.socketpair() if faults else (None, None)
        pid = os.fork()
        if pid == 0:
            doors = [door.stream for door in self._doors.values()]
            _be_node(properties, cluster_id, log, [*self.inherited, *doors], (ours, theirs))
        self._nodes.add(pid)
        if ours is not None and theirs is not None:
            theirs.close()
            self._doors[pid] = Door(ours)
        return pid

    def _fault(self, pid: int, **said: Any) -> int:
        from testing.fault_rules import rule  # noqa: PLC0415 - it imports the protocol

        if pid not in self._doors:
            raise FaultError("the node was started without faults, or has ended")
        return self._doors[pid].ask("add", fault=rule(**said))

    def _ask_door(self, op: str, pid: int, number: int = 0) -> int:
        door = self._doors.get(pid)
        return 0 if door is None else door.ask(op, number=number)

    def _signal(self, pid: int, number: int) -> bool:
        """Send a signal to a node that lives; False if it does not."""
        if not self._alive([pid]):
            return False
        os.kill(pid, number)
        return True

    def _alive(self, pids: list[int]) -> list[int]:
        """Return those of these nodes that live."""
        for pid in [pid for pid in pids if pid in self._nodes]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._nodes.remove(pid)
                if pid in self._doors:
                    self._doors.pop(pid).close()
                self._ended[pid] = os.waitstatus_to_exitcode(status)
        return [pid for pid in pids if pid in self._nodes]

    def _wait(self, pid: int, timeout_s: float) -> int | None:
        until = time.monotonic() + timeout_s
        while self._alive([pid]):
            if time.monotonic() > until:
                return None
            time.sleep(WAIT_STEP_S)
        return self._ended.get(pid)


def _be_node(
    properties: str,
    cluster_id: str,
    log: str,
    inherited: list[socket.socket],
    door: tuple[socket.socket | None, socket.socket | None],
) -> None:
    """Be a node from here on, in a process that was forked just now."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        warm = os.getppid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for one in inherited:
            one.close()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        from node.process import run_node  # noqa: PLC0415 - imported before the fork
        from node.records.fault_door import FaultDoor  # noqa: PLC0415 - as this one

        ours, theirs = door
        if ours is not None:
            ours.close()
        if os.getppid() == warm:  # else it ended before the line with prctl
            faults = None if theirs is None else FaultDoor(theirs)
            code = run_node(Path(properties), [], cluster_id, door=faults)
    except BaseException:  # noqa: BLE001 - nothing of the warm process may run here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(descriptor: int) -> None:
    """Serve the socket of the client until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client decides
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # by way of `end`
    parent = os.getppid()
    with socket.socket(fileno=descriptor) as client:
        warm = WarmProcess()
        warm.inherited.append(client)
        sys.stderr.write(folders.disk_line(os.environ) or "")
        _import_all()
        try:
            _serve(client, warm, parent)
        finally:
            warm.end()


def _import_all() -> None:
    """Import what a node and a request need, and keep it out of collections and of copies."""
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    gc.disable()
    import node.process  # noqa: F401, PLC0415 - after the lines above
    from testing import requests  # noqa: F401, PLC0415

    with contextlib.suppress(ImportError):  # not on Windows
        import uvloop  # noqa: F401, PLC0415 - each node would
    gc.freeze()


def _preload(api_keys: Iterator[int]) -> bool:
    """Load the schemas of one more API for the nodes to come; False if there is none."""
    from wire.messages import codec  # noqa: PLC0415 - imported by `_import_all`

    for api_key in api_keys:
        codec.preload(api_key)
        return True
    gc.freeze()
    return False


def _serve(client: socket.socket, warm: WarmProcess, parent: int) -> None:
    received = b""
    wait_s, unloaded = PARENT_LOOK_S, iter(PRELOADED)
    while os.getppid() == parent:
        if not select.select([client], [], [], wait_s)[0]:
            wait_s = 0 if _preload(unloaded) else PARENT_LOOK_S
            continue
        wait_s = PARENT_LOOK_S
        try:
            piece = client.recv(65536)
        except ConnectionError:
            return
        if not piece:
            return
        received += piece
        while b"\n" in received:
            line, _, received = received.partition(b"\n")
            try:
                client.sendall(warm.answer(line))
            except ConnectionError:
                return
