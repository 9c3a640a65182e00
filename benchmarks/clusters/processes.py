"""Processes of this machine (Linux /proc): listeners on ports, memory and CPU time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LISTENING = "0A"


def resident_mb(pid: int) -> float:
    """Resident set of a process in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)


def cpu_seconds(pid: int) -> float:
    """User and system time used by a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def waited_seconds() -> float:
    """Time for which the calling thread was ready to run and had no core."""
    _, waited_ns, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(waited_ns) / 1e9


def listener_pid(address: str) -> int:
    """The local process that listens on the port of `host:port`.

    Raises:
        ProcessLookupError: no process does, or it belongs to another user.
    """
    port = int(address.rsplit(":", 1)[1])
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if not sockets.isdisjoint(_descriptors(folder)):
            return int(folder.parent.name)
    raise ProcessLookupError(f"no process of this machine listens on port {port}")


def _descriptors(folder: Path) -> Iterator[str]:
    """Files and sockets that a process has open; none of a process that is gone or not ours.

    A process that starts opens and closes files all the time: a descriptor that is closed since it
    was listed says nothing about the others.
    """
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            yield str(entry.readlink())


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENING and int(words[1].rsplit(":", 1)[1], 16) == port:
                found.add(words[9])
    return found
