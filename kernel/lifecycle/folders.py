"""The partition directories of a broker, changed after the image and off the commit path.

A publisher collects the changes; the driver runs one task at a time on another thread. At start the
directories found are compared with the image once, as soon as the image is new enough to hold this
broker's own registration: before that a missing topic proves nothing.

Changes linger to be grouped: a task per topic, each with a journal commit of the disk, would slow
down the creation of many topics in sequence.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from broker_publisher.local_changes import (
    LocalChanges,
    LocalPartition,
    local_changes,
    local_partitions,
)
from kernel.config import NodeConfig
from kernel.effects import Effect, Log, LogLevel, RunLocalChanges
from metadata.cordoned_directories import cordoned_paths
from metadata.delta import MetadataDelta
from metadata.image import Image
from network.clock import Clock
from network.timers import FOLDERS
from storage.errors import CorruptFileError
from storage.log_dir.partition_directories import (
    DELETE_SUFFIX,
    PartitionDirectory,
    create_partition_directory,
    mark_deleted,
    partition_directory_name,
    record_bytes,
    remove_partition_directory,
    scan_partition_directories,
)
from storage.log_dir.partition_metadata import read_partition_metadata
from storage.vfs import Vfs, join
from wire.types import DirectoryId, TopicId, TopicIdPartition

LINGER_MS: Final = 50
"""Delay of a task after the last change..."""
LINGER_MS_MAX: Final = 1_000
"""... and its limit after the first change."""
RETRY_MS: Final = 1_000
"""Pause after a failed task."""


class _Found(msgspec.Struct):
    """Result of the comparison at start; filled on the other thread, read when it is done."""

    removed: list[str] = msgspec.field(default_factory=list)
    record_bytes: dict[TopicIdPartition, int] = msgspec.field(default_factory=dict)
    """Size of the records, for partition directories that have any."""
    error: CorruptFileError | None = None


class Folders:
    """The partition directories of one broker; at most one task is running."""

    def __init__(
        self,
        config: NodeConfig,
        vfs: Vfs,
        directory_ids: dict[str, DirectoryId],
        incarnation_id: bytes,
        new_uuid: Callable[[], bytes],
        *,
        clock: Clock,
        effects: list[Effect],
    ) -> None:
        self._config = config
        self._vfs = vfs
        self._directory_ids = directory_ids
        self._path_by_id = {identity: path for path, identity in directory_ids.items()}
        self._default_log_dir = config.log_dirs[0]
        """Directory of partitions that are assigned to none; as of the newest change."""
        self._incarnation_id = incarnation_id
        self._new_uuid = new_uuid
        self._clock = clock
        self._timers = clock.timers
        self._effects = effects
        self._found: _Found | None = None
        self._record_bytes: dict[TopicIdPartition, int] | None = None
        """As the comparison found them, without removed partitions; None before its end."""
        self._waiting: list[LocalChanges] = []
        self._due_ms = self._due_ms_max = 0
        """Time of the next task, and its limit; valid while changes wait."""
        self._is_running = False
        self._work: Callable[[], None] = _nothing
        """The running task, or the last one."""
        self._has_failed = False
        """True before a failed task is repeated; waiting changes come after it."""
        self._going: list[TopicIdPartition] = []
        """Partitions whose directories the running task removes."""
        self._next_token = 1

    def with_records(self) -> AbstractSet[TopicIdPartition] | None:
        """Return the partitions whose directories hold records; None before the comparison."""
        return None if self._record_bytes is None else self._record_bytes.keys()

    def record_bytes(self) -> Mapping[TopicIdPartition, int]:
        """Return the size of the records by partition, for directories that have any.

        Measured at start: a metadata-only node writes none. Empty before the comparison.
        """
        return {} if self._record_bytes is None else self._record_bytes

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Collect the directory changes of a delta; start the comparison once registered."""
        broker_id = self._config.node_id
        if self._found is not None:
            changes = local_changes(before, after, delta, broker_id)
            if not changes.is_empty:
                self._default_log_dir = self._first_open_log_dir(after)
                now_ms = self._clock.now_ms
                if not self._waiting:
                    self._due_ms_max = now_ms + LINGER_MS_MAX
                self._due_ms = min(now_ms + LINGER_MS, self._due_ms_max)
                self._waiting.append(changes)
                if not self._is_running and not self._has_failed:
                    self._timers.set(FOLDERS, self._due_ms)
            return
        broker = after.brokers.get(broker_id)
        if broker is not None and broker.incarnation_id == self._incarnation_id:
            self._found = found = _Found()
            default = self._first_open_log_dir(after)
            self._run(lambda: self._compare(after, found, default))

    def _first_open_log_dir(self, image: Image) -> str:
        """The first log directory that is not cordoned; the first of all where each one is."""
        log_dirs = self._config.log_dirs
        properties = dict(self._config.properties)
        cordoned = cordoned_paths(image, self._config.node_id, properties, log_dirs) or ()
        return next((path for path in log_dirs if path not in cordoned), log_dirs[0])

    def done(self, error: str | None) -> None:
        """Complete the running task; after an error it is repeated, in the same order.

        Raises:
            CorruptFileError: the comparison found a directory that Kafka would not start with.
        """
        assert self._is_running, "no work was handed out"
        assert self._found is not None, "the comparison comes first"
        self._is_running = False
        if error is not None:
            self._has_failed = True
            self._timers.set(FOLDERS, self._clock.now_ms + RETRY_MS)
            self._effects.append(Log(LogLevel.ERROR, "local_changes_failed", {"error": error}))
            return
        if self._waiting:
            self._timers.set(FOLDERS, self._due_ms)
        if self._record_bytes is None:
            if self._found.error is not None:
                raise self._found.error
            self._record_bytes = self._found.record_bytes
            for path in self._found.removed:
                fields = {"folder": path}
                self._effects.append(Log(LogLevel.INFO, "deleted_partition_removed", fields))
        going, self._going = self._going, []
        for key in going:
            self._record_bytes.pop(key, None)

    def tick(self) -> None:
        """Start the task of the waiting changes, or repeat a failed one, if it is due."""
        if self._timers.at_ms[FOLDERS] > self._clock.now_ms:
            return
        if self._has_failed:
            self._has_failed = False
            self._run(self._work)
            return
        changes, self._waiting = self._waiting, []
        self._going = [(one.topic_id, one.partition) for it in changes for one in it.deleted]
        unique_ids = [[self._new_uuid() for _ in change.deleted] for change in changes]
        default = self._default_log_dir

        def work() -> None:
            for change, ids in zip(changes, unique_ids, strict=True):
                self._carry_out(change, ids, default)

        self._run(work)

    def _run(self, work: Callable[[], None]) -> None:
        assert not self._is_running, "one piece of work at a time"
        self._is_running = True
        self._timers.clear(FOLDERS)
        self._work = work
        token = self._next_token
        self._next_token += 1
        self._effects.append(RunLocalChanges(token, work))

    def _carry_out(self, changes: LocalChanges, unique_ids: list[bytes], default: str) -> None:
        """Apply changes on the other thread: touch only directories, no state of the kernel.

        A partition without a log directory keeps the one it is found in, else goes to `default`.

        A repeated task finds its earlier results: a directory may then belong to a newer topic of
        the same name, so its topic id is checked.
        """
        vfs = self._vfs
        for partition, unique_id in zip(changes.deleted, unique_ids, strict=True):
            name = partition_directory_name(partition.topic_name, partition.partition)
            for log_dir in self._config.log_dirs:
                path = join(log_dir, name)
                if vfs.exists(path) and self._is_of(path, partition.topic_id):
                    remove_partition_directory(vfs, mark_deleted(vfs, path, unique_id))
        for created in changes.created:
            log_dir = self._path_by_id.get(created.directory_id) or self._place(created, default)
            create_partition_directory(
                vfs, log_dir, created.topic_name, created.partition, created.topic_id
            )

    def _place(self, created: LocalPartition, default: str) -> str:
        name = partition_directory_name(created.topic_name, created.partition)
        for log_dir in self._config.log_dirs:
            path = join(log_dir, name)
            if self._vfs.exists(path) and self._is_of(path, created.topic_id):
                return log_dir
        return default

    def _is_of(self, path: str, topic_id: TopicId) -> bool:
        """True if a directory belongs to this topic, or to none: its topic id was never written."""
        return read_partition_metadata(self._vfs, path) in (None, topic_id)

    def _compare(self, image: Image, found: _Found, default: str) -> None:
        """Make the directories match the image, on the other thread, once at start.

        Directories of partitions deleted during downtime, and half-removed ones, are removed.
        """
        found.removed.clear()
        try:
            for log_dir in self._config.log_dirs:
                for folder in scan_partition_directories(self._vfs, log_dir):
                    self._look_at(folder, image, found)
        except CorruptFileError as error:
            found.error = error
            return
        hosted = local_partitions(image, self._config.node_id)
        self._carry_out(LocalChanges(created=hosted), [], default)

    def _look_at(self, folder: PartitionDirectory, image: Image, found: _Found) -> None:
        if folder.suffix == DELETE_SUFFIX:
            remove_partition_directory(self._vfs, folder.path)
        elif folder.suffix:
            return
        elif folder.topic_id is None:
            self._look_at_nameless(folder, image)
        elif self._is_gone(image, folder.topic_id, folder.partition):
            path = mark_deleted(self._vfs, folder.path, folder.topic_id)
            remove_partition_directory(self._vfs, path)
            found.removed.append(folder.path)
        elif size_bytes := record_bytes(self._vfs, folder.path):
            found.record_bytes[folder.topic_id, folder.partition] = size_bytes

    def _look_at_nameless(self, folder: PartitionDirectory, image: Image) -> None:
        """Remove a directory without topic id if the image lacks the partition; else keep it.

        The process ended before the topic id was durable, hence before any append: a partition of
        the image is completed later (apache/kafka: LogManager.isStrayReplica). A directory that
        holds records all the same is left to the operator.
        """
        topic_id = image.topic_id_by_name.get(folder.topic)
        is_wanted = topic_id is not None and not self._is_gone(image, topic_id, folder.partition)
        if not is_wanted and not record_bytes(self._vfs, folder.path):
            path = mark_deleted(self._vfs, folder.path, self._incarnation_id)
            remove_partition_directory(self._vfs, path)

    def _is_gone(self, image: Image, topic_id: TopicId, number: int) -> bool:
        topic = image.topics.get(topic_id)
        if topic is None:
            return True
        partition = topic.partitions.get(number)
        return partition is None or self._config.node_id not in partition.replicas


def _nothing() -> None:
    """Stand in for a task before the first one."""
