"""All logs of a broker's partitions: loading, creation, deletion, and their regular upkeep.

No threads: tasks are handed out, which any thread may run, and their results are taken in by the
thread that owns the manager. Of one log directory several tasks may run at a time.

apache/kafka: core/.../log/LogManager.scala
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Final

from storage.checkpoints.recovery_points import TopicAndPartition
from storage.log_dir.partition_directories import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    PartitionDirectory,
    create_partition_directory,
    future_directory_name,
    mark_current,
    mark_stray,
    scan_partition_directories,
)
from storage.logs.flush_plan import FlushPlan
from storage.logs.log_directory import LogDirectory, SettingsOf
from storage.logs.log_tasks import (
    ERRORS,
    DeleteTask,
    DueFile,
    DuplicateLogError,
    LoadTask,
    remove,
)
from storage.logs.recovery import RecoveryProgress
from storage.logs.unified_log import SEGMENTS_MAX, UnifiedLog
from storage.segments.segment import LOG_SUFFIX
from storage.vfs import Vfs, base_name
from wire.types import Rng, TopicId

__all__ = [
    "ERRORS",
    "DeleteTask",
    "DueFile",
    "DuplicateLogError",
    "LoadTask",
    "LogManager",
    "remove",
]

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Default of `producer.id.expiration.ms`."""


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
        self._futures: dict[TopicAndPartition, LogDirectory] = {}
        """Targets of replicas that move."""
        self._settling: set[TopicAndPartition] = set()
        """Logs whose directories still have the name of a moving replica."""
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
        alone, as are the `-stray` ones that are there.

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
        logs = [each for each in found if each.suffix in ("", FUTURE_SUFFIX)]
        live = [each for each in logs if not is_stray(each)]
        live_paths = {each.path for each in live}
        for each in live:
            self._refuse_second(each, path)
        for each in found:
            if each.suffix == DELETE_SUFFIX:
                self._remove_later(each.path, each.topic, wall_ms, is_directory=True)
            elif each in logs and each.path not in live_paths:
                mark_stray(self._vfs, each.path, self._new_uuid())
        directory.forget_all_but({(each.topic, each.partition) for each in live})
        tasks = [self._found(directory, each, wall_ms) for each in live]
        self.directories[path] = directory
        return tasks

    def _refuse_second(self, found: PartitionDirectory, path: str) -> None:
        known = self._futures if found.suffix else self._logs
        key = (found.topic, found.partition)
        if key in known:
            raise DuplicateLogError(key, path, known[key].path)

    def _found(self, directory: LogDirectory, found: PartitionDirectory, wall_ms: int) -> LoadTask:
        name = base_name(found.path) if found.suffix else None
        return self._load_task(directory, (found.topic, found.partition), wall_ms, name=name)

    def _load_task(
        self,
        directory: LogDirectory,
        key: TopicAndPartition,
        wall_ms: int,
        before: Callable[[], None] | None = None,
        *,
        name: str | None = None,
    ) -> LoadTask:
        """Make the task of a log; `name` is that of the directory of a moving replica."""
        logs = self._logs if name is None else self._futures
        assert key not in logs, f"{key=} has a log"
        settings = self._settings_of(key[0])
        logs[key] = directory
        directory.opening.add(key)

        def opening(progress: RecoveryProgress) -> UnifiedLog:
            if before is not None:
                before()
            return directory.open_log(
                key, settings, wall_ms, rng=self._rng, directory_name=name, progress=progress
            )

        return LoadTask(directory, key, opening, wall_ms, is_future=name is not None)

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
        logs = self._futures if task.is_future else self._logs
        assert logs[task.key] is task.directory, f"{task.key=}"
        task.directory.opened(task.key, task.log, task.wall_ms, is_future=task.is_future)
        self._apply_settings(task.log, task.key[0])  # they may have changed since it was handed out
        return task.log

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
        return self._create((topic, partition), topic_id, path, wall_ms)

    def create_future(
        self, topic: str, partition: int, topic_id: TopicId, path: str, wall_ms: int
    ) -> LoadTask:
        """The task that creates the directory of a replica that moves to a log directory.

        As `create`; the log of the partition is in another log directory.
        """
        assert self._logs[topic, partition].path != path, f"{topic=} {partition=} {path=}"
        name = future_directory_name(topic, partition, self._new_uuid())
        return self._create((topic, partition), topic_id, path, wall_ms, name)

    def _create(
        self,
        key: TopicAndPartition,
        topic_id: TopicId,
        path: str,
        wall_ms: int,
        name: str | None = None,
    ) -> LoadTask:
        directory = self.directories[path]
        directory.begin_anew(key)

        def before() -> None:
            directory.forget_recorded(key)
            create_partition_directory(self._vfs, path, *key, topic_id, name)

        return self._load_task(directory, key, wall_ms, before, name=name)

    def give_up(self, task: LoadTask) -> None:
        """Leave out a log that could not be created, though its log directory stays online."""
        assert task.error is not None, f"{task.key=} is created"
        assert task.key not in task.directory.logs, f"{task.key=} is open"
        logs = self._futures if task.is_future else self._logs
        if logs.get(task.key) is task.directory:
            del logs[task.key]
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
        self._settling.discard(key)
        return self._delete_task(directory, directory.forget(key), topic, wall_ms)

    def _delete_task(
        self, directory: LogDirectory, log: UnifiedLog, topic: str, wall_ms: int
    ) -> DeleteTask:
        log.log.close_files()
        due_ms = self._due_ms(topic, wall_ms)
        return DeleteTask(self._vfs, directory, log.log.directory, self._new_uuid(), due_ms)

    def deleted(self, task: DeleteTask) -> None:
        """Take in a deletion that has run; nothing if its log directory went offline meanwhile."""
        assert task.renamed is not None, "run it first"
        if self.directories.get(task.directory.path) is task.directory:
            heapq.heappush(self._due, DueFile(task.due_ms, task.renamed, is_directory=True))

    # -- moves ----------------------------------------------------------------------------------

    @property
    def futures(self) -> Mapping[TopicAndPartition, LogDirectory]:
        """The log directories that replicas move to."""
        return self._futures

    def future(self, topic: str, partition: int) -> UnifiedLog | None:
        """The log of a replica that moves to another log directory, None if it is not open."""
        directory = self._futures.get((topic, partition))
        return None if directory is None else directory.futures.get((topic, partition))

    def delete_future(self, topic: str, partition: int, wall_ms: int) -> DeleteTask:
        """As `delete`, of the log of a replica that was to move."""
        directory = self._futures.pop((topic, partition))
        log = directory.forget_future((topic, partition))
        return self._delete_task(directory, log, topic, wall_ms)

    def replace(self, topic: str, partition: int, wall_ms: int) -> DeleteTask | None:
        """Let the log of a moved replica be that of its partition; the deletion of the other one.

        The log keeps the name of its directory until that deletion is durable, so that no start
        finds two; `settle` follows. Without another log there is nothing to wait for.
        """
        key = (topic, partition)
        directory = self._futures.pop(key)
        task = None if key not in self._logs else self.delete(topic, partition, wall_ms)
        self._logs[key] = directory
        directory.promote(key)
        self._apply_settings(directory.logs[key], topic)  # no lane works on it any more
        self._settling.add(key)
        return task

    def is_settling(self, key: TopicAndPartition) -> bool:
        """True if a log that was moved has not the name of its directory yet."""
        return key in self._settling

    def settle(self, topic: str, partition: int) -> LogDirectory | None:
        """Give the directory of a log that was moved its name; the log directory to be synced.

        None if the log is gone or offline.

        Raises:
            OSError: the log directory cannot stay online.
        """
        key = (topic, partition)
        if key not in self._settling:
            return None
        self._settling.remove(key)
        directory = self._logs[key]
        log = directory.logs[key]
        log.renamed_to(mark_current(self._vfs, log.log.directory))
        return directory

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
        if log is None or (topic, partition) in self._settling:
            return 0
        rules = self._settings_of(topic).retention
        paths = log.delete_old_segments(rules, wall_ms, segments_max=segments_max)
        self.remove_later(paths, topic, wall_ms)
        return sum(LOG_SUFFIX in path for path in paths)

    def configure(self, topic: str, partition: int) -> None:
        """Apply the settings of a topic, which changed, to one of its logs, if it is open."""
        log = self.get(topic, partition)
        if log is not None:
            self._apply_settings(log, topic)

    def _apply_settings(self, log: UnifiedLog, topic: str) -> None:
        settings = self._settings_of(topic)
        log.configure(settings.log, settings.append)
        log.known_producers.expiration_ms = self._producer_expiration_ms

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Forget producers that write nothing for a time, in all logs from now on."""
        self._producer_expiration_ms = expiration_ms
        for directory in self.directories.values():
            directory.expire_producers_after(expiration_ms)

    def keys(self) -> Iterator[TopicAndPartition]:
        """The partitions whose logs are open."""
        return chain.from_iterable(each.logs for each in self.directories.values())

    @property
    def next_removal_ms(self) -> int | None:
        """Wall clock at which the next file or directory is removable; None without any."""
        return self._due[0].due_ms if self._due else None

    def removable(self, wall_ms: int, count_max: int = SEGMENTS_MAX) -> list[DueFile]:
        """Files and directories deleted `file.delete.delay.ms` ago or longer; handed out once."""
        assert count_max > 0, f"{count_max=}"
        found: list[DueFile] = []
        while len(found) < count_max and self._due and self._due[0].due_ms <= wall_ms:
            found.append(heapq.heappop(self._due))
        return found

    def flush_after_append(self, topic: str, partition: int) -> FlushPlan | None:
        """The flush to run behind an append; None if it asks for none.

        A roll asks for one, so that the recovery point follows, and `flush.messages` does. The
        plans of a log are run in the order in which they are handed out, one at a time.
        """
        log = self.get(topic, partition)
        assert log is not None, f"{topic=} {partition=}"
        assert (topic, partition) not in self._settling, "the plan would name the old directory"
        is_due = self.has_flush_due(topic, partition)
        return log.flush_plan() if is_due or log.has_rolled else None

    def has_flush_due(self, topic: str, partition: int) -> bool:
        """True if `flush.messages` asks for a flush."""
        log = self.get(topic, partition)
        assert log is not None, f"{topic=} {partition=}"
        unflushed = log.end_offset - log.log.flushed_end_offset
        return 0 < unflushed >= self._settings_of(topic).flush_messages

    def flush_if_old(self, topic: str, partition: int, wall_ms: int) -> FlushPlan | None:
        """The flush of a log that `flush.ms` asks for; None if it asks for none."""
        key, log = (topic, partition), self.get(topic, partition)
        if log is None or key in self._settling:
            return None
        is_late = wall_ms - log.last_flush_ms >= self._settings_of(topic).flush_ms
        is_behind = log.log.flushed_end_offset < log.end_offset
        return log.flush_plan() if is_late and is_behind else None

    def flushed(self, key: TopicAndPartition, plan: FlushPlan, wall_ms: int) -> None:
        """Take in a flush that has run; nothing if the log is gone."""
        log = self.get(*key)
        if log is not None:
            log.log.flush_done(plan)
            assert log.log.flushed_end_offset <= log.end_offset, f"{key=}"
            log.last_flush_ms = wall_ms

    def remove_later(self, paths: Iterable[str], topic: str, wall_ms: int) -> None:
        """Let renamed files of a log be removed once `file.delete.delay.ms` is over."""
        for path in paths:
            self._remove_later(path, topic, wall_ms, is_directory=False)

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
        self._settling.difference_update(offline)
        self._futures = {key: each for key, each in self._futures.items() if each is not directory}
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
        self._futures = {key: each for key, each in self._futures.items() if each is not directory}
        return directory.is_clean or not directory.opening
