"""Arrow arrays from numpy columns and slices of a buffer."""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.records.codecs import CODEC_MASK, CODEC_NAMES
from pipeline.core.records.schema import HEADERS, TIMESTAMP
from pipeline.core.records.varints import Int64Array

if TYPE_CHECKING:
    from pipeline.core.records.sections import Fields, HeaderFields

_MS_MAX: Final = (1 << 63) // 1000 - 1
_CODECS: Final = pa.array(CODEC_NAMES)


def int32(numbers: npt.NDArray[Any]) -> pa.Array:
    """A column of 32-bit numbers."""
    return pa.array(numbers.astype(np.int32))


def int16(numbers: npt.NDArray[Any]) -> pa.Array:
    """A column of 16-bit numbers."""
    return pa.array(numbers.astype(np.int16))


def timestamps(milliseconds: Int64Array) -> pa.Array:
    """A column of times; -1 and values that do not fit into microseconds become null."""
    missing = (milliseconds == -1) | (np.abs(milliseconds) > _MS_MAX)
    if bool(missing.any()):
        held = np.where(missing, 0, milliseconds) * 1000
        return pa.array(held, mask=missing).cast(pa.timestamp("us")).cast(TIMESTAMP)
    return pa.array(milliseconds * 1000).view(TIMESTAMP)


def codec_names(attributes: Int64Array) -> pa.Array:
    """The name of the codec in each attributes field; null for an unknown codec."""
    codes = (attributes & CODEC_MASK).astype(np.int8)
    if len(codes) and bool((codes == codes[0]).all()) and int(codes[0]) < len(CODEC_NAMES):
        return pa.repeat(CODEC_NAMES[int(codes[0])], len(codes))
    return _CODECS.take(pa.array(codes, mask=codes >= len(CODEC_NAMES)))


def slices(data: bytes, starts: Int64Array, lengths: Int64Array) -> pa.Array:
    """Copies of ascending, disjoint parts of a buffer as a binary column; length -1 is null.

    The buffer is viewed as a column of 2n-1 values (part, gap, part, gap, ..., part), of which
    Arrow takes every second one: no loop over the parts.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    assert len(data) < 1 << 31
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    parts_and_gaps = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, buffers)
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    null = lengths < 0
    index = pa.array(wanted, mask=null) if bool(null.any()) else pa.array(wanted)
    return parts_and_gaps.take(index)


def headers(data: bytes, fields: "Fields", found: "HeaderFields") -> pa.Array:
    """The column headers; names that are not UTF-8 get replacement characters."""
    ends = np.cumsum(fields.headers_count)
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    names = slices(data, found.key_start, found.key_length)
    try:
        names = names.cast(pa.string())
    except pa.ArrowInvalid:
        names = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
    contents = slices(data, found.value_start, found.value_length)
    pairs = pa.StructArray.from_arrays([names, contents], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(offsets), pairs).cast(HEADERS)
