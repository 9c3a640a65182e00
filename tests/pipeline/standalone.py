"""A standalone Spark cluster on loopback; jobs as processes that a test watches and disturbs."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
_POLL_SECONDS = 0.01
_WAIT_SECONDS = 900
_RUNNING = re.compile(r"Running task (\S+) in stage (\d+)\.\d+ \(TID (\d+)\)")
_FINISHED = re.compile(r"Finished task (\S+) in stage (\d+)\.\d+ \(TID (\d+)\)")


def spark_home() -> Path:
    """Folder of pyspark; looked up late, because the quick tests are collected without it."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


class Tasks(NamedTuple):
    """Tasks by the logs of executors so far.

    Args:
        running: stage of each, by its application and its number, which is unique only in there.
        finished: how many, of all applications.
    """

    running: dict[tuple[str, int], int]
    finished: int

    def in_stage(self, stage: int) -> bool:
        return any(one >= stage for one in self.running.values())


def tasks_of(folder: Path) -> Tasks:
    """The tasks of the executors that a worker, whose folder this is, has started."""
    started: dict[tuple[str, int], int] = {}
    ended: set[tuple[str, int]] = set()
    for log in sorted(folder.glob("app-*/*/stderr")):
        application, text = log.parent.parent.name, log.read_text(errors="replace")
        started |= {(application, int(one[3])): int(one[2]) for one in _RUNNING.finditer(text)}
        ended |= {(application, int(one[3])) for one in _FINISHED.finditer(text)}
    return Tasks({key: stage for key, stage in started.items() if key not in ended}, len(ended))


class Worker(NamedTuple):
    """A worker; its executors and their Python workers are children in its process group."""

    process: subprocess.Popen[bytes]
    folder: Path

    def tasks(self) -> Tasks:
        return tasks_of(self.folder)

    def dies_while(self, is_so: Callable[[], bool]) -> bool:
        """Kill it if this holds while it stands still; else it goes on, and False."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        if is_so():
            self.kill()
            return True
        os.killpg(self.process.pid, signal.SIGCONT)
        return False

    def kill(self) -> None:
        """As if the machine lost power: nobody on it gets to say a word."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """A master and its workers, of one core each."""

    def __init__(self, folder: Path) -> None:
        self.workers: list[Worker] = []
        self._folder = folder
        folder.mkdir(parents=True)
        log = folder / "master.log"
        self._processes = [_daemon(log, "master.Master")]
        self.url = _wait_for(self._processes[0], log, r"Starting Spark master at (spark://\S+)")

    def add_worker(self) -> None:
        """One more, registered when this returns."""
        number = len(self.workers)
        home, log = self._folder / f"worker-{number}", self._folder / f"worker-{number}.log"
        process = _daemon(
            log, "worker.Worker", "--cores", "1", "--memory", "600m", "--work-dir", str(home),
            self.url,
        )  # fmt: skip
        self._processes.append(process)
        _wait_for(process, log, "Successfully registered with master")
        self.workers.append(Worker(process, home))

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster that is gone at the end."""
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()


def _daemon(log: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "128m",
                                "SPARK_HOME": str(spark_home())}  # fmt: skip
    with log.open("wb") as sink:
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments],
            stdout=sink, stderr=sink, env=environment, start_new_session=True,
        )  # fmt: skip


def _wait_for(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    found: list[re.Match[str]] = []

    def is_there() -> bool:
        found.extend(re.finditer(pattern, log.read_text(errors="replace")))
        return bool(found)

    assert wait_until(process, is_there), log.read_text(errors="replace")
    return found[0][found[0].re.groups]


def wait_until(process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> bool:
    """Wait for a condition; False if the process ends before it."""
    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        if is_so():
            return True
        try:
            process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return False
    raise AssertionError(f"nothing happened in {_WAIT_SECONDS} s")


class Job:
    """A job in a process of its own, stderr kept."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=sink, start_new_session=True,
                env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            )  # fmt: skip

    def end(self) -> int:
        """The exit code; a job that hangs is killed."""
        try:
            return self.process.wait(_WAIT_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def errors(self) -> str:
        return self.log.read_text(errors="replace")


def command_line(*arguments: str) -> list[str]:
    """A job as a person starts it."""
    return [sys.executable, "-m", "pipeline.cli", *arguments]


def submitted(master: str, conf: dict[str, str], *arguments: str) -> list[str]:
    """The same job through spark-submit."""
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return [
        str(spark_home() / "bin" / "spark-submit"), "--master", master, *settings,
        str(ROOT / "pipeline" / "cli.py"), *arguments,
    ]  # fmt: skip
