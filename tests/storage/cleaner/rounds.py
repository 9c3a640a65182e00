"""Rounds of cleaning on a disk in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.clean_job import (
    CleanJob,
    CleanRules,
    GroupCleaned,
    LastRecord,
    Progress,
    RoundEnded,
)
from storage.cleaner.cleaner import clean
from storage.segments.segment import segment_name
from storage.vfs import Vfs
from wire.batches.batch import Batch, BatchHeader, encode_records
from wire.batches.compression import Codec
from wire.batches.legacy_batch import iterate_any
from wire.batches.records import RecordView
from wire.types import LeaderEpoch, Offset

DIRECTORY = "/d/comp-0"
NOW_MS = 1_700_000_000_000
RETENTION_MS = 1000
TRANSACTIONAL = 0x10
APPEND_TIME = 0x08
HORIZON = 0x40


def record(
    offset: int,
    key: bytes | None,
    value: bytes | None = b"v",
    timestamp_ms: int = NOW_MS,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> RecordView:
    return RecordView(Offset(offset), timestamp_ms, key, value, headers)


def batch(
    *records: RecordView,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    codec: Codec = Codec.NONE,
    span: tuple[int, int] | None = None,
    horizon_ms: int | None = None,
) -> bytes:
    """A batch of these records; `span` gives its first and last offset if they are others."""
    first, last = span or (records[0].offset, records[-1].offset)
    times = [each.timestamp_ms for each in records] or [NOW_MS]
    header = BatchHeader(
        base_offset=Offset(first),
        leader_epoch=LeaderEpoch(3),
        attributes=int(codec) | attributes | (0 if horizon_ms is None else HORIZON),
        last_offset_delta=last - first,
        base_timestamp_ms=times[0] if horizon_ms is None else horizon_ms,
        max_timestamp_ms=max(times),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        records_count=len(records),
    )
    return encode_records(header, records)


def marker(
    offset: int, producer_id: int, *, commits: bool, epoch: int = 0, horizon_ms: int | None = None
) -> bytes:
    key = b"\0\0" + (b"\0\1" if commits else b"\0\0")
    return batch(
        record(offset, key, bytes(6)),
        producer=(producer_id, epoch, -1),
        attributes=0x30,
        horizon_ms=horizon_ms,
    )


def put(vfs: MemoryVfs, name: str, content: bytes, directory: str = DIRECTORY) -> None:
    vfs.make_directory(directory)
    file = vfs.open(f"{directory}/{name}", create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    file.sync()
    file.close()
    for path in (directory, directory.rpartition("/")[0], "/"):
        vfs.sync_directory(path)


def disk(segments: Mapping[int, Sequence[bytes]]) -> MemoryVfs:
    """A log of these segments: {base offset: batches}."""
    vfs = MemoryVfs()
    for base_offset, batches in segments.items():
        put(vfs, segment_name(base_offset), b"".join(batches))
    return vfs


def job_of(
    bases: Sequence[int],
    end: int,
    *,
    first_dirty: int = 0,
    producers: Sequence[LastRecord] = (),
    later: Sequence[int] = (),
    **more: Any,
) -> CleanJob:
    rules: dict[str, Any] = {
        "segment_bytes": 1 << 20,
        "segment_index_bytes": 1 << 20,
        "index_interval_bytes": 100,
        "delete_retention_ms": RETENTION_MS,
    }
    rules |= {name: more.pop(name) for name in rules if name in more}
    return CleanJob(
        partition="comp-0",
        directory=DIRECTORY,
        segments=tuple(bases),
        later_segments=tuple(later),
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end,
        producers=tuple(producers),
        rules=CleanRules(**rules),
        **({"slots": 1000, "keys_max": 900, "read_bytes": 300, "now_ms": NOW_MS} | more),
    )


def run(vfs: Vfs, job: CleanJob) -> tuple[list[GroupCleaned], RoundEnded]:
    """Run a round to its end; its `.cleaned` files stay beside the log."""
    *groups, ended = [each for each in clean(vfs, job) if not isinstance(each, Progress)]
    assert isinstance(ended, RoundEnded)
    assert all(isinstance(each, GroupCleaned) for each in groups)
    return [each for each in groups if isinstance(each, GroupCleaned)], ended


def cleaned(vfs: MemoryVfs, base_offset: int = 0, suffix: str = ".log") -> bytes:
    return vfs.read(f"{DIRECTORY}/{segment_name(base_offset, suffix)}.cleaned")


def left(content: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of all records of a segment."""
    return [
        (each.offset, each.key, each.value)
        for one in iterate_any(content)
        for each in one.records()
    ]


def headers(content: bytes) -> list[BatchHeader]:
    return [each.header for each in iterate_any(content) if isinstance(each, Batch)]
