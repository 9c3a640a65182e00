"""Tasks of an export: each reads pieces of one partition and writes their files."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import crc32c
import msgspec
import pyarrow as pa

from pipeline.core.audit.findings import ERROR, Finding
from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.reading.opening import open_segment
from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import Piece, read_schema, read_splits
from pipeline.core.records.batches import Fault, scan
from pipeline.core.stage import Stage
from pipeline.jobs.export.files import SplitFiles, Target

SHOWN: Final = 20  # damaged places printed on stderr; all are in --errors-path
Task = tuple[Piece, ...]


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """One written file: a row of the manifest.

    Its rows are from the bytes between `start` in `segment` and `end` in `last_segment`, which
    has `segment_bytes`; their offsets are in [start_offset, end_offset). `crc_of_crcs` is the
    CRC-32C of the stored checksums of the batches there, so two exports can be compared without
    reading either.
    """

    file: str
    topic: str
    topic_id: str | None
    partition: int
    node_id: int | None
    segment: str
    start: int
    last_segment: str
    end: int
    segment_bytes: int
    crc_of_crcs: int
    rows: int
    bytes: int
    start_offset: int | None
    end_offset: int | None


MANIFEST: Final = pa.schema(
    [
        ("file", pa.string()), ("topic", pa.string()), ("topic_id", pa.string()),
        ("partition", pa.int32()), ("node_id", pa.int32()), ("segment", pa.string()),
        ("start", pa.int64()), ("last_segment", pa.string()), ("end", pa.int64()),
        ("segment_bytes", pa.int64()), ("crc_of_crcs", pa.int64()), ("rows", pa.int64()),
        ("bytes", pa.int64()), ("start_offset", pa.int64()), ("end_offset", pa.int64()),
    ]
)  # fmt: skip


class Damage(msgspec.Struct):
    """Damage in a task: the count and the first places; the first file that was gone.

    `unread` is the topic and the partition of a file that the disk did not give.
    """

    count: int = 0
    first: list[Finding] = []
    gone: str | None = None
    unread: tuple[str, int] | None = None

    def add(self, file: SegmentFile, fault: Fault) -> None:
        """Count one fault."""
        self.count += 1
        if self.gone is None and fault.reason == "vanished":
            self.gone = f"{file.path}:{fault.position}"
        if fault.reason == "unreadable":
            self.unread = (file.topic, file.partition)
        if len(self.first) < SHOWN:
            self.first.append(
                Finding(
                    severity=ERROR, check=fault.reason, path=file.path, position=fault.position,
                    length=fault.length, offset=fault.base_offset, detail=fault.detail,
                )
            )  # fmt: skip


def export_stage(
    tasks: Sequence[Task], options: Options, target: Target
) -> Stage[Task, list[Exported | Damage]]:
    """The work of an export: tasks, each of which writes its files."""
    sizes = tuple(sum(piece.split.size for piece in task) for task in tasks)
    return Stage(partial(_written, options=options, target=target), tuple(tasks), sizes)


def manifest_of(written: Sequence[Exported]) -> pa.Table:
    """The manifest of files, in the order of the tasks."""
    return pa.Table.from_pylist([msgspec.structs.asdict(one) for one in written], MANIFEST)


def _written(task: Task, *, options: Options, target: Target) -> list[Exported | Damage]:
    return list(write_pieces(task, options, target))


def write_pieces(task: Task, options: Options, target: Target) -> Iterator[Exported | Damage]:
    """Write the pieces of a task to its files; one that runs again writes the same files."""
    schema = read_schema(options)
    first, last = task[0].split, task[-1].split
    checksum = crc_of_crcs(task)
    files = SplitFiles(target, task, schema)
    damage = Damage()
    for batch in read_splits(task, options, schema, damage.add):
        files.write(batch)
    for one in files.close():
        yield Exported(
            file=str(one.path.relative_to(target.folder)),
            topic=first.file.topic, topic_id=first.file.topic_id, partition=first.file.partition,
            node_id=first.file.node_id, segment=first.file.name, start=first.start,
            last_segment=last.file.name, end=last.end, segment_bytes=last.frozen_size,
            crc_of_crcs=checksum, rows=one.rows, bytes=one.path.stat().st_size,
            start_offset=one.start_offset, end_offset=one.end_offset,
        )  # fmt: skip
    if damage.count:
        yield damage


def crc_of_crcs(pieces: Sequence[Piece]) -> int:
    """CRC-32C of the stored checksums of the pieces' batches, four bytes each, in order."""
    found = 0
    for piece in pieces:
        split = piece.split
        try:
            with open_segment(split.file.path) as descriptor:
                for table in scan(
                    descriptor, split.start, split.end, frozen_size=split.frozen_size,
                    is_last=split.file.is_last, validate="header", reads_old_formats=True,
                ):  # fmt: skip
                    found = crc32c.crc32c(table.headers["crc"].tobytes(), found)
        except OSError:
            return 0  # the reader reports the error, by its mode
    return found
