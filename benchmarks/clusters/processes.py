"""Processes of this machine (Linux /proc): listeners on ports, memory and CPU time."""

import os
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


def listener_pid(address: str) -> int:
    """The local process that listens on the port of `host:port`.

    Raises:
        ProcessLookupError: no process does, or it belongs to another user.
    """
    port = int(address.rsplit(":", 1)[1])
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            targets = {str(entry.readlink()) for entry in folder.iterdir()}
        except OSError:
            continue  # gone, or not ours
        if targets & sockets:
            return int(folder.parent.name)
    raise ProcessLookupError(f"no process of this machine listens on port {port}")


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTENING and int(words[1].rsplit(":", 1)[1], 16) == port:
                found.add(words[9])
    return found
