"""The partition folders of a broker follow the image, off the commit path.

A publisher collects what changed; the driver runs one piece of work at a time on another thread. At
start the folders found are compared with the image once, as soon as the image is new enough to hold
this broker's own registration: before that a missing topic proves nothing.

Changes wait a little for each other: a thread, and a disk made to commit its journal, for each of
many topics that are created one after the other would slow down what those topics wait for.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from broker_publisher.local_changes import LocalChanges, local_changes, local_partitions
from kernel.config import NodeConfig
from kernel.effects import Effect, Log, LogLevel, RunLocalChanges
from metadata.delta import MetadataDelta
from metadata.image import Image
from network.clock import Clock
from storage.errors import CorruptFileError
from storage.partition_directories import (
    DELETE_SUFFIX,
    PartitionDirectory,
    create_partition_directory,
    mark_deleted,
    partition_directory_name,
    record_bytes,
    remove_partition_directory,
    scan_partition_directories,
)
from storage.partition_metadata import read_partition_metadata
from storage.vfs import Vfs, join
from wire.types import DirectoryId, TopicId

LINGER_MS: Final = 50
"""So long after the last change the work begins..."""
LINGER_MS_MAX: Final = 1_000
"""... and at the latest so long after the first."""
RETRY_MS: Final = 1_000
"""After work that failed."""

PartitionKey = tuple[TopicId, int]


class _Found(msgspec.Struct):
    """What the comparison at start found; filled on the other thread, read when it is done."""

    removed: list[str] = msgspec.field(default_factory=list)
    record_bytes: dict[PartitionKey, int] = msgspec.field(default_factory=dict)
    """Of the folders that have records: how many bytes of them."""
    is_complete: bool = False
    error: CorruptFileError | None = None


class Folders:
    """A publisher; it hands out work when none is running."""

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
        self._path_by_id = {identity: path for path, identity in directory_ids.items()}
        self._incarnation_id = incarnation_id
        self._new_uuid = new_uuid
        self._clock = clock
        self._effects = effects
        self._found: _Found | None = None
        self._is_compared = False
        """Whether the comparison has run: `_found` is no longer filled by the other thread."""
        self._waiting: list[LocalChanges] = []
        self._due_ms = self._due_ms_max = 0
        """When what waits is to be done; both count while something waits."""
        self._is_running = False
        self._work: Callable[[], None] = _nothing
        """What runs, or ran last."""
        self._retry_ms: int | None = None
        """When it is done again because it failed; what waits comes after it."""
        self._going: list[PartitionKey] = []
        """Whose folders the work that runs removes."""
        self._next_token = 1

    def with_records(self) -> AbstractSet[PartitionKey] | None:
        """The partitions whose folders hold records; None before all were looked at."""
        if not self._is_compared or self._found is None or not self._found.is_complete:
            return None
        return self._found.record_bytes.keys()

    def record_bytes(self) -> Mapping[PartitionKey, int]:
        """How many bytes of records the folders of partitions have; only those that have any.

        Found at start: a node that keeps metadata only writes none. Empty until all were looked at.
        """
        return self._found.record_bytes if self._is_compared and self._found is not None else {}

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Collect what the change means for the folders."""
        broker_id = self._config.node_id
        if self._found is not None:
            changes = local_changes(before, after, delta, broker_id)
            if not changes.is_empty:
                now_ms = self._clock.now_ms
                if not self._waiting:
                    self._due_ms_max = now_ms + LINGER_MS_MAX
                self._due_ms = min(now_ms + LINGER_MS, self._due_ms_max)
                self._waiting.append(changes)
                self._clock.timers_moved = True
            return
        broker = after.brokers.get(broker_id)
        if broker is not None and broker.incarnation_id == self._incarnation_id:
            self._found = found = _Found()
            self._run(lambda: self._compare(after, found))

    def done(self, error: str | None) -> None:
        """The work handed out has run, up to an error: then it is done again, in the same order.

        Raises:
            CorruptFileError: at start a folder was found that Kafka would not start with.
        """
        assert self._is_running, "no work was handed out"
        assert self._found is not None, "the comparison comes first"
        self._clock.timers_moved = True
        self._is_running = False
        if error is not None:
            self._retry_ms = self._clock.now_ms + RETRY_MS
            self._effects.append(Log(LogLevel.ERROR, "local_changes_failed", {"error": error}))
            return
        if not self._is_compared:
            self._is_compared = True
            if self._found.error is not None:
                raise self._found.error
            for path in self._found.removed:
                fields = {"folder": path}
                self._effects.append(Log(LogLevel.INFO, "deleted_partition_removed", fields))
        going, self._going = self._going, []
        for key in going:
            self._found.record_bytes.pop(key, None)

    def next_deadline_ms(self) -> int | None:
        """When to tick."""
        if self._retry_ms is not None:
            return self._retry_ms
        return self._due_ms if self._waiting and not self._is_running else None

    def tick(self) -> None:
        """Hand out what has waited long enough."""
        due_ms = self.next_deadline_ms()
        if due_ms is None or due_ms > self._clock.now_ms:
            return
        if self._retry_ms is not None:
            self._retry_ms = None
            self._run(self._work)
            return
        changes, self._waiting = self._waiting, []
        self._going = [(one.topic_id, one.partition) for it in changes for one in it.deleted]
        unique_ids = [[self._new_uuid() for _ in change.deleted] for change in changes]

        def work() -> None:
            for change, ids in zip(changes, unique_ids, strict=True):
                self._carry_out(change, ids)

        self._run(work)

    def _run(self, work: Callable[[], None]) -> None:
        assert not self._is_running, "one piece of work at a time"
        self._clock.timers_moved = True
        self._is_running = True
        self._work = work
        token = self._next_token
        self._next_token += 1
        self._effects.append(RunLocalChanges(token, work))

    def _carry_out(self, changes: LocalChanges, unique_ids: list[bytes]) -> None:
        """On the other thread: touches only folders, and nothing of the kernel's state.

        Done again after an error it finds what it did before: a folder of that name may be the one
        of the next topic by then.
        """
        vfs = self._vfs
        for partition, unique_id in zip(changes.deleted, unique_ids, strict=True):
            name = partition_directory_name(partition.topic_name, partition.partition)
            for log_dir in self._config.log_dirs:
                path = join(log_dir, name)
                if vfs.exists(path) and self._is_of(path, partition.topic_id):
                    remove_partition_directory(vfs, mark_deleted(vfs, path, unique_id))
        for created in changes.created:
            log_dir = self._path_by_id.get(created.directory_id, self._config.log_dirs[0])
            create_partition_directory(
                vfs, log_dir, created.topic_name, created.partition, created.topic_id
            )

    def _is_of(self, path: str, topic_id: TopicId) -> bool:
        """Whether a folder is of this topic, or of nobody: not even its topic was written."""
        return read_partition_metadata(self._vfs, path) in (None, topic_id)

    def _compare(self, image: Image, found: _Found) -> None:
        """On the other thread, once at start: the folders become what the image says.

        Removed is what was deleted while this broker was away, and what was being removed.
        """
        found.removed.clear()
        try:
            for log_dir in self._config.log_dirs:
                for folder in scan_partition_directories(self._vfs, log_dir):
                    self._look_at(folder, image, found)
        except CorruptFileError as error:
            found.error = error
            return
        found.is_complete = True
        hosted = local_partitions(image, self._config.node_id)
        self._carry_out(LocalChanges(created=hosted), [])

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
        """The process ended before its topic id was durable, hence before anything was appended.

        It is completed if the image has it, else removed (apache/kafka: LogManager.isStrayReplica);
        one that holds records all the same is left to the person.
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
    """No work yet."""
