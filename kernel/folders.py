"""The partition folders of a broker follow the image, off the commit path.

A publisher collects what changed; the driver runs one piece of work at a time on another thread. At
start the folders found are compared with the image once, as soon as the image is new enough to hold
this broker's own registration: before that a missing topic proves nothing.
"""

from collections.abc import Callable

from broker_publisher.local_changes import LocalChanges, local_changes, local_partitions
from kernel.config import NodeConfig
from kernel.effects import Effect, Log, LogLevel, RunLocalChanges
from metadata.delta import MetadataDelta
from metadata.image import Image
from storage.partition_directories import (
    DELETE_SUFFIX,
    create_partition_directory,
    mark_deleted,
    partition_directory_name,
    remove_partition_directory,
    scan_partition_directories,
)
from storage.vfs import Vfs, join
from wire.types import METADATA_TOPIC_NAME, DirectoryId, TopicId


class Folders:
    """A publisher; `run_next` hands out work when none is running."""

    def __init__(
        self,
        config: NodeConfig,
        vfs: Vfs,
        directory_ids: dict[str, DirectoryId],
        incarnation_id: bytes,
        new_uuid: Callable[[], bytes],
        effects: list[Effect],
    ) -> None:
        self._config = config
        self._vfs = vfs
        self._path_by_id = {identity: path for path, identity in directory_ids.items()}
        self._incarnation_id = incarnation_id
        self._new_uuid = new_uuid
        self._effects = effects
        self._is_compared = False
        self._waiting: list[LocalChanges] = []
        self._is_running = False
        self._next_token = 1

    @property
    def is_idle(self) -> bool:
        """Whether every change so far has been carried out."""
        return not self._waiting and not self._is_running

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Collect what the change means for the folders."""
        broker_id = self._config.node_id
        if self._is_compared:
            changes = local_changes(before, after, delta, broker_id)
            if changes.is_empty:
                return
        else:
            broker = after.brokers.get(broker_id)
            if broker is None or broker.incarnation_id != self._incarnation_id:
                return
            self._is_compared = True
            self._remove_unknown(after)
            changes = LocalChanges(created=local_partitions(after, broker_id))
        self._waiting.append(changes)
        self._run_next()

    def done(self, error: str | None) -> None:
        """The work handed out has run."""
        assert self._is_running, "no work was handed out"
        self._is_running = False
        if error is not None:
            self._effects.append(Log(LogLevel.ERROR, "local_changes_failed", {"error": error}))
        self._run_next()

    def _run_next(self) -> None:
        if self._is_running or not self._waiting:
            return
        changes, self._waiting = self._waiting, []
        unique_ids = [[self._new_uuid() for _ in change.deleted] for change in changes]
        self._is_running = True
        token = self._next_token
        self._next_token += 1

        def work() -> None:
            for change, ids in zip(changes, unique_ids, strict=True):
                self._carry_out(change, ids)

        self._effects.append(RunLocalChanges(token, work))

    def _carry_out(self, changes: LocalChanges, unique_ids: list[bytes]) -> None:
        """On the other thread: touches only folders, and nothing of the kernel's state."""
        vfs = self._vfs
        for partition, unique_id in zip(changes.deleted, unique_ids, strict=True):
            name = partition_directory_name(partition.topic_name, partition.partition)
            for log_dir in self._config.log_dirs:
                path = join(log_dir, name)
                if vfs.exists(path):
                    remove_partition_directory(vfs, mark_deleted(vfs, path, unique_id))
        for created in changes.created:
            log_dir = self._path_by_id.get(created.directory_id, self._config.log_dirs[0])
            create_partition_directory(
                vfs, log_dir, created.topic_name, created.partition, created.topic_id
            )

    def _remove_unknown(self, image: Image) -> None:
        """Once at start: what was deleted while this broker was away, and unfinished removals."""
        for log_dir in self._config.log_dirs:
            for folder in scan_partition_directories(self._vfs, log_dir):
                if folder.topic == METADATA_TOPIC_NAME:
                    continue
                if folder.suffix == DELETE_SUFFIX:
                    remove_partition_directory(self._vfs, folder.path)
                elif not folder.suffix and self._is_gone(image, folder.topic_id, folder.partition):
                    path = mark_deleted(self._vfs, folder.path, self._new_uuid())
                    remove_partition_directory(self._vfs, path)
                    fields = {"folder": folder.path}
                    self._effects.append(Log(LogLevel.INFO, "deleted_partition_removed", fields))

    def _is_gone(self, image: Image, topic_id: TopicId | None, number: int) -> bool:
        if topic_id is None:
            return False
        topic = image.topics.get(topic_id)
        if topic is None:
            return True
        partition = topic.partitions.get(number)
        return partition is None or self._config.node_id not in partition.replicas
