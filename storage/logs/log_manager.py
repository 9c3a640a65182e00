"""All logs of a broker's partitions: loading, creation, deletion, and their regular upkeep.

No threads: tasks are handed out, which any thread may run, and their results are taken in by the
thread that owns the manager. Of one log directory several tasks may run at a time.

apache/kafka: core/.../log/LogManager.scala
"""

import contextlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from storage.checkpoints.recovery_points import TopicAndPartition
from storage.errors import CorruptFileError, CorruptLogError, FsyncError, OutOfSpaceError
from storage.log_dir.partition_directories import (
    DELETE_SUFFIX,
    PartitionDirectory,
    create_partition_directory,
    mark_deleted,
    mark_stray,
    remove_partition_directory,
    scan_partition_directories,
)
from storage.logs.flush_plan import FlushPlan
from storage.logs.log_directory import LogDirectory, SettingsOf
from storage.logs.unified_log import SEGMENTS_MAX, UnifiedLog
from storage.producers.producer_state import ProducerStateError
from storage.segments.segment import LOG_SUFFIX
from storage.vfs import Vfs
from wire.errors import CorruptBatchError
from wire.types import Rng, TopicId

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Default of `producer.id.expiration.ms`."""


ERRORS: Final = (
    CorruptLogError,
    CorruptFileError,
    CorruptBatchError,
    ProducerStateError,
    OutOfSpaceError,
    FsyncError,
    OSError,
)
"""Damage of a log, and errors of the disk, that keep a log from being opened."""


class LoadTask:
    """The loading of one log; `run` on any thread, then `LogManager.loaded` on its own."""

    def __init__(
        self,
        directory: LogDirectory,
        key: TopicAndPartition,
        opening: Callable[[], UnifiedLog],
        wall_ms: int,
    ) -> None:
        self.directory = directory
        self.key = key
        self.wall_ms = wall_ms
        """Wall clock when it was handed out."""
        self._opening = opening
        self.log: UnifiedLog | None = None
        self.error: Exception | None = None
        """The damage or error of the disk that kept the log from being opened."""

    def run(self) -> None:
        """Open the log."""
        try:
            self.log = self._opening()
        except ERRORS as error:
            self.error = error


class DeleteTask:
    """The deletion of one log; `run` on any thread, then `LogManager.deleted` on its own."""

    def __init__(
        self, vfs: Vfs, directory: LogDirectory, path: str, unique_id: bytes, due_ms: int
    ) -> None:
        self.directory = directory
        self.due_ms = due_ms
        """Wall clock of the removal."""
        self._vfs = vfs
        self._path = path
        self._unique_id = unique_id
        self.renamed: str | None = None
        """New path of the partition's directory."""

    def run(self) -> None:
        """Rename the directory of the partition; durable.

        Raises:
            OSError: the log directory cannot stay online. So for `FsyncError`.
        """
        self.renamed = mark_deleted(self._vfs, self._path, self._unique_id)


class Loading(msgspec.Struct, frozen=True):
    """The progress of a log directory at start."""

    path: str
    is_clean: bool
    done: int
    total: int


class DueFile(msgspec.Struct, frozen=True, order=True):
    """A deleted segment's file, or the directory of a deleted partition, and when it goes."""

    due_ms: int
    path: str
    is_directory: bool


class DuplicateLogError(Exception):
    """A partition has a directory in two log directories: which one counts is not known."""

    def __init__(self, key: TopicAndPartition, path: str, other: str) -> None:
        name = f"{key[0]}-{key[1]}"
        super().__init__(
            f"Duplicate log directories for {name} are found in both {path}/{name} and "
            f"{other}/{name}. It is likely because log directory failure happened while broker was "
            f"replacing current replica with future replica. Recover broker from this failure by "
            f"manually deleting one of the two directories for this partition. It is recommended "
            f"to delete the partition in the log directory that is known to have failed recently."
        )


class LogManager:
    """The logs of one broker.

    Args:
        vfs: the disk.
        settings_of: of a topic, asked whenever a log is opened or looked after.
        new_uuid: makes 16 random bytes, for the names of deleted directories.
        rng: draws the jitter of segments; None for none.
        producer_expiration_ms: `producer.id.expiration.ms`.
    """

    def __init__(
        self,
        vfs: Vfs,
        settings_of: SettingsOf,
        new_uuid: Callable[[], bytes],
        rng: Rng | None = None,
        *,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        self._vfs = vfs
        self._settings_of = settings_of
        self._new_uuid = new_uuid
        self._rng = rng
        self._producer_expiration_ms = producer_expiration_ms
        self.directories: dict[str, LogDirectory] = {}
        """Those that are online, by path."""
        self._logs: dict[TopicAndPartition, LogDirectory] = {}
        self._totals: dict[str, int] = {}
        """Number of logs found at start, by log directory."""
        self._due: list[DueFile] = []
        """A heap."""

    # -- start ----------------------------------------------------------------------------------

    def load(
        self,
        path: str,
        is_stray: Callable[[PartitionDirectory], bool],
        wall_ms: int,
        *,
        is_clean: bool,
        guard: AbstractContextManager[object] | None = None,
    ) -> list[LoadTask]:
        """Bring a log directory online; the tasks that open its logs.

        Directories of deleted partitions are removed once `file.delete.delay.ms` is over. Those
        that `is_stray` says belong to no partition of this broker are renamed `-stray` and left
        alone, as are the `-stray` and `-future` ones that are there.

        Args:
            path: of the log directory.
            is_stray: by topic id and partition of a directory.
            wall_ms: wall clock.
            is_clean: the directory was left by a clean shutdown.
            guard: held while the recovery points are written.

        Raises:
            CorruptFileError: a file of offsets or partition.metadata is damaged, or a directory has
                no name of a partition.
            DuplicateLogError: another log directory has the same partition.
        """
        assert path not in self.directories, f"{path=}"
        directory = LogDirectory(
            self._vfs,
            path,
            is_clean=is_clean,
            producer_expiration_ms=self._producer_expiration_ms,
            guard=guard,
        )
        found = scan_partition_directories(self._vfs, path)
        live = [each for each in found if not each.suffix and not is_stray(each)]
        live_paths = {each.path for each in live}
        keys = [(each.topic, each.partition) for each in live]
        for key in keys:
            if key in self._logs:
                raise DuplicateLogError(key, path, self._logs[key].path)
        for each in found:
            if each.suffix == DELETE_SUFFIX:
                self._remove_later(each.path, each.topic, wall_ms, is_directory=True)
            elif not each.suffix and each.path not in live_paths:
                mark_stray(self._vfs, each.path, self._new_uuid())
        directory.forget_all_but(set(keys))
        tasks = [self._load_task(directory, key, wall_ms) for key in keys]
        self.directories[path] = directory
        self._totals[path] = len(tasks)
        return tasks

    def _load_task(
        self,
        directory: LogDirectory,
        key: TopicAndPartition,
        wall_ms: int,
        before: Callable[[], None] | None = None,
    ) -> LoadTask:
        assert key not in self._logs, f"{key=} has a log"
        settings = self._settings_of(key[0])
        self._logs[key] = directory
        directory.opening.add(key)

        def opening() -> UnifiedLog:
            if before is not None:
                before()
            return directory.open_log(key, settings, wall_ms, self._rng)

        return LoadTask(directory, key, opening, wall_ms)

    def loaded(self, task: LoadTask) -> UnifiedLog | None:
        """Take in a task that has run; None if its log directory went offline meanwhile.

        Raises:
            CorruptLogError: so did the task; its log directory cannot stay online. So for the other
                `ERRORS`.
        """
        path = task.directory.path
        if self.directories.get(path) is not task.directory:
            if task.log is not None:
                task.log.log.close_files()
            return None
        if task.error is not None:
            raise task.error
        assert task.log is not None, "run it first"
        assert self._logs[task.key] is task.directory, f"{task.key=}"
        task.directory.opened(task.key, task.log, task.wall_ms)
        self._apply_settings(task.log, task.key[0])  # they may have changed since it was handed out
        return task.log

    def loading(self) -> list[Loading]:
        """The progress of each log directory."""
        return [
            Loading(path, each.is_clean, max(0, total - len(each.opening)), total)
            for path, each in self.directories.items()
            for total in (self._totals[path],)
        ]

    @property
    def is_loaded(self) -> bool:
        """True if every task that was handed out was taken in."""
        return not any(each.opening for each in self.directories.values())

    # -- logs -----------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """The log of a partition; None if there is none, or it is not loaded."""
        directory = self._logs.get((topic, partition))
        return None if directory is None else directory.logs.get((topic, partition))

    def log_dir_of(self, topic: str, partition: int) -> str | None:
        """The log directory of a partition, None if it has no log here."""
        directory = self._logs.get((topic, partition))
        return None if directory is None else directory.path

    def create(
        self, topic: str, partition: int, topic_id: TopicId, path: str, wall_ms: int
    ) -> LoadTask:
        """The task that creates the directory of a partition and opens its log.

        Of one log directory these tasks and deletions run one at a time, in the order in which they
        are handed out: names come back. `loaded` raises what it failed with: CorruptFileError if
        the directory belongs to another topic id, then and on a full disk `give_up` may follow.
        """
        directory = self.directories[path]
        directory.begin_anew((topic, partition))

        def before() -> None:
            directory.forget_recorded((topic, partition))
            create_partition_directory(self._vfs, path, topic, partition, topic_id)

        return self._load_task(directory, (topic, partition), wall_ms, before)

    def give_up(self, task: LoadTask) -> None:
        """Leave out a log that could not be created, though its log directory stays online."""
        assert task.error is not None, f"{task.key=} is created"
        assert task.key not in task.directory.logs, f"{task.key=} is open"
        if self._logs.get(task.key) is task.directory:
            del self._logs[task.key]
        task.directory.opening.discard(task.key)
        task.directory.creating.discard(task.key)

    def next_log_dir(self, allowed: Sequence[str]) -> str:
        """The log directory for a partition without one: with the fewest logs, then the first.

        Args:
            allowed: paths of log directories that are online, in the order of `log.dirs`; one at
                least.
        """
        return min(allowed, key=lambda path: self.directories[path].log_count)

    def delete(self, topic: str, partition: int, wall_ms: int) -> DeleteTask:
        """Take out an open log; the task that renames its directory, which `deleted` removes later.

        Whoever holds a slice of it reads on.
        """
        key = (topic, partition)
        directory = self._logs[key]
        assert self.directories.get(directory.path) is directory, f"{directory.path} is offline"
        assert key in directory.logs, f"{key=} is being opened"
        del self._logs[key]
        log = directory.forget(key)
        log.log.close_files()
        due_ms = self._due_ms(topic, wall_ms)
        return DeleteTask(self._vfs, directory, log.log.directory, self._new_uuid(), due_ms)

    def deleted(self, task: DeleteTask) -> None:
        """Take in a deletion that has run; nothing if its log directory went offline meanwhile."""
        assert task.renamed is not None, "run it first"
        if self.directories.get(task.directory.path) is task.directory:
            heapq.heappush(self._due, DueFile(task.due_ms, task.renamed, is_directory=True))

    # -- upkeep ---------------------------------------------------------------------------------

    def delete_old_segments(
        self, topic: str, partition: int, wall_ms: int, *, segments_max: int = SEGMENTS_MAX
    ) -> int:
        """Delete the segments of a log that its retention asks for, the oldest; their number.

        Raises:
            OutOfSpaceError: no room for the new segment of a log that loses all it has.
            OSError: the log directory cannot stay online.
        """
        log = self.get(topic, partition)
        if log is None:
            return 0
        rules = self._settings_of(topic).retention
        paths = log.delete_old_segments(rules, wall_ms, segments_max=segments_max)
        for path in paths:
            self._remove_later(path, topic, wall_ms, is_directory=False)
        return sum(LOG_SUFFIX in path for path in paths)

    def configure(self, topic: str, partition: int) -> None:
        """Apply the settings of a topic, which changed, to one of its logs, if it is open."""
        log = self.get(topic, partition)
        if log is not None:
            self._apply_settings(log, topic)

    def _apply_settings(self, log: UnifiedLog, topic: str) -> None:
        settings = self._settings_of(topic)
        log.configure(settings.log, settings.append)

    def keys(self) -> Iterator[TopicAndPartition]:
        """The partitions whose logs are open."""
        for directory in self.directories.values():
            yield from directory.logs

    @property
    def next_removal_ms(self) -> int | None:
        """Wall clock at which the next file or directory is removable; None without any."""
        return self._due[0].due_ms if self._due else None

    def removable(self, wall_ms: int) -> list[DueFile]:
        """Files and directories deleted `file.delete.delay.ms` ago or longer; handed out once."""
        found: list[DueFile] = []
        while self._due and self._due[0].due_ms <= wall_ms:
            found.append(heapq.heappop(self._due))
        assert all(each.due_ms > wall_ms for each in self._due), "the earliest is on top"
        return found

    def flush_after_append(self, topic: str, partition: int) -> FlushPlan | None:
        """The flush to run behind an append; None if it asks for none.

        A roll asks for one, so that the recovery point follows, and `flush.messages` does. The
        plans of a log are run in the order in which they are handed out, one at a time.
        """
        log = self.get(topic, partition)
        assert log is not None, f"{topic=} {partition=}"
        is_due = self.has_flush_due(topic, partition)
        return log.flush_plan() if is_due or log.has_rolled else None

    def has_flush_due(self, topic: str, partition: int) -> bool:
        """True if `flush.messages` asks for a flush."""
        log = self.get(topic, partition)
        assert log is not None, f"{topic=} {partition=}"
        unflushed = log.end_offset - log.log.flushed_end_offset
        return 0 < unflushed >= self._settings_of(topic).flush_messages

    def flushes_due(self, wall_ms: int) -> list[tuple[TopicAndPartition, FlushPlan]]:
        """The flushes that `flush.ms` asks for."""
        due: list[tuple[TopicAndPartition, FlushPlan]] = []
        for key in self.keys():
            log = self.get(*key)
            assert log is not None, f"{key=}"
            is_late = wall_ms - log.last_flush_ms >= self._settings_of(key[0]).flush_ms
            if is_late and log.log.flushed_end_offset < log.end_offset:
                due.append((key, log.flush_plan()))
        return due

    def flushed(self, key: TopicAndPartition, plan: FlushPlan, wall_ms: int) -> None:
        """Take in a flush that has run; nothing if the log is gone."""
        log = self.get(*key)
        if log is not None:
            log.log.flush_done(plan)
            assert log.log.flushed_end_offset <= log.end_offset, f"{key=}"
            log.last_flush_ms = wall_ms

    def _remove_later(self, path: str, topic: str, wall_ms: int, *, is_directory: bool) -> None:
        heapq.heappush(self._due, DueFile(self._due_ms(topic, wall_ms), path, is_directory))

    def _due_ms(self, topic: str, wall_ms: int) -> int:
        due_ms = wall_ms + self._settings_of(topic).file_delete_delay_ms
        assert due_ms >= wall_ms, f"{due_ms=} {wall_ms=}"
        return due_ms

    # -- end ------------------------------------------------------------------------------------

    def fail(self, path: str) -> list[TopicAndPartition]:
        """Take a log directory offline after an error of its disk; the partitions that go with it.

        Its files are closed without a flush, and nothing is written to it any more. None go if it
        is offline already: two tasks may find the same disk broken.
        """
        directory = self.directories.pop(path, None)
        if directory is None:
            return []
        offline = [key for key, each in self._logs.items() if each is directory]
        for key in offline:
            del self._logs[key]
        for log in directory.logs.values():
            log.log.close_files()
        assert not any(each is directory for each in self._logs.values()), f"{path=}"
        self._due = [each for each in self._due if not each.path.startswith(f"{path}/")]
        heapq.heapify(self._due)
        return offline

    def close(self, path: str) -> bool:
        """Close the logs of a log directory, and record their offsets; durable.

        True if the directory may be marked as cleanly shut down: it was when it came online, or all
        its logs were loaded.

        Raises:
            FsyncError: nothing is recorded as flushed. So for `OutOfSpaceError` and `OSError`.
        """
        self.directories[path].close()
        return self.closed(path)

    def closed(self, path: str) -> bool:
        """Take in that `LogDirectory.close` has run, on any thread; as `close` from here on."""
        directory = self.directories.pop(path)
        self._logs = {key: each for key, each in self._logs.items() if each is not directory}
        return directory.is_clean or not directory.opening


def remove(vfs: Vfs, due: DueFile) -> None:
    """Remove a file or directory that `LogManager.removable` handed out; any thread."""
    if due.is_directory:
        remove_partition_directory(vfs, due.path)
    else:
        with contextlib.suppress(FileNotFoundError):
            vfs.unlink(due.path)
