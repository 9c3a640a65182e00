"""Processes of nodes: start, recognise, signal; who holds a port or a folder. Linux /proc."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from scripts.launcher.layout import HOST, Cluster, NodePlan, format_flags
from scripts.launcher.refusal import RefusalError

PID_FILE = "node.pid"
LOG_FILE = "node.log"
POLL_SECONDS = 0.02
TCP_LISTEN = "0A"
FREE_BYTES_MIN = 16 * 1024 * 1024
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def start_node(
    cluster: Cluster, node: NodePlan, python: Path, root: Path
) -> "subprocess.Popen[bytes]":
    """Start the process of a node, in a session of its own, output to its log."""
    folder = cluster.node_folder(node.id)
    command = [
        str(python), "-m", "cli.main", "server", "start", str(folder / "server.properties"),
        "--format", cluster.cluster_id, *format_flags(cluster, node),
    ]  # fmt: skip
    with (folder / LOG_FILE).open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
    try:
        text = f"{process.pid} {start_time(process.pid)}\n"
        (folder / PID_FILE).write_text(text, encoding="ascii")
    except (OSError, KeyboardInterrupt):  # nobody would find it again
        process.kill()
        process.wait()
        raise
    return process


def running_pid(cluster: Cluster, node_id: int) -> int | None:
    """The pid of a node's process if it runs; the same pid of a later process does not count."""
    try:
        words = (cluster.node_folder(node_id) / PID_FILE).read_text(encoding="ascii").split()
        pid, started = int(words[0]), int(words[1])
    except (OSError, ValueError, IndexError):
        return None
    # A start time of 0 says that the process was gone before it could be looked at.
    return pid if started and start_time(pid) == started else None


def start_time(pid: int) -> int:
    """Start of a living process in clock ticks since boot, 0 if there is none (or a zombie)."""
    fields = _stat_fields(pid)
    return 0 if not fields or fields[0] in ("Z", "X") else int(fields[19])


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has taken, 0 if there is none."""
    fields = _stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND if fields else 0.0


def is_awake(cluster: Cluster, node_id: int) -> bool:
    """True if a node's process runs and can answer."""
    pid = running_pid(cluster, node_id)
    return pid is not None and not is_paused(pid)


def is_paused(pid: int) -> bool:
    """True if SIGSTOP holds the process."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] == "T"


def _stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name, state first; empty if there is no process."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return content[content.rindex(")") + 2 :].split()


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that is gone meanwhile is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_gone(pids: list[int], seconds: float) -> list[int]:
    """Wait until the processes are gone; gives those that are still there."""
    deadline = time.monotonic() + seconds
    left = [pid for pid in pids if start_time(pid)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        left = [pid for pid in left if start_time(pid)]
    return left


def check_ports(nodes: list[NodePlan]) -> None:
    """Refuse when something listens where a node wants to."""
    for node in nodes:
        for port in node.ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError as error:
                    owner = port_owner(port)
                    by = f" by {owner}" if owner else ""
                    raise RefusalError(
                        f"port {port} of node {node.id} is taken{by} ({error.strerror}); "
                        "other ports: quorum up --base-port"
                    ) from error


def port_owner(port: int) -> str | None:
    """Process that listens at a port, as `name (pid N)`; None where that cannot be told."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            inodes |= listening_inodes(Path(table).read_text(encoding="ascii"), port)
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or of another user
            if any(str(link.readlink()) in wanted for link in (process / "fd").iterdir()):
                name = (process / "comm").read_text(encoding="utf-8").strip()
                return f"{name} (pid {process.name})"
    return None


def listening_inodes(table: str, port: int) -> set[str]:
    """Inodes of the sockets that listen at a port, from the text of /proc/net/tcp."""
    found = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] == TCP_LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            found.add(fields[9])
    return found


def check_folder_free(cluster: Cluster, node: NodePlan) -> None:
    """Refuse a folder that a running node holds (`.lock`, POSIX record lock, as Kafka's)."""
    path = cluster.data_folder(node.id) / ".lock"
    try:
        lock = path.open("r+b")
    except (FileNotFoundError, NotADirectoryError):
        return
    with lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _lock_holder(path)
            by = f" (pid {holder})" if holder else ""
            raise RefusalError(f"{path.parent} is locked by a running node{by}") from error


def _lock_holder(path: Path) -> str | None:
    inode = str(path.stat().st_ino)
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if len(fields) > 5 and fields[5].rpartition(":")[2] == inode:
                return fields[4]
    return None


def check_disk(folder: Path) -> None:
    """Refuse to start on a full disk."""
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if free < FREE_BYTES_MIN:
        raise RefusalError(f"disk full: {free} bytes are free in {folder}")


def last_log_line(cluster: Cluster, node_id: int) -> str:
    """The last line a node wrote, for a message."""
    try:
        content = (cluster.node_folder(node_id) / LOG_FILE).read_bytes()[-8192:]
    except OSError:
        return ""
    lines = content.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
