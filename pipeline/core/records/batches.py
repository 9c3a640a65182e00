"""Header walk: positions of the batches of a segment, and the damage between them.

A segment is read through a window of some MiB. Inside a window a scalar loop hops from length to
length and numpy gathers all 61-byte headers at once: a batch costs well under a microsecond.
The bytes between two sound batches are a `Fault`; after one the walk continues at the next position
where a batch with a valid checksum starts (`resync`), so damage never hides later batches.
"""

import os
import struct
from collections.abc import Iterator
from typing import Any, Final

import crc32c
import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.core.records.old_messages import hop_old, is_old_sound, old_headers
from wire.batches.batch import (
    CRC_START,
    HEADER_BYTES,
    HEADER_FORMAT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    why_no_batch,
)
from wire.batches.batch import BatchHeader as _BatchHeader
from wire.batches.old_messages import old_bytes_at

Int64Array = npt.NDArray[np.int64]
WINDOW_BYTES: Final = 8 << 20
BATCH_BYTES_MAX: Final = 256 << 20  # no broker takes larger ones; a limit for damaged lengths
RESYNC_LENGTH_MAX: Final = 100 << 20  # longest batch that `resync` considers
_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
_HOP: Final = struct.Struct(">i4xb")  # length, then magic, from byte 8 of a batch
_HOP_BYTES: Final = LOG_OVERHEAD_BYTES + 5

HEADER_DTYPE: Final = np.dtype(
    [
        (name, f">{code}")
        for name, code in zip(_BatchHeader.__struct_fields__, HEADER_FORMAT[1:], strict=True)
    ]
)
assert HEADER_DTYPE.itemsize == HEADER_BYTES
_HEADER_RANGE: Final = np.arange(HEADER_BYTES)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are not a sound batch.

    `reason` is one of short_header, partial_tail, zero_tail (zeros to the end of the file),
    bad_length, bad_magic, old_magic, bad_crc, unknown_codec, reserved_attr_bits,
    record_count_mismatch, bad_records, offset_not_monotone, ts_gt_max, vanished. `position` is in
    the file, `length` the bytes until reading continues.
    """

    reason: str
    position: int
    length: int
    base_offset: int | None = None
    detail: str = ""


class BatchRef(msgspec.Struct, frozen=True, gc=False):
    """One batch of a segment by its header; offsets are inclusive, position is in the file."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    epoch: int
    attrs: int
    base_ts: int
    max_ts: int
    pid: int
    pepoch: int
    bseq: int
    count: int
    crc: int
    error: Fault | None = None


class BatchTable:
    """Neighbouring sound batches inside one window, as columns, and the fault that follows them.

    `positions` are relative to `buffer`, whose first byte is at `origin` of the file. `headers` has
    a field for each of `wire.batches.batch.BatchHeader`. `fault` follows the batches, None for
    none; `damaged` is its batch when only the checksum is wrong.
    """

    __slots__ = ("buffer", "damaged", "fault", "headers", "origin", "positions")

    def __init__(
        self,
        buffer: bytes,
        origin: int,
        positions: Int64Array,
        headers: npt.NDArray[Any],
        fault: Fault | None = None,
    ) -> None:
        self.buffer = buffer
        self.origin = origin
        self.positions = positions
        self.headers = headers
        self.fault = fault
        self.damaged: BatchTable | None = None

    def __len__(self) -> int:
        """Number of batches."""
        return len(self.positions)

    def column(self, name: str) -> Int64Array:
        """Return a header field as int64."""
        return self.headers[name].astype(np.int64)

    @property
    def is_old(self) -> bool:
        """True of messages of magic 0 and 1; a table never has both formats."""
        return len(self) > 0 and int(self.headers["magic"][0]) < MAGIC

    @property
    def sizes(self) -> Int64Array:
        """Size of each whole batch in bytes."""
        return self.column("batch_length") + LOG_OVERHEAD_BYTES

    @property
    def timestamp_types(self) -> Int64Array:
        """Number of Kafka's TimestampType: 0 CreateTime, 1 LogAppendTime, -1 none (magic 0)."""
        is_append_time = (self.column("attributes") & LOG_APPEND_TIME_BIT) >> 3
        return np.where(self.column("magic") == 0, -1, is_append_time)

    @property
    def last_offsets(self) -> Int64Array:
        """Inclusive last offset of each batch."""
        return self.column("base_offset") + self.column("last_offset_delta")

    def select(self, mask: npt.NDArray[np.bool_]) -> "BatchTable":
        """Return the batches where the mask is true, without the fault."""
        return BatchTable(self.buffer, self.origin, self.positions[mask], self.headers[mask])

    def refs(self) -> list[BatchRef]:
        """Return the batches as values."""
        names = "base_offset", "last_offset_delta", "leader_epoch", "attributes"
        base, delta, epoch, attrs = (self.headers[name].tolist() for name in names)
        names = "base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch"
        base_ts, max_ts, pid, pepoch = (self.headers[name].tolist() for name in names)
        names3 = "base_sequence", "records_count", "crc"
        bseq, count, crc = (self.headers[name].tolist() for name in names3)
        positions, sizes = (self.positions + self.origin).tolist(), self.sizes.tolist()
        rows = zip(
            positions, sizes, base, map(int.__add__, base, delta), epoch, attrs, base_ts, max_ts,
            pid, pepoch, bseq, count, crc, strict=True,
        )  # fmt: skip
        return [BatchRef(*row) for row in rows]


class Window:
    """Positioned reads of one file up to a frozen size; the last read is kept.

    The file is never mapped: truncation of a mapped log kills the process.
    """

    def __init__(self, source: bytes | int, frozen_size: int, window_bytes: int) -> None:
        self._source = source
        self.size = frozen_size
        self._window_bytes = window_bytes
        self._data = b""
        self._origin = 0
        self.is_short = False  # the file lost bytes below the frozen size

    def at(self, position: int, needed: int = HEADER_BYTES) -> tuple[bytes, int]:
        """Return a buffer with `needed` bytes from `position`, if the file has them; its origin."""
        assert 0 <= position <= self.size
        wanted = min(needed, self.size - position)
        held = self._origin + len(self._data) - position
        if not (position >= self._origin and held >= wanted and held > 0):
            length = min(max(self._window_bytes, needed), self.size - position)
            self._data, self._origin = self._read(length, position), position
            self.is_short = len(self._data) < length
        return self._data, self._origin

    def _read(self, length: int, position: int) -> bytes:
        if isinstance(self._source, bytes):
            return self._source[position : position + length]
        parts = []
        while length > 0:
            part = os.pread(self._source, length, position)
            if not part:
                break
            parts.append(part)
            length -= len(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def scan(
    source: bytes | int,
    start: int,
    end: int,
    *,
    frozen_size: int,
    is_last: bool = True,
    validate: str = "crc",
    window_bytes: int = WINDOW_BYTES,
    reads_old_formats: bool = False,
) -> Iterator[BatchTable]:
    """The batches whose first byte lies in [start, end), as tables in order.

    Args:
        source: the content of a file, or a descriptor of it.
        start: position of a batch.
        end: exclusive; a batch may reach beyond it, up to `frozen_size`.
        frozen_size: limit of positions that are read, exclusive.
        is_last: True if a cut batch at the end counts as a live append, not as a fault.
        validate: none or header: checksums are not checked; crc or full: they are.
        window_bytes: bytes per read.
        reads_old_formats: messages of magic 0 and 1 are no fault but tables of their own.
    """
    assert 0 <= start <= end <= frozen_size
    window = Window(source, frozen_size, window_bytes)
    check_crc = validate in ("crc", "full")
    position = start
    while position < end:
        buffer, origin = window.at(position)
        is_old = reads_old_formats and old_bytes_at(buffer, position - origin) is not None
        hop = hop_old if is_old else _hop
        positions, stop, reason = hop(buffer, position - origin, end - origin)
        if not positions and reason == "cut" and _grow(window, position):
            continue
        table = (_gather_old if is_old else _gather)(buffer, origin, positions)
        bad = _first_bad_crc(table) if check_crc else None
        if bad is not None:
            stop, reason = int(table.positions[bad]), "bad_crc"
            damaged = table.select(np.arange(len(table)) == bad)
            table = _cut(table, bad)
            table.damaged = damaged
        position = origin + stop
        if reason == "cut" and (positions or bad is not None):
            reason = ""  # the next window starts with it
        if reason == "old_magic" and reads_old_formats and old_bytes_at(buffer, stop) is not None:
            reason = ""
        if reason:
            fault, position = _fault_at(window, position, reason, end, is_last=is_last)
            table.fault = fault
        if len(table) or table.fault is not None:
            yield table


def iter_batches(
    source: bytes | int,
    start: int,
    end: int,
    *,
    frozen_size: int | None = None,
    validate: str = "crc",
    is_last: bool = True,
) -> Iterator[BatchRef]:
    """`scan` batch by batch; a fault is a reference whose `error` is set and whose count is 0."""
    size = end if frozen_size is None else frozen_size
    for table in scan(source, start, end, frozen_size=size, is_last=is_last, validate=validate):
        yield from table.refs()
        fault = table.fault
        if fault is not None:
            base = -1 if fault.base_offset is None else fault.base_offset
            yield BatchRef(
                fault.position, fault.length, base, base, -1, 0, -1, -1, -1, -1, -1, 0, 0, fault
            )


def resync(
    source: bytes | int, position: int, end: int, *, frozen_size: int | None = None
) -> int | None:
    """The first position in [position, end) where a batch with a valid checksum starts."""
    size = end if frozen_size is None else frozen_size
    return _resync(Window(source, size, WINDOW_BYTES), position, end)


def is_batch_at(source: bytes | int, position: int, frozen_size: int) -> bool:
    """Return True if a whole batch with a valid checksum starts there, of whatever format."""
    window = Window(source, frozen_size, HEADER_BYTES)
    return _is_sound(window, position) or _is_old_sound(window, position)


def _hop(buffer: bytes, position: int, end: int) -> tuple[list[int], int, str]:
    """Starts of whole batches, position of the stop, reason (cut: end of the buffer; "": done)."""
    positions: list[int] = []
    append, unpack, size = positions.append, _HOP.unpack_from, len(buffer)
    while position < end:
        if position + _HOP_BYTES > size:
            return positions, position, "cut"
        length, magic = unpack(buffer, position + 8)
        if magic != MAGIC:
            return positions, position, "old_magic" if 0 <= magic < MAGIC else "bad_magic"
        if length < _LENGTH_MIN or length > BATCH_BYTES_MAX:
            return positions, position, "bad_length"
        after = position + LOG_OVERHEAD_BYTES + length
        if after > size:
            return positions, position, "cut"
        append(position)
        position = after
    return positions, position, ""


def _grow(window: Window, position: int) -> bool:
    """Read the whole batch into the window; returns False if the file does not have all of it."""
    buffer, origin = window.at(position)
    at = position - origin
    if len(buffer) - at < _HOP_BYTES:
        return False
    size = LOG_OVERHEAD_BYTES + int.from_bytes(buffer[at + 8 : at + 12], "big")
    if position + size > window.size:
        return False
    buffer, origin = window.at(position, size)
    return len(buffer) - (position - origin) >= size


def _gather(buffer: bytes, origin: int, positions: list[int]) -> BatchTable:
    starts = np.array(positions, dtype=np.int64)
    if not positions:
        return BatchTable(buffer, origin, starts, np.empty(0, HEADER_DTYPE))
    content = np.frombuffer(buffer, np.uint8)
    headers = content[starts[:, None] + _HEADER_RANGE].view(HEADER_DTYPE)[:, 0]
    return BatchTable(buffer, origin, starts, headers)


def _gather_old(buffer: bytes, origin: int, positions: list[int]) -> BatchTable:
    rows = [msgspec.structs.astuple(header) for header in old_headers(buffer, positions)]
    headers = np.array(rows, HEADER_DTYPE)
    return BatchTable(buffer, origin, np.array(positions, dtype=np.int64), headers)


def _cut(table: BatchTable, count: int) -> BatchTable:
    return BatchTable(table.buffer, table.origin, table.positions[:count], table.headers[:count])


def _first_bad_crc(table: BatchTable) -> int | None:
    view, checksum = memoryview(table.buffer), crc32c.crc32c
    starts = table.positions.tolist()
    ends = (table.positions + table.sizes).tolist()
    crcs = table.headers["crc"].tolist()
    if table.is_old:
        sound = [is_old_sound(table.buffer, start) for start in starts]
        return None if all(sound) else sound.index(False)
    for index, (start, end, crc) in enumerate(zip(starts, ends, crcs, strict=True)):
        if checksum(view[start + CRC_START : end]) != crc:
            return index
    return None


def _fault_at(
    window: Window, position: int, reason: str, end: int, *, is_last: bool
) -> tuple[Fault | None, int]:
    """Classify the fault at a position; returns it and the position where reading continues."""
    buffer, origin = window.at(position)
    at = position - origin
    left = window.size - position
    base_offset = int.from_bytes(buffer[at : at + 8], "big", signed=True) if left >= 8 else None
    if window.is_short:
        detail = f"the file ended at {origin + len(buffer)}, not at {window.size}"
        return _fault("vanished", position, left, base_offset, detail), end
    if reason != "cut" and _is_zero(window, position):
        return _fault("zero_tail", position, left, base_offset, f"{left} bytes of zeros"), end
    following = _following(window, position, reason)
    length = (following if following is not None else window.size) - position
    if reason == "cut" and following is None:
        if is_last:
            return None, end
        reason = "short_header" if left < HEADER_BYTES else "partial_tail"
        return _fault(reason, position, left, base_offset, f"{left} bytes of a batch"), end
    claimed = int.from_bytes(buffer[at + 8 : at + 12], "big", signed=True)
    magic = buffer[at + 16] if left >= _HOP_BYTES else -1
    reason = "bad_length" if reason == "cut" else reason
    detail = {
        "bad_crc": "the checksum in the header is not that of the bytes",
        "bad_length": f"length {claimed} is impossible here",
    }.get(reason, f"the batch {why_no_batch(claimed, magic)}")
    fault = _fault(reason, position, length, base_offset, detail)
    return fault, end if following is None else following


def _fault(reason: str, position: int, length: int, base_offset: int | None, detail: str) -> Fault:
    return Fault(
        reason=reason, position=position, length=length, base_offset=base_offset, detail=detail
    )


def _following(window: Window, position: int, reason: str) -> int | None:
    """Position of the next batch: by the length of a sound header, else by search."""
    if reason == "bad_crc":
        buffer, origin = window.at(position)
        (length,) = struct.unpack_from(">i", buffer, position - origin + 8)
        after = position + LOG_OVERHEAD_BYTES + int(length)
        if after == window.size or _is_sound(window, after) or _is_old_sound(window, after):
            return after
    return _resync(window, position + 1, window.size)


def _is_zero(window: Window, position: int) -> bool:
    """Return True if the file has only zeros from the position to its end."""
    while position < window.size:
        buffer, origin = window.at(position)
        part = buffer[position - origin :]
        if not part or part.count(0) != len(part):
            return False
        position += len(part)
    return True


def _is_sound(window: Window, position: int) -> bool:
    """Return True if a batch with a plausible header and a valid checksum starts there."""
    if window.size - position < HEADER_BYTES:
        return False
    buffer, origin = window.at(position)
    at = position - origin
    if len(buffer) - at < HEADER_BYTES:
        return False
    length, magic = _HOP.unpack_from(buffer, at + 8)
    if magic != MAGIC or not _LENGTH_MIN <= length <= RESYNC_LENGTH_MAX:
        return False
    size = LOG_OVERHEAD_BYTES + length
    if position + size > window.size:
        return False
    buffer, origin = window.at(position, size)
    at = position - origin
    if len(buffer) - at < size:
        return False
    (crc,) = struct.unpack_from(">I", buffer, at + 17)
    return bool(crc32c.crc32c(memoryview(buffer)[at + CRC_START : at + size]) == crc)


def _is_old_sound(window: Window, position: int) -> bool:
    """Return True if a message of magic 0 or 1 with a valid checksum starts there."""
    buffer, origin = window.at(position)
    size = old_bytes_at(buffer, position - origin)
    if size is None or size > RESYNC_LENGTH_MAX or position + size > window.size:
        return False
    buffer, origin = window.at(position, size)
    at = position - origin
    return len(buffer) - at >= size and is_old_sound(buffer, at)


def _resync(window: Window, position: int, end: int) -> int | None:
    while position < min(end, window.size - HEADER_BYTES + 1):
        buffer, origin = window.at(position)
        if len(buffer) - (position - origin) < HEADER_BYTES:
            return None
        stop = min(end, origin + len(buffer) - HEADER_BYTES + 1)
        for candidate in _plausible(buffer, position - origin, stop - origin):
            if _is_sound(window, origin + candidate):
                return origin + candidate
        position = stop
    return None


def _plausible(buffer: bytes, start: int, end: int) -> list[int]:
    """Positions in [start, end) that look like the start of a header."""
    content = np.frombuffer(buffer, np.uint8)
    found = np.flatnonzero(content[start + 16 : end + 16] == MAGIC) + start
    found = found[content[found] == 0]  # offsets below 2^56
    found = found[(content[found + 8] <= 6) & (content[found + 21] == 0)]  # length, attributes
    return [int(at) for at in found[content[found + 22] < 128]]
