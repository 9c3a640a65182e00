"""Batches in the files of a partition, read from the disk behind the broker's back."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from simulator.cluster.machine import DATA
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.partition_metadata import (
    PARTITION_METADATA_NAME,
    encode_partition_metadata,
)
from wire.batches.batch import iterate_batches
from wire.types import TopicId

OVERHEAD_BYTES: Final = 12
KEPT_FILES: Final = 512
KEPT_BATCHES: Final = 4_096
COMMIT_KEY: Final = b"\0\0\0\1"
"""Key of the marker of a commit: version 0, type 1."""


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a segment."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    values: tuple[bytes, ...]
    content: bytes
    is_transactional: bool = False
    marker: bool | None = None
    """True for the commit of a transaction, False for its abort; None for what is no marker."""


def stored_batches(
    vfs: MemoryVfs,
    topic: str,
    partition: int,
    topic_id: bytes | None = None,
    log_dirs: Sequence[str] = (DATA,),
) -> list[StoredBatch]:
    """All whole batches of a partition, in order; none if it has no directory of this id."""
    for log_dir in log_dirs:
        directory = f"{log_dir}/{topic}-{partition}"
        if vfs.is_directory(directory) and _belongs_to(vfs, directory, topic_id):
            return batches_in(vfs, directory)
    return []


def _belongs_to(vfs: MemoryVfs, directory: str, topic_id: bytes | None) -> bool:
    if topic_id is None:
        return True
    content = vfs.written_content(f"{directory}/{PARTITION_METADATA_NAME}")
    return content is not None and bytes(content) == encode_partition_metadata(TopicId(topic_id))


def batches_in(vfs: MemoryVfs, directory: str) -> list[StoredBatch]:
    """All whole batches of a directory, in order."""
    found: list[StoredBatch] = []
    for name in vfs.list(directory):
        if name.endswith(".log"):
            content = vfs.written_content(f"{directory}/{name}")
            assert content is not None
            found += _batches(bytes(content))
    return found


@lru_cache(KEPT_FILES)
def _batches(content: bytes) -> tuple[StoredBatch, ...]:
    """Batches of a file; what bytes mean is the same at every look, on every node."""
    return tuple(_batch(content[begin:end]) for begin, end in _places(content))


@lru_cache(KEPT_BATCHES)
def _batch(content: bytes) -> StoredBatch:
    (batch,) = iterate_batches(content)
    records = tuple(batch.records())
    # of a marker that the cleaner took away an empty batch may be left, for its producer
    is_marker = batch.header.is_control and batch.header.is_transactional and bool(records)
    return StoredBatch(
        base_offset=batch.header.base_offset,
        end_offset=batch.header.end_offset,
        leader_epoch=batch.header.leader_epoch,
        producer_id=batch.header.producer_id,
        producer_epoch=batch.header.producer_epoch,
        base_sequence=batch.header.base_sequence,
        values=tuple(record.value or b"" for record in records),
        content=content,
        is_transactional=batch.header.is_transactional,
        marker=records[0].key == COMMIT_KEY if is_marker else None,
    )


def whole_batches(content: bytes) -> bytes:
    """The bytes without a batch that is cut at the end."""
    ends = [end for _, end in _places(content)]
    return content[: ends[-1]] if ends else b""


def _places(content: bytes) -> Iterator[tuple[int, int]]:
    """The begin and end of each whole batch."""
    begin, size = 0, len(content)
    while begin + OVERHEAD_BYTES <= size:
        length = int.from_bytes(content[begin + 8 : begin + OVERHEAD_BYTES], "big")
        end = begin + OVERHEAD_BYTES + length
        if length == 0 or end > size:
            return
        yield begin, end
        begin = end
