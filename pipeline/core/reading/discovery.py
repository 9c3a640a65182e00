"""Discovery of log directories, partitions, segments and snapshots below the given paths.

A path is a log directory, a folder of such (a cluster's), a partition directory, a `.log` or a
`.checkpoint` file, or a glob of these. Everything is only read, also in directories of live nodes,
and every file size is taken once: later appends belong to the next listing.
"""

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pipeline.core.errors import BadInputError
from pipeline.core.reading.opening import NO_FILE, input_errors
from storage.checkpoints.checkpoint_files import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    RECOVERY_POINT_NAME,
    decode_lines,
    decode_offsets,
)
from storage.checkpoints.flushed_end_file import FLUSHED_END_NAME, decode_flushed_end
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import (
    META_PROPERTIES_NAME,
    MetaProperties,
    decode_meta_properties,
    encode_uuid,
)
from storage.log_dir.partition_directories import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    parse_partition_directory,
)
from storage.log_dir.partition_metadata import PARTITION_METADATA_NAME, decode_partition_metadata
from storage.log_dir.snapshot_files import CHECKPOINT_SUFFIX, parse_snapshot_name
from wire.types import METADATA_TOPIC_ID, METADATA_TOPIC_NAME

LOG_SUFFIX: Final = ".log"
CLEANER_NAME: Final = "cleaner-offset-checkpoint"
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
UNKNOWN_TOPIC: Final = "unknown"  # a file outside any partition directory
DEAD_LINK: Final = "a link that leads nowhere"
HIDDEN_SUFFIXES: Final = (DELETE_SUFFIX, STRAY_SUFFIX, FUTURE_SUFFIX)
_DEPTH_MAX: Final = 3
_SEGMENT: Final = re.compile(r"(\d{20})\.log")


class SegmentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A segment or a snapshot with its size at the time of listing.

    `base_offset` is the segment's, for a snapshot its exclusive end. Only the last segment of
    a directory may end inside a batch.
    """

    path: str
    topic: str
    partition: int
    base_offset: int
    size: int
    is_last: bool = True
    is_snapshot: bool = False
    node_id: int | None = None
    topic_id: str | None = None

    @property
    def name(self) -> str:
        """File name: the column `segment`."""
        return self.path.rpartition("/")[2]

    @property
    def directory(self) -> str:
        """Partition directory."""
        return self.path.rpartition("/")[0]

    @property
    def log_directory(self) -> str:
        """Directory of the node's partitions; for a file outside any partition its own one."""
        if self.topic == UNKNOWN_TOPIC or self.name == BOOTSTRAP_NAME:
            return self.directory
        return self.directory.rpartition("/")[0] or "."

    def beside(self, suffix: str) -> str:
        """Return the path of an index or state file of the same segment."""
        return self.path.removesuffix(LOG_SUFFIX) + suffix


class PartitionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """One replica: its segments in offset order and its entries in the checkpoints.

    `log_start` and `high_watermark` are None if no checkpoint names the partition; the former
    also if the files themselves were given: these are read whole. All below `recovery_point` was
    flushed: what is torn there was lost later, and no append in progress.
    """

    directory: str
    topic: str
    partition: int
    node_id: int | None = None
    topic_id: str | None = None
    segments: tuple[SegmentFile, ...] = ()
    snapshots: tuple[SegmentFile, ...] = ()
    log_start: int | None = None
    high_watermark: int | None = None
    is_cleaned: bool = False
    recovery_point: int = 0

    @property
    def first_offset(self) -> int:
        """Base offset of the first segment."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def log_start_offset(self) -> int:
        """First offset that is not deleted: DeleteRecords leaves earlier records in a file."""
        return max(self.first_offset, self.log_start or 0)


class Listing(msgspec.Struct, frozen=True):
    """All partitions found, sorted by topic, partition, node; and the problems beside them."""

    partitions: tuple[PartitionFiles, ...]
    problems: tuple[str, ...] = ()
    cluster_id: str | None = None

    @property
    def files(self) -> list[SegmentFile]:
        """Every segment and snapshot."""
        return [file for found in self.partitions for file in (*found.segments, *found.snapshots)]


@input_errors()
def discover(
    paths: Sequence[str],
    *,
    include_hidden: bool = False,
    include_snapshots: bool = False,
    strict: bool = True,
) -> Listing:
    """List the files below the paths.

    Args:
        paths: of directories or files; globs are expanded.
        include_hidden: include `-delete`, `-stray` and `-future` directories.
        include_snapshots: include snapshots in directories; one given by its path always is.
        strict: raise for a damaged small file (meta.properties, checkpoints); otherwise
            it is one of `problems`.

    Raises:
        BadInputError: a path that does not exist or cannot be read, several clusters, or a
            damaged file when `strict`.
    """
    walk = _Walk(include_hidden, include_snapshots)
    for pattern in paths:
        for path in _expand(pattern):
            walk.visit(path)
    if strict and walk.problems:
        raise BadInputError(walk.problems[0])
    if len(walk.clusters) > 1:
        named = "; ".join(f"{cluster} in {path}" for cluster, path in sorted(walk.clusters.items()))
        raise BadInputError(f"several clusters below one input, read them one by one: {named}")
    found = sorted(
        walk.partitions.values(),
        key=lambda one: (one.topic, one.partition, -1 if one.node_id is None else one.node_id,
                         one.directory),
    )  # fmt: skip
    return Listing(tuple(found), tuple(walk.problems), next(iter(walk.clusters), None))


def _expand(pattern: str) -> Iterator[str]:
    path = pattern.removeprefix("file://")
    if not path:
        raise BadInputError("an input is empty, name a file or directory")
    if Path(path).exists():
        yield path.rstrip("/") or "/"
        return
    found = sorted(glob.glob(path))  # noqa: PTH207  # the pattern may be absolute
    if not found:
        raise BadInputError(f"{pattern}: no such file or directory")
    yield from found


class _Walk:
    """Files found so far."""

    def __init__(self, include_hidden: bool, include_snapshots: bool) -> None:  # noqa: FBT001
        self.include_hidden = include_hidden
        self.include_snapshots = include_snapshots
        self.partitions: dict[str, PartitionFiles] = {}
        self.problems: list[str] = []
        self.clusters: dict[str, str] = {}
        self._log_directories: dict[str, _LogDirectory] = {}
        self._visited: set[str] = set()

    def visit(self, path: str, depth: int = 0) -> None:
        if Path(path).is_file():
            self._add_file(path)
            return
        real = os.path.realpath(path)
        if real in self._visited:  # by a link, or given twice
            return
        self._visited.add(real)
        names = self._list(path)
        if self._is_partition(path, names):
            self._add_partition(path, names)
            return
        children = [f"{path}/{name}" for name in names if Path(path, name).is_dir()]
        if META_PROPERTIES_NAME in names:
            self._log_directory(path)
        if depth < _DEPTH_MAX:
            for child in children:
                self.visit(child, depth + 1)

    def _list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))  # noqa: PTH208  # names, not paths
        except OSError as error:
            raise BadInputError(f"{path}: can not be read: {error.strerror}") from error

    def _is_partition(self, path: str, names: list[str]) -> bool:
        has_segments = any(_SEGMENT.fullmatch(name) for name in names)
        has_snapshots = any(parse_snapshot_name(name) for name in names)
        parsed = parse_partition_directory(path)
        return (
            has_segments
            or has_snapshots
            or (parsed is not None and PARTITION_METADATA_NAME in names)
        )

    def _add_partition(self, path: str, names: list[str], only: str | None = None) -> None:
        parsed = parse_partition_directory(path)
        if parsed is not None and parsed.suffix and not self.include_hidden:
            return
        topic, partition = (parsed.topic, parsed.partition) if parsed else (UNKNOWN_TOPIC, -1)
        home = self._log_directory(path.rpartition("/")[0] or ".")
        flushed_end = _flushed_end(path)  # before the sizes: a node that runs goes on
        empty = PartitionFiles(
            directory=path,
            topic=topic,
            partition=partition,
            node_id=home.node_id,
            topic_id=self._topic_id(path, names, topic),
        )
        segments, snapshots = [], []
        bases = [int(found[1]) for found in map(_SEGMENT.fullmatch, names) if found]
        for name in names if only is None else [only]:
            snapshot_id = parse_snapshot_name(name)
            if found := _SEGMENT.fullmatch(name):
                base = int(found[1])
                segments += self._file(empty, name, base, is_last=base == max(bases))
            elif snapshot_id is not None and (self.include_snapshots or only is not None):
                snapshots += self._file(empty, name, snapshot_id.offset, is_last=False)
        key = topic, partition
        known = self.partitions.get(path)
        if known is not None and only is not None:
            merged = {file.path: file for file in (*known.segments, *segments)}
            segments = sorted(merged.values(), key=lambda file: file.base_offset)
            merged = {file.path: file for file in (*known.snapshots, *snapshots)}
            snapshots = sorted(merged.values(), key=lambda file: file.base_offset)
        self.partitions[path] = msgspec.structs.replace(
            empty,
            segments=tuple(segments),
            snapshots=tuple(snapshots),
            log_start=None if only is not None else home.log_starts.get(key),
            high_watermark=home.high_watermarks.get(key),
            is_cleaned=key in home.cleaned,
            recovery_point=max(home.recovery_points.get(key, 0), flushed_end),
        )

    def _file(
        self, owner: PartitionFiles, name: str, base_offset: int, *, is_last: bool
    ) -> list[SegmentFile]:
        """Return one file with its size; none if it was deleted since the directory was listed."""
        path = f"{owner.directory}/{name}"
        try:
            found = Path(path).stat()
            size = found.st_size
            if not stat.S_ISREG(found.st_mode):
                self.problems.append(f"{path}: {NO_FILE}")
        except FileNotFoundError:
            if not Path(path).is_symlink():
                return []
            self.problems.append(f"{path}: {DEAD_LINK}")
            size = 0
        return [
            SegmentFile(
                path=path,
                topic=owner.topic,
                partition=owner.partition,
                base_offset=base_offset,
                size=size,
                is_last=is_last,
                is_snapshot=name.endswith(CHECKPOINT_SUFFIX),
                node_id=owner.node_id,
                topic_id=owner.topic_id,
            )
        ]

    def _add_file(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        directory = directory or "."
        if _SEGMENT.fullmatch(name) or parse_snapshot_name(name):
            self._add_partition(directory, self._list(directory), only=name)
        elif name == BOOTSTRAP_NAME:
            home = self._log_directory(directory)
            file = SegmentFile(
                path=path, topic=METADATA_TOPIC_NAME, partition=0, base_offset=0,
                size=Path(path).stat().st_size, is_last=False, is_snapshot=True,
                node_id=home.node_id, topic_id=encode_uuid(METADATA_TOPIC_ID),
            )  # fmt: skip
            self.partitions[path] = PartitionFiles(
                directory=path, topic=METADATA_TOPIC_NAME, partition=0, node_id=home.node_id,
                topic_id=file.topic_id, snapshots=(file,),
            )  # fmt: skip
        else:
            raise BadInputError(
                f"{path}: not a segment (20 digits{LOG_SUFFIX}) or snapshot"
                f" (20 digits, 10 digits{CHECKPOINT_SUFFIX})"
            )

    def _topic_id(self, path: str, names: list[str], topic: str) -> str | None:
        if topic == METADATA_TOPIC_NAME:
            return encode_uuid(METADATA_TOPIC_ID)
        if PARTITION_METADATA_NAME not in names:
            return None
        file = f"{path}/{PARTITION_METADATA_NAME}"
        try:
            return encode_uuid(decode_partition_metadata(Path(file).read_bytes(), file))
        except CorruptFileError as error:
            self.problems.append(str(error))
        except OSError:
            pass  # deleted since the directory was listed
        return None

    def _log_directory(self, path: str) -> "_LogDirectory":
        known = self._log_directories.get(path)
        if known is None:
            known = self._log_directories[path] = _LogDirectory.read(path, self.problems)
            if known.cluster_id is not None:
                self.clusters.setdefault(known.cluster_id, path)
        return known


class _LogDirectory(msgspec.Struct):
    """Contents of the files beside the partition directories."""

    node_id: int | None = None
    cluster_id: str | None = None
    log_starts: dict[tuple[str, int], int] = {}
    high_watermarks: dict[tuple[str, int], int] = {}
    cleaned: frozenset[tuple[str, int]] = frozenset()
    recovery_points: dict[tuple[str, int], int] = {}

    @classmethod
    def read(cls, path: str, problems: list[str]) -> "_LogDirectory":
        found = cls()
        try:
            meta = _read(path, META_PROPERTIES_NAME)
            if meta is not None:
                properties: MetaProperties = decode_meta_properties(*meta)
                found.node_id, found.cluster_id = properties.node_id, properties.cluster_id
        except CorruptFileError as error:
            problems.append(str(error))
        found.log_starts = _offsets(path, LOG_START_NAME, problems)
        found.high_watermarks = _offsets(path, HIGH_WATERMARK_NAME, problems)
        # a node takes a damaged one for an empty one
        found.recovery_points = _offsets(path, RECOVERY_POINT_NAME, [])
        try:
            cleaner = _read(path, CLEANER_NAME)
            lines = decode_lines(*cleaner) if cleaner is not None else []
            found.cleaned = frozenset((line[0], int(line[1])) for line in lines)
        except (CorruptFileError, ValueError, IndexError) as error:
            problems.append(f"{path}/{CLEANER_NAME}: {error}")
        return found


def _flushed_end(directory: str) -> int:
    """The end that a node of kraftline flushed; 0 without one."""
    try:
        return decode_flushed_end(Path(directory, FLUSHED_END_NAME).read_bytes()) or 0
    except OSError:
        return 0


def _read(directory: str, name: str) -> tuple[bytes, str] | None:
    path = Path(directory, name)
    try:
        return path.read_bytes(), str(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptFileError(str(path), f"can not be read: {error.strerror}") from error


def _offsets(directory: str, name: str, problems: list[str]) -> dict[tuple[str, int], int]:
    try:
        content = _read(directory, name)
        return {} if content is None else decode_offsets(*content)
    except CorruptFileError as error:
        problems.append(str(error))
        return {}
