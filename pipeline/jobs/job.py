"""Common parts of all jobs: configuration, result, publishing and progress.

A job writes into a folder that nobody reads and is published by renames at its very end, so a
failed run leaves nothing half-published:

    OUTPUT/_tmp/RUN_ID/...   while the job runs
    OUTPUT/...               after it, with run.json and, last of all, the empty file _SUCCESS
"""

import errno
import fcntl
import json
import os
import platform
import re
import resource
import shutil
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import msgspec

from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.split import Split
from pipeline.core.stage import AUTO, EngineChoice

SUCCESS_NAME: Final = "_SUCCESS"
RUN_NAME: Final = "run.json"
TEMPORARY_NAME: Final = "_tmp"
_LOCK_SUFFIX: Final = ".lock"
PROGRESS_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.2  # between two looks at the tasks that failed
_ERRORS_MAX: Final = 100  # tasks of a stage whose errors are read
_FILE_ERROR: Final = re.compile(r"^\w+Error: \[Errno (\d+)\] (.+): '(.+)'$", re.MULTILINE)
_FINAL_ERRNOS: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS}
)
"""Of files that another attempt would not find otherwise; a failed disk is the worker's alone."""
_MODULE_ERROR: Final = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a job; `arguments` has the job's own flags."""

    inputs: tuple[str, ...]
    output: str | None
    run_id: str
    engine: str = AUTO  # one of `stage.ENGINES`
    master: str | None = None  # as `pipeline.session` takes it
    conf: dict[str, str] = {}  # for Spark, beside the session's own settings
    as_json: bool = False
    dry_run: bool = False
    overwrite: bool = False
    verbose: bool = False  # what Spark itself writes
    arguments: Namespace = Namespace()  # never written to

    def session(self, job: str) -> Any:
        """Return the Spark session of the run, made at the first call.

        Raises:
            BadInputError: Spark or Java is missing.
        """
        import pipeline  # noqa: PLC0415  # the package imports this module's siblings
        from pipeline.spark_session import make_session, without_noise  # noqa: PLC0415

        with without_noise(verbose=self.verbose):
            spark = make_session(f"kraftline {job}", self.master, self.conf)
        if not self.verbose:
            spark.sparkContext.setLogLevel("OFF")
        return pipeline.register(spark)


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a job: rows per table and counters; findings decide the exit code.

    `bypassed` names what was left out or read around without a loss; `engine` is None where
    nothing was run.
    """

    tables: dict[str, int] = {}
    counters: dict[str, int] = {}
    findings: int = 0
    bypassed: tuple[str, ...] = ()
    engine: EngineChoice | None = None


@contextmanager
def publishing(config: JobConfig, inputs: Sequence[Split] = ()) -> Iterator["Publication"]:
    """Yield a folder to write into; its entries appear in the output if the block succeeds.

    Folders of killed runs are removed.

    Args:
        config: configuration of the run; `output` must be given.
        inputs: splits that are read, for run.json.

    Raises:
        BadInputError: the output is missing, cannot be one, lies in a log directory, or holds a
            finished run and `overwrite` is not set.
    """
    output = usable_output(config, inputs)
    if (output / SUCCESS_NAME).exists() and not config.overwrite:
        raise BadInputError(f"{output} holds a finished run; name another folder or --overwrite")
    temporary = output / TEMPORARY_NAME
    temporary.mkdir(parents=True, exist_ok=True)
    _remove_dead(temporary)
    folder = temporary / config.run_id
    lock = temporary / f"{config.run_id}{_LOCK_SUFFIX}"
    with _alive(lock):
        folder.mkdir(exist_ok=False)
        publication = Publication(folder, config, inputs)
        try:
            yield publication
            publication.publish(output)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink()
            if not any(temporary.iterdir()):
                temporary.rmdir()


def usable_output(config: JobConfig, inputs: Sequence[Split]) -> Path:
    """The output of a run, which need not exist yet.

    Raises:
        BadInputError: it is missing, no directory, or lies in a log directory that is read: Kafka
            does not start with a foreign directory there.
    """
    if config.output is None:
        raise BadInputError("--output is missing")
    return usable_folder("--output", config.output, inputs)


def usable_folder(flag: str, folder: str, inputs: Sequence[Split]) -> Path:
    """A folder that a flag names for writing, which need not exist yet.

    Raises:
        BadInputError: it is no directory, or lies in a log directory that is read.
    """
    output = Path(folder)
    place = output.resolve()
    for home in {split.file.log_directory for split in inputs}:
        directory = Path(home).resolve()
        if directory == place or directory in place.parents:
            raise BadInputError(
                f"{flag} {output} lies in the log directory {home}; nothing is written into what"
                " is read"
            )
    there = next(one for one in (place, *place.parents) if one.exists())
    if not there.is_dir():
        raise BadInputError(f"{output}: Not a directory")
    return output


@contextmanager
def _alive(lock: Path) -> Iterator[None]:
    """Hold the lock file of a live run; the system releases it if the process dies."""
    hidden = lock.with_name(f".{lock.name}")
    with hidden.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        hidden.rename(lock)
        yield


def _remove_dead(temporary: Path) -> None:
    """Remove the folders of dead runs."""
    for lock in temporary.glob(f"*{_LOCK_SUFFIX}"):
        try:
            with lock.open("r+") as file:  # network file systems lock what is open to write
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(temporary / lock.name.removesuffix(_LOCK_SUFFIX), ignore_errors=True)
                lock.unlink()
        except (BlockingIOError, FileNotFoundError):
            continue  # running, or just ended


class Publication:
    """Folder of a run; `result` must be set before the block ends."""

    def __init__(self, folder: Path, config: JobConfig, inputs: Sequence[Split]) -> None:
        self.folder = folder
        self.result: JobResult | None = None
        self._config = config
        self._inputs = inputs
        self._started = time.monotonic()

    def seal(self) -> None:
        """Complete the folder: nothing in it changes after that."""
        assert self.result is not None
        for left_over in self.folder.rglob(".*.tmp"):
            left_over.unlink()  # of a task that was killed and ran again
        (self.folder / RUN_NAME).write_text(json.dumps(self._run(), indent=1) + "\n")

    def publish(self, output: Path) -> None:
        """Rename everything into place, `_SUCCESS` last.

        Raises:
            BadInputError: another run has finished first, and `overwrite` is not set.
        """
        self.seal()
        if (output / SUCCESS_NAME).exists() and not self._config.overwrite:
            raise BadInputError(f"{output}: another run has finished meanwhile")
        (output / SUCCESS_NAME).unlink(missing_ok=True)
        for entry in sorted(self.folder.iterdir()):
            target = output / entry.name
            if target.is_dir():
                shutil.rmtree(target)
            entry.rename(target)
        (output / SUCCESS_NAME).touch()

    def _run(self) -> dict[str, Any]:
        assert self.result is not None
        engine = self.result.engine
        sizes = {split.file.path: split.frozen_size for split in self._inputs}
        return {
            "run_id": self._config.run_id,
            "paths": [os.path.abspath(path) for path in self._config.inputs],  # noqa: PTH100
            "inputs": [{"path": path, "frozen_size": size} for path, size in sizes.items()],
            "versions": {name: _version(name) for name in ("kraftline", "pyspark", "pyarrow")}
            | {"python": platform.python_version()},
            "tables": self.result.tables,
            "counters": self.result.counters,
            "findings": self.result.findings,
            "bypassed": self.result.bypassed,
            "engine": None if engine is None else {"name": engine.name, "reason": engine.reason},
            "seconds": round(time.monotonic() - self._started, 3),
        }


class Progress:
    """Progress of a run: tasks, planned bytes, seconds left. Only the last can fall."""

    def __init__(self, planned_bytes: int, tasks: int = 0, spark: Any = None) -> None:
        self._planned_bytes = planned_bytes
        self._tasks = tasks
        self._stages = None if spark is None else _Stages(spark)
        self._done = 0
        self._bytes = 0

    def step(self, size: int) -> None:
        """Count a task of so many planned bytes as done in this process."""
        self._done += 1
        self._tasks = max(self._tasks, self._done)  # buckets of a history are not known before
        self._bytes += size

    def figures(self) -> tuple[int, int, int]:
        """Return tasks done, tasks known so far, and planned bytes done."""
        if self._stages is not None:
            self._done, total = self._stages.tasks()
            self._tasks = max(self._tasks, total)
            share = self._done / self._tasks if self._tasks else 0.0
            self._bytes = max(self._bytes, int(self._planned_bytes * share))
        return self._done, self._tasks, self._bytes

    def found_damage(self) -> tuple[str, ...]:
        """Words of a task of Spark's that met bad data, else nothing; `cancel` ends the others."""
        reason = None if self._stages is None else self._stages.found_damage()
        return () if reason is None else (reason,)

    def cancel(self) -> None:
        """End Spark's work."""
        if self._stages is not None:
            self._stages.cancel()

    def line(self, seconds: float, *, as_json: bool) -> str:
        """Format one line for a person or a machine, after so many seconds."""
        done, total, read = self.figures()
        share = read / self._planned_bytes if self._planned_bytes else done / max(1, total)
        left = seconds * (1 - share) / share if share else None
        return progress_line(done, total, (read, self._planned_bytes), left, as_json=as_json)


class _Stages:
    """Tasks of all of Spark's stages since it was made, including ended stages."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext
        self._failed: dict[int, int] = {}
        self._tracker = spark.sparkContext.statusTracker()
        self._group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
        self._before = set(self._tracker.getJobIdsForGroup(self._group))
        self._known: dict[int, tuple[int, int]] = {}

    def tasks(self) -> tuple[int, int]:
        """Return tasks done, and all tasks of the stages that have begun."""
        for job in set(self._tracker.getJobIdsForGroup(self._group)) - self._before:
            info = self._tracker.getJobInfo(job)
            for stage_id in () if info is None else info.stageIds:
                stage = self._tracker.getStageInfo(stage_id)
                if stage is not None:  # None: the stage has not begun
                    done, total = self._known.get(stage_id, (0, 0))
                    self._known[stage_id] = (
                        max(done, stage.numCompletedTasks), max(total, stage.numTasks)
                    )  # fmt: skip
        return sum(done for done, _ in self._known.values()), sum(
            total for _, total in self._known.values()
        )

    def cancel(self) -> None:
        """End all work of the session."""
        self._context.cancelAllJobs()

    def found_damage(self) -> str | None:
        """Find bad data that a task met: what it said, None without any.

        Spark would run the task three times more, with the same end.
        """
        for job in set(self._tracker.getJobIdsForGroup(self._group)) - self._before:
            info = self._tracker.getJobInfo(job)
            for stage_id in () if info is None else info.stageIds:
                stage = self._tracker.getStageInfo(stage_id)
                failed = 0 if stage is None else stage.numFailedTasks
                if failed <= self._failed.get(stage_id, 0):
                    continue
                self._failed[stage_id] = failed
                for text in self._errors(stage_id, stage.currentAttemptId):
                    reason = data_error(text)
                    if reason is not None:
                        return reason
        return None

    def _errors(self, stage_id: int, attempt: int) -> Iterator[str]:
        """Texts of the failed tasks of a stage, which pyspark's tracker does not have."""
        store = self._context._jsc.sc().statusStore()  # noqa: SLF001
        tasks = store.taskList(stage_id, attempt, _ERRORS_MAX)
        for index in range(tasks.size()):
            message = tasks.apply(index).errorMessage()
            if message.isDefined():
                yield str(message.get())


@contextmanager
def progress(
    spark: Any, planned_bytes: int, *, tasks: int = 0, as_json: bool = False
) -> Iterator[Progress]:
    """Run a block of work, with a line on stderr every five seconds; bad data ends it at once.

    Args:
        spark: the session that works; None if this process works and calls `Progress.step`.
        planned_bytes: bytes of all tasks.
        tasks: number of tasks, as far as it is known; Spark's stages may add to it.
        as_json: print lines for machines.

    Raises:
        BadInputError: a task met damaged or missing data; the text is the task's, not Spark's.
    """
    over = threading.Event()
    started = time.monotonic()
    shown = Progress(planned_bytes, tasks, spark)
    damage: list[str] = []

    def watch() -> None:
        next_line = PROGRESS_SECONDS
        while not over.wait(min(_LOOK_SECONDS, PROGRESS_SECONDS)):
            seconds = time.monotonic() - started
            try:
                damage.extend(shown.found_damage())
                if damage:  # known before the work ends with "cancelled"
                    shown.cancel()
                    return
                line = shown.line(seconds, as_json=as_json) if seconds >= next_line else None
            except Exception:  # noqa: BLE001  # Spark is gone: its caller reports it
                return
            if line is not None:
                next_line += PROGRESS_SECONDS
                sys.stderr.write(line + "\n")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield shown
    except Exception as error:
        reason = None if spark is None else data_error(str(error))
        reason = next(iter(damage), reason)
        if reason is None:
            raise
        raise BadInputError(reason) from error
    finally:
        over.set()
        thread.join()


def data_error(text: str) -> str | None:
    """Find what the user can mend in Spark's text about a failed task; None without any.

    That is bad data, a file that cannot be used, a full disk, a Python without this project.
    """
    for kind in (CorruptSegmentError, BadInputError, DataLossError):
        _, found, rest = text.partition(f"{kind.__module__}.{kind.__name__}: ")
        if found:
            return rest.partition("\n")[0]
    full = os.strerror(errno.ENOSPC)
    if full in text:
        return full
    file = _FILE_ERROR.search(text)
    if file is not None and int(file[1]) in _FINAL_ERRNOS:
        return f"{file[3]}: {file[2]}"
    module = _MODULE_ERROR.search(text)
    if module is None:
        return None
    return (
        f"the Python of the workers has no module {module[1]}; --conf"
        " spark.pyspark.python=PATH names one that has this project"
    )


def progress_line(
    done: int, total: int, sizes: tuple[int, int], left_seconds: float | None, *, as_json: bool
) -> str:
    """Format one line of progress; `sizes` are the bytes done and the bytes planned."""
    read, planned = sizes
    if as_json:
        seconds = None if left_seconds is None else round(left_seconds)
        return json.dumps({"tasks_done": done, "tasks": total, "bytes": read,
                           "bytes_planned": planned, "seconds_left": seconds})  # fmt: skip
    left = "" if left_seconds is None else f", {left_seconds:.0f} s left"
    return f"tasks {done} of {total}, {read / 1e6:.0f} of {planned / 1e6:.0f} MB{left}"


def peak_bytes() -> int:
    """Peak memory of this process: for a task, including earlier tasks of its worker."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def tool_version() -> str:
    """Installed version of this project."""
    return _version("kraftline") or "source"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
