"""However a run ends, no process is left; where one is, that is said and not its opposite.

`scripts/quorum` is replaced by a program that starts one process that is no node: so `up` can fail,
and `down` too.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.main import main
from jepsen import cluster
from jepsen.cluster import Cluster
from jepsen.run import HarnessError, NotUndoneError, Options, run
from jepsen.signals import Interruption

QUORUM = """
import os, signal, subprocess, sys, time
from pathlib import Path
command, folder = sys.argv[1], Path(sys.argv[3])
node = folder / "node1"
if command == "up":
    node.mkdir(parents=True)
    (node / "node.log").write_text("its output")
    (folder / "cluster.json").write_text("{}")
    idle = [sys.executable, "-c", "import time; time.sleep(60)"]
    pid = subprocess.Popen(
        idle, stdin=-3, stdout=-3, stderr=-3, start_new_session=True
    ).pid
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    (node / "node.pid").write_text(f"{pid} {started}")
AT_UP
if command == "down":
    AT_DOWN
    pid = int((node / "node.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    state = "?"
    while state not in "ZX":  # as the real one: down returns when the process is gone
        time.sleep(0.01)
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            state = "X"
"""
UP_FAILS = "    sys.exit('quorum: no leader')"
DOWN_FAILS = "sys.exit('quorum: cannot go')"


@pytest.fixture
def folder(tmp_path):
    """Of a run; its process is gone after the test."""
    yield tmp_path / "run"
    for path in tmp_path.rglob("node.pid"):
        try:
            os.kill(int(path.read_text().split()[0]), signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.fixture
def quorum(tmp_path, monkeypatch):
    """Makes the program, with lines for `up` and `down`."""

    def make(at_up=UP_FAILS, at_down="pass"):
        path = tmp_path / "quorum"
        path.write_text(QUORUM.replace("AT_UP", at_up).replace("AT_DOWN", at_down))
        monkeypatch.setattr(cluster, "SCRIPT", path)

    return make


def options(folder):
    return Options(
        workload="topic-set", nemesis=(), nodes=1, time_limit_s=1, seed=0, rate=1, concurrency=1,
        folder=folder,
    )  # fmt: skip


def pid(folder):
    return int((folder / "quorum" / "node1" / "node.pid").read_text().split()[0])


def is_gone(number):
    """True if a process ended; one that was just killed has a moment for it."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            stat = Path(f"/proc/{number}/stat").read_text()
        except OSError:
            return True
        if stat.rpartition(")")[2].split()[0] in "ZX":
            return True
    return False


def test_nobody_listens(folder, quorum):
    quorum()

    def say(line):
        if line == "stopping nodes":
            raise BrokenPipeError

    with pytest.raises(HarnessError, match="quorum: no leader"):
        run(options(folder), say)
    assert is_gone(pid(folder))
    assert (folder / "node-1.log").read_text() == "its output"


def test_output_that_cannot_be_kept(folder, quorum):
    quorum(at_up=f"    (folder.parent / 'node-1.log').mkdir()\n{UP_FAILS}")
    said = []
    with pytest.raises(HarnessError, match="no leader"):
        run(options(folder), said.append)
    assert is_gone(pid(folder))
    assert said[-1] == "node-1.log could not be written: Is a directory"


def test_nodes_that_cannot_be_stopped(folder, quorum, capsys):
    quorum(at_down=DOWN_FAILS)
    with pytest.raises(NotUndoneError) as left:
        run(options(folder), print)
    assert str(left.value) == (
        f"not everything is undone: nodes are left running: 1 (pid {pid(folder)}) (quorum down: "
        f"quorum: cannot go); scripts/quorum down --dir {folder / 'quorum'} ends nodes"
    )
    words = ["--workload", "topic-set", "--nodes", "1", "--dir", str(folder.parent / "other")]
    assert main(["jepsen", "run", *words]) == 255
    assert "undone: nodes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("at_down", "said"),
    [("pass", "history could not be closed: Bad"), (DOWN_FAILS, "not everything")],
)
def test_a_history_that_cannot_be_closed_hides_nothing(folder, quorum, at_down, said):
    quorum(at_up=UP_FAILS, at_down=at_down)

    def say(line):
        if line == "stopping nodes":
            for link in Path("/proc/self/fd").iterdir():
                if link.exists() and str(link.readlink()).startswith(str(folder / "history")):
                    os.close(int(link.name))

    with pytest.raises(HarnessError, match=said) as left:
        run(options(folder), say)
    assert isinstance(left.value, NotUndoneError) is (at_down == DOWN_FAILS)
    assert (folder / "node-1.log").read_text() == "its output"


def test_a_temporary_folder_is_kept_while_nodes_live_in_it(tmp_path, folder, quorum, monkeypatch):
    quorum(at_down=DOWN_FAILS)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(NotUndoneError):
        run(options(None), print)
    (kept,) = tmp_path.glob("kraftline-jepsen-*")
    assert not (kept / "node-1.log").is_dir()
    assert Cluster(kept / "quorum", 1, 11_000).left() == {1: pid(kept)}


def test_a_pid_of_an_older_process_is_no_node(tmp_path):
    file = tmp_path / "node1" / "node.pid"
    file.parent.mkdir()
    for content in (f"{os.getpid()} 1", "damaged", f"{os.getpid()}"):
        file.write_text(content)
        assert Cluster(tmp_path, 1, 11_000).left() == {}


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_signals(folder, quorum, name):
    """At first, and once more while everything is undone."""
    send = f"os.kill(os.getppid(), signal.{name})"
    quorum(at_up=f"    {send}", at_down=send)
    with pytest.raises(KeyboardInterrupt):
        run(options(folder), print)
    assert is_gone(pid(folder))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_outside_of_the_loop_interrupts_too():
    interruption = Interruption()

    def deliver(number):
        signal.raise_signal(number)
        while not interruption.came:
            pass

    with interruption.handled():
        with pytest.raises(KeyboardInterrupt):
            deliver(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # does not disturb what is undone now
    assert interruption.came


def test_a_signal_while_things_are_undone_is_not_forgotten():
    interruption = Interruption()

    async def undone():
        task = asyncio.create_task(asyncio.sleep(0))
        with interruption.cancels(task):
            await task
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
        return task.cancelled()

    with interruption.handled():
        assert not asyncio.run(undone())
    assert interruption.came


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT"])
def test_what_a_process_was_started_to_ignore_stays_ignored(name):
    """By `nohup`, or by `&` in a script."""
    code = (
        "import os, signal; from jepsen.signals import Interruption\n"
        f"with Interruption().handled(): os.kill(os.getpid(), signal.SIG{name})\n"
    )
    words = ["sh", "-c", f'trap "" {name}; exec "$0" -c "$1"', sys.executable, code]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
