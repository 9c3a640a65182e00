"""Creation and deletion of the logs of partitions, off the step thread, in order for each name.

A name comes back: of a topic that is deleted and created again, or a replica that leaves and
returns. What is asked for a name begins when all before it for the same name has ended.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from broker.effects import Lane
from broker.replicas.stored_logs import StoredLogs
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.errors import CorruptFileError
from storage.logs.log_manager import ERRORS, DeleteTask, LoadTask
from storage.logs.unified_log import UnifiedLog
from wire.types import TopicId

Created = Callable[[UnifiedLog], None]
NotCreated = Callable[[CorruptFileError], None]
"""Told why there is no log, though its log directory is online."""


class PartitionFiles:
    """The logs that are being created or deleted.

    Args:
        logs: of the broker.
        failed: takes a log directory offline.
    """

    def __init__(self, logs: StoredLogs, failed: Callable[[str, BaseException], None]) -> None:
        self._manager, self._services = logs.manager, logs.services
        self._failed = failed
        self._queues: dict[TopicAndPartition, deque[Callable[[], None]]] = {}
        """By name: what runs, and what waits behind it."""

    def is_busy(self, name: TopicAndPartition) -> bool:
        """True if a log of this name is being created or deleted."""
        return name in self._queues

    def create(
        self,
        name: TopicAndPartition,
        topic_id: TopicId,
        choose: Callable[[], str | None],
        *,
        created: Created,
        not_created: NotCreated,
    ) -> None:
        """Create a log.

        Args:
            name: of the partition, without a log when its turn comes.
            topic_id: of its topic.
            choose: the online log directory, asked when its turn comes; None to leave it.
            created: told of the open log.
            not_created: told if the directory of another topic is in its place.
        """

        def begin() -> None:
            path = choose()
            if path is None:
                self._end(name)
                return
            task = self._manager.create(*name, topic_id, path, self._services.wall_ms)

            def done(error: BaseException | None) -> None:
                self._opened(task, path, created, not_created, error)

            self._services.run(Lane.FILES, path, task.run, done)

        self._ask(name, begin)

    def _opened(
        self,
        task: LoadTask,
        path: str,
        created: Created,
        not_created: NotCreated,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            raise error
        try:
            log = self._manager.loaded(task)
        except CorruptFileError as reason:  # the directory of another topic id is in its place
            self._manager.give_up(task)
            not_created(reason)
        except ERRORS as reason:
            self._failed(path, reason)
        else:
            if log is not None:  # else its log directory is offline
                created(log)
        self._end(task.key)

    def create_future(
        self,
        name: TopicAndPartition,
        topic_id: TopicId,
        path: str,
        *,
        created: Callable[[UnifiedLog | None], None],
        ended: Callable[[], None],
    ) -> None:
        """Create the log of a replica that moves to a log directory.

        Args:
            name: of the partition.
            topic_id: of its topic.
            path: of the log directory.
            created: told of the open log; None if that fails.
            ended: called when other work for the name may begin.
        """

        def done(task: LoadTask, error: BaseException | None) -> None:
            self._future_opened(task, created, error)
            ended()

        def begin() -> None:
            has_log = self._manager.get(*name) is not None
            is_there = self._manager.log_dir_of(*name) == path or name in self._manager.futures
            if not has_log or is_there or path not in self._manager.directories:
                created(None)
                self._end(name)
                return
            task = self._manager.create_future(*name, topic_id, path, self._services.wall_ms)
            self._services.run(Lane.FILES, path, task.run, partial(done, task))

        self._ask(name, begin)

    def _future_opened(
        self,
        task: LoadTask,
        created: Callable[[UnifiedLog | None], None],
        error: BaseException | None,
    ) -> None:
        if error is not None:
            raise error
        log = None
        try:
            log = self._manager.loaded(task)
        except ERRORS as reason:
            self._failed(task.directory.path, reason)
        created(log)
        self._end(task.key)

    def delete_future(self, name: TopicAndPartition) -> None:
        """Delete the log of a replica that was to move; nothing if there is none."""
        self._delete(name, is_future=True)

    def replace(self, name: TopicAndPartition, settled: Callable[[], None]) -> None:
        """Let the log of a moved replica be that of its partition, from now on.

        It is flushed, then the directory of the other log is removed, durably, and then this one
        gets its name; no work for this name is under way.
        """
        assert name not in self._queues, f"{name=}"

        def begin() -> None:
            task = self._manager.replace(*name, self._services.wall_ms)
            log, path = self._manager.get(*name), self._manager.log_dir_of(*name)
            assert log is not None, f"{name=}"
            assert path is not None, f"{name=}"
            plan = log.flush_plan()

            def flushed(error: BaseException | None) -> None:
                if isinstance(error, ERRORS):
                    self._failed(path, error)
                elif error is not None:
                    raise error
                if self._manager.get(*name) is not log:  # the other one is left for the next start
                    self._settle(name, settled)
                    return
                self._manager.flushed(name, plan, self._services.wall_ms)
                self._delete_other(name, task, settled)

            self._services.run(Lane.FILES, path, plan.run, flushed)

        self._ask(name, begin)

    def _delete_other(
        self, name: TopicAndPartition, task: DeleteTask | None, settled: Callable[[], None]
    ) -> None:
        if task is None:
            self._settle(name, settled)
            return

        def deleted(error: BaseException | None) -> None:
            self._take_deletion(task, error)
            self._settle(name, settled)

        self._services.run(Lane.FILES, task.directory.path, task.run, deleted)

    def _settle(self, name: TopicAndPartition, settled: Callable[[], None]) -> None:
        path = self._manager.log_dir_of(*name)
        try:
            synced = self._manager.settle(*name)
        except ERRORS as reason:
            assert path is not None, f"{name=}"
            self._failed(path, reason)
            synced = None
        if synced is None:
            self._end(name)
            settled()
            return

        def done(error: BaseException | None) -> None:
            if isinstance(error, ERRORS):
                self._failed(synced.path, error)
            elif error is not None:
                raise error
            self._end(name)
            settled()

        self._services.run(Lane.FILES, synced.path, synced.sync, done)

    def delete(self, name: TopicAndPartition) -> None:
        """Delete a log; nothing if there is none, or its log directory is offline."""
        self._delete(name, is_future=False)

    def _delete(self, name: TopicAndPartition, *, is_future: bool) -> None:
        manager = self._manager
        find, delete = manager.get, manager.delete
        if is_future:
            find, delete = manager.future, manager.delete_future

        def begin() -> None:
            if find(*name) is None:
                self._end(name)
                return
            task = delete(*name, self._services.wall_ms)
            self._services.run(
                Lane.FILES,
                task.directory.path,
                task.run,
                lambda error: self._deleted(name, task, error),
            )

        self._ask(name, begin)

    def _deleted(
        self, name: TopicAndPartition, task: DeleteTask, error: BaseException | None
    ) -> None:
        self._take_deletion(task, error)
        self._end(name)

    def _take_deletion(self, task: DeleteTask, error: BaseException | None) -> None:
        if error is None:
            self._manager.deleted(task)
        elif isinstance(error, ERRORS):
            self._failed(task.directory.path, error)
        else:
            raise error

    def _ask(self, name: TopicAndPartition, begin: Callable[[], None]) -> None:
        queue = self._queues.setdefault(name, deque())
        queue.append(begin)
        if len(queue) == 1:
            begin()

    def _end(self, name: TopicAndPartition) -> None:
        queue = self._queues[name]
        queue.popleft()
        if queue:
            queue[0]()
        else:
            del self._queues[name]
