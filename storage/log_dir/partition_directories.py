"""The partition directories of a log directory: names, creation, deletion, scan."""

import contextlib
import re
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from storage.checkpoints.checkpoint_files import OffsetCheckpoint, RecoveryPoint
from storage.checkpoints.flushed_end_file import FlushedEndFile
from storage.errors import CorruptFileError
from storage.log_dir.partition_metadata import read_partition_metadata, write_partition_metadata
from storage.logs.log import Log, LogConfig
from storage.segments.segment import LOG_SUFFIX
from storage.vfs import Vfs, base_name, join, parent
from wire.types import METADATA_TOPIC_ID, METADATA_TOPIC_NAME, TopicId

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
_NAME_MAX: Final = 255
_SUFFIXED: Final = re.compile(r"(.+)-([0-9]+)\.([0-9a-f]{32})(-delete|-stray|-future)")
_PLAIN: Final = re.compile(r"(.+)-([0-9]+)")
_PARTITION_MAX: Final = (1 << 31) - 1
_SKIPPED: Final = frozenset({"remote-log-index-cache"})


class PartitionDirectory(msgspec.Struct, frozen=True):
    """A directory that holds (or held) a partition; `suffix` is empty for a live one."""

    path: str
    topic: str
    partition: int
    topic_id: TopicId | None = None
    suffix: str = ""


def partition_directory_name(topic: str, partition: int) -> str:
    """The name `topic-partition`."""
    return f"{topic}-{partition}"


def parse_partition_directory(path: str) -> PartitionDirectory | None:
    """The partition in a directory name; None if it is not that of a partition directory."""
    name = base_name(path)
    suffixed = _SUFFIXED.fullmatch(name)
    found = suffixed or _PLAIN.fullmatch(name)
    if found is None or len(name) > _NAME_MAX or int(found[2]) > _PARTITION_MAX:
        return None
    suffix = "" if suffixed is None else suffixed[4]
    return PartitionDirectory(path, found[1], int(found[2]), suffix=suffix)


def future_directory_name(topic: str, partition: int, unique_id: bytes) -> str:
    """The name of the directory of a replica that moves to another log directory.

    Kafka does not cut the topic here; a name of more than 255 characters cannot be used.
    """
    return f"{topic}-{partition}.{unique_id.hex()}{FUTURE_SUFFIX}"


def has_future_name(topic: str, partition: int) -> bool:
    """True if the directory of a moving replica has a name that is not too long."""
    return len(future_directory_name(topic, partition, bytes(16))) <= _NAME_MAX


def create_partition_directory(
    vfs: Vfs,
    log_directory: str,
    topic: str,
    partition: int,
    topic_id: TopicId,
    name: str | None = None,
) -> str:
    """Create the directory with its `partition.metadata`, durably, if it does not exist.

    Args:
        vfs: the disk.
        log_directory: the directory above it.
        topic: of the partition.
        partition: number.
        topic_id: of the topic.
        name: of the directory, None for that of the partition.

    Raises:
        CorruptFileError: the directory belongs to another topic id.
    """
    assert 0 <= partition <= _PARTITION_MAX, f"{partition=}"
    path = join(log_directory, name or partition_directory_name(topic, partition))
    vfs.make_directory(path)
    found = read_partition_metadata(vfs, path)
    if found is None:
        write_partition_metadata(vfs, path, topic_id)
        vfs.sync_directory(log_directory)
    elif found != topic_id:
        raise CorruptFileError(path, f"belongs to topic id {found.hex()}, not {topic_id.hex()}")
    return path


def mark_deleted(vfs: Vfs, path: str, unique_id: bytes) -> str:
    """Rename the directory of a deleted partition, durably, and return the new path."""
    return _renamed(vfs, path, unique_id, DELETE_SUFFIX)


def mark_stray(vfs: Vfs, path: str, unique_id: bytes) -> str:
    """Rename a directory that belongs to no partition of this broker, as `mark_deleted` does."""
    return _renamed(vfs, path, unique_id, STRAY_SUFFIX)


def _renamed(vfs: Vfs, path: str, unique_id: bytes, suffix: str) -> str:
    """Kafka's form of a name with a suffix: the topic is cut so that it has 255 characters."""
    assert len(unique_id) == 16
    directory = parse_partition_directory(path)
    assert directory is not None
    assert directory.suffix in ("", FUTURE_SUFFIX), f"{path=}"
    ending = f"-{directory.partition}.{unique_id.hex()}{suffix}"
    target = join(parent(path), directory.topic[: _NAME_MAX - len(ending)] + ending)
    marked = parse_partition_directory(target)
    assert marked is not None, f"{target} would not be found again"
    assert marked.suffix == suffix, f"{marked=}"
    assert marked.partition == directory.partition, f"{marked=} {directory=}"
    vfs.rename(path, target)
    vfs.sync_directory(parent(path))
    return target


def mark_current(vfs: Vfs, path: str) -> str:
    """Rename the directory of a moved replica to that of its partition, and return the new path.

    Durable once the log directory is synced.
    """
    directory = parse_partition_directory(path)
    assert directory is not None
    assert directory.suffix == FUTURE_SUFFIX, f"{path=}"
    target = join(parent(path), partition_directory_name(directory.topic, directory.partition))
    assert not vfs.exists(target), f"{target=}"
    vfs.rename(path, target)
    return target


def remove_partition_directory(vfs: Vfs, path: str) -> None:
    """Remove a directory that was marked deleted, with its files; durable."""
    directory = parse_partition_directory(path)
    assert directory is not None
    assert directory.suffix == DELETE_SUFFIX
    for name in vfs.list(path):
        with contextlib.suppress(FileNotFoundError):
            vfs.unlink(join(path, name))
    vfs.remove_directory(path)
    vfs.sync_directory(parent(path))


def scan_partition_directories(vfs: Vfs, log_directory: str) -> list[PartitionDirectory]:
    """All partition directories but the metadata log's; no log is opened.

    Raises:
        CorruptFileError: a directory with which Kafka would not start, or a bad partition.metadata.
    """
    found: list[PartitionDirectory] = []
    for name in vfs.list(log_directory):
        path = join(log_directory, name)
        if not vfs.is_directory(path) or name in _SKIPPED:
            continue
        directory = parse_partition_directory(path)
        if directory is None:
            raise CorruptFileError(path, "is not in the form of topic-partition")
        if directory.topic == METADATA_TOPIC_NAME:
            continue
        is_log = directory.suffix in ("", FUTURE_SUFFIX)
        topic_id = read_partition_metadata(vfs, path) if is_log else None
        found.append(msgspec.structs.replace(directory, topic_id=topic_id))
    return found


def record_bytes(vfs: Vfs, path: str) -> int:
    """Total bytes of all segments of a partition directory: Kafka's `log.size`."""
    names = vfs.list(path)
    return sum(vfs.size(join(path, name)) for name in names if name.endswith(LOG_SUFFIX))


def open_metadata_log(
    vfs: Vfs,
    log_directory: str,
    config: LogConfig,
    guard: AbstractContextManager[object] | None = None,
) -> Log:
    """Open or create `__cluster_metadata-0` with its recorded flushed end.

    The guard is held while that is written, if another thread writes the file for other logs.

    Raises:
        CorruptLogError: damage below the recorded flushed end.
        CorruptFileError: a checkpoint or partition.metadata is damaged.
    """
    path = create_partition_directory(vfs, log_directory, METADATA_TOPIC_NAME, 0, METADATA_TOPIC_ID)
    checkpoint = OffsetCheckpoint(vfs, log_directory, guard=guard)
    flushed_end = FlushedEndFile(vfs, path)
    point = RecoveryPoint(checkpoint, METADATA_TOPIC_NAME, 0, flushed_end)
    return Log.open(vfs, path, config, point)
