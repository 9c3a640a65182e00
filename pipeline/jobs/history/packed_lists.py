"""Columns of the fold: short lists packed into bytes, numbers with a sentinel for "none".

A list of node ids is one binary value (32 bits each, in native byte order), one of directories
another (16 bytes each). So lists compare and travel as plain values, and functions of them are
computed once per distinct value (`by_distinct`): a log has few distinct ISRs.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metadata.json_form import uuid_text
from pipeline.core.records.schema import TIMESTAMP

NONE: Final = int(np.iinfo(np.int64).min)  # marks a missing number
UUID_BYTES: Final = 16
ID_BYTES: Final = 4
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def pack(ids: Sequence[int]) -> bytes:
    """Pack node ids as one value."""
    return np.array(ids, np.int32).tobytes()


def unpack(packed: bytes) -> tuple[int, ...]:
    """Node ids of a packed value."""
    return tuple(np.frombuffer(packed, np.int32).tolist())


def codes(values: pa.Array) -> tuple[Numbers, pa.Array]:
    """A number for each value, equal for equal values, and the value of each number; null is -1."""
    encoded = values.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy().astype(np.int64), encoded.dictionary


def by_distinct(
    function: Callable[..., Hashable], *columns: tuple[Numbers, Sequence[Any]]
) -> tuple[Numbers, list[Any]]:
    """Apply a function to some columns, once per distinct combination.

    Args:
        function: takes one value of each column.
        columns: codes and the value of each code; -1 for None.

    Returns:
        For each row the index of its result, and the results, each once.
    """
    joint = np.zeros(len(columns[0][0]), np.int64)
    for numbers, _ in columns:
        _, joint = np.unique(joint, return_inverse=True)
        joint = joint * (int(numbers.max(initial=-1)) + 2) + numbers + 1
    _, first, joint = np.unique(joint, return_index=True, return_inverse=True)
    answers = [
        function(*(
            None if numbers[row] < 0 else values[numbers[row]] for numbers, values in columns
        ))
        for row in first.tolist()
    ]  # fmt: skip
    numbered = {answer: number for number, answer in enumerate(dict.fromkeys(answers))}
    return np.array([numbered[answer] for answer in answers], np.int64)[joint], list(numbered)


def distinct(numbers: npt.NDArray[Any]) -> tuple[Numbers, list[int]]:
    """Plain numbers as a column of `by_distinct`; `NONE` stays a value."""
    values, index = np.unique(numbers, return_inverse=True)
    return index, values.tolist()


def id_lists(values: pa.Array) -> tuple[Numbers, list[tuple[int, ...]]]:
    """Packed node ids as a column of `by_distinct`."""
    index, found = codes(values)
    return index, [unpack(one) for one in found.to_pylist()]


def nullable(numbers: Numbers, type_: pa.DataType) -> pa.Array:
    """Numbers as a column; `NONE` becomes null."""
    missing = numbers == NONE
    held = np.where(missing, 0, numbers) if bool(missing.any()) else numbers
    mask = missing if bool(missing.any()) else None
    if type_ == TIMESTAMP:
        return pa.array(held, pa.int64(), mask=mask).view(TIMESTAMP)
    return pa.array(held.astype(type_.to_pandas_dtype()), type_, mask=mask)


def numbers_of(column: pa.Array) -> Numbers:
    """Reverse `nullable`."""
    if column.type == TIMESTAMP:
        column = column.view(pa.int64())
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(NONE)
    found: Numbers = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def int_lists(packed: pa.Array) -> pa.Array:
    """Lists from packed node ids."""
    offsets, content, mask = _parts(packed)
    values = pa.array(np.frombuffer(content, np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets // ID_BYTES), values, mask=mask)


def uuid_lists(packed: pa.Array) -> pa.Array:
    """Lists of texts from packed directories."""
    offsets, content, mask = _parts(packed)
    whole = content[: len(content) // UUID_BYTES * UUID_BYTES]
    flat = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(UUID_BYTES), len(whole) // UUID_BYTES, [None, pa.py_buffer(whole)]
    )
    return pa.ListArray.from_arrays(pa.array(offsets // UUID_BYTES), uuid_texts(flat), mask=mask)


def uuid_texts(uuids: pa.Array) -> pa.Array:
    """Ids in Kafka's text form."""
    index, found = codes(uuids)
    texts = pa.array([uuid_text(one) for one in found.to_pylist()], pa.string())
    return texts.take(pa.array(index))


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column of a table in one piece."""
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _parts(packed: pa.Array) -> tuple[npt.NDArray[np.int32], bytes, pa.Array | None]:
    """Offsets from 0, the bytes that they delimit, and the mask of nulls."""
    offsets = np.frombuffer(packed.buffers()[1], np.int32)
    offsets = offsets[packed.offset : packed.offset + len(packed) + 1]
    buffer = packed.buffers()[2]
    content = b"" if buffer is None else memoryview(buffer)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], bytes(content), packed.is_null() if packed.null_count else None
