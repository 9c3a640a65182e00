"""The control batches of a log directory, read without opening the log: nothing is repaired.

They tell the kraft.version and the voters of a quorum before a node starts, and before it appends
what it has fetched.
"""

import struct
from collections.abc import Iterator
from typing import Final

from storage.segments.segment import segment_base_offset
from storage.vfs import Vfs, join
from wire.batches.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    Batch,
    iterate_batches,
)

WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of one read; more only for a larger control batch."""
_FRAME: Final = struct.Struct(">8xi4xb5xB")  # length, magic, lower half of the attributes
_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
assert WINDOW_BYTES >= HEADER_BYTES, f"{WINDOW_BYTES=}"
assert _FRAME.size <= HEADER_BYTES, f"{_FRAME.size=}"
assert _LENGTH_MIN > 0, "a batch that ends where it begins would be read for ever"


def control_batches(
    vfs: Vfs, directory: str, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[str, Batch]]:
    """Path of the segment and batch, oldest first; batches with a wrong checksum are left out.

    The rest of a segment after damage is left out too; opening the log reports the damage.
    """
    names = (name for name in vfs.list(directory) if segment_base_offset(name) is not None)
    for name in names:
        path = join(directory, name)
        for batch in _of_segment(vfs, path, window_bytes):
            yield path, batch


def control_batches_in(content: bytes) -> Iterator[Batch]:
    """The control batches of bytes from a leader, up to the first cut; wrong checksums left out."""
    view = memoryview(content)
    for start, end in _control_ranges(view)[0]:
        yield from _sound(view[start:end])


def _of_segment(vfs: Vfs, path: str, window_bytes: int) -> Iterator[Batch]:
    assert window_bytes > 0, f"{window_bytes=}"
    position, needed, size_bytes = 0, HEADER_BYTES, vfs.size(path)
    file = vfs.open(path)
    try:
        while needed and needed <= size_bytes - position:
            window = memoryview(file.pread(max(needed, window_bytes), position))
            if len(window) < needed:
                return
            ranges, used, needed = _control_ranges(window)
            for start, end in ranges:
                yield from _sound(window[start:end])
            position += used
    finally:
        file.close()


def _control_ranges(window: memoryview) -> tuple[list[tuple[int, int]], int, int]:
    """The control batches of a window, and where the next window starts.

    Only three fields of a header are read, for speed: a log has a hundred thousand batches.

    Returns:
        [start, end) of the control batches; the end of the last batch, which may be behind the
        window; the bytes that the next window needs from there on, 0 after damage.
    """
    found: list[tuple[int, int]] = []
    position, last, size, unpack = 0, len(window) - HEADER_BYTES, len(window), _FRAME.unpack_from
    while position <= last:
        length, magic, attributes = unpack(window, position)
        if length < _LENGTH_MIN or magic != MAGIC:
            return found, position, 0
        end = position + LOG_OVERHEAD_BYTES + length
        if attributes & CONTROL_BIT:
            if end > size:
                return found, position, end - position
            found.append((position, end))
        position = end
    return found, position, HEADER_BYTES


def _sound(content: memoryview) -> Iterator[Batch]:
    return (batch for batch in iterate_batches(content) if batch.crc_is_valid)
