"""Positions and fields of the records of many batches, as columns.

The records of a batch are a chain: each starts with its length. Chains of many batches are followed
in lock step, one vector operation per record number; a few long chains are followed by a scalar
loop over the lengths alone. All other fields are read for all records at once. Bytes that do not
fit exactly raise `SuspectError`, and the caller has the slow reader (`wire.batches.batch`) decide.
"""

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.core.records.varints import (
    PAIR_LENGTH,
    PAIR_NUMBER,
    VARLONG_BITS,
    Int64Array,
    SuspectError,
    read_varints,
)
from wire.primitives import read_varint

# One lock step costs about as much as so many records of the scalar loop.
_LOCK_STEP_RECORDS: Final = 100
RECORD_BYTES_MIN: Final = 7


class Fields(msgspec.Struct, frozen=True):
    """Fields of records, one entry each; starts are positions in the content, length -1 is null."""

    batch: Int64Array  # index of the record's batch
    timestamp_delta: Int64Array
    offset_delta: Int64Array
    key_start: Int64Array
    key_length: Int64Array
    value_start: Int64Array
    value_length: Int64Array
    headers_count: Int64Array
    headers_start: Int64Array
    end: Int64Array


def read_fields(
    content: npt.NDArray[np.uint8], data: bytes, starts: Int64Array, ends: Int64Array,
    counts: Int64Array,
) -> Fields:  # fmt: skip
    """Read the fields of all records.

    Args:
        content: `data` as numbers.
        data: a buffer that holds the plain records sections.
        starts: start of each section, ascending; sections do not overlap.
        ends: end of each section, exclusive.
        counts: number of records in the header of each section.

    Raises:
        SuspectError: some section does not hold exactly its records.
    """
    if len(counts) and (
        int(counts.min()) < 0 or bool((counts * RECORD_BYTES_MIN > ends - starts).any())
    ):
        raise SuspectError("more records than bytes")
    first, record_end = _record_bounds(content, data, starts, ends, counts)
    batch = np.repeat(np.arange(len(counts)), counts)
    timestamp_delta, at = read_varints(content, first + 1, VARLONG_BITS)
    offset_delta, at = read_varints(content, at)
    key_length, key_start = read_varints(content, at)
    value_length, value_start = read_varints(content, key_start + np.maximum(key_length, 0))
    headers_count, headers_start = read_varints(content, value_start + np.maximum(value_length, 0))
    if len(batch):
        if int(min(key_length.min(), value_length.min())) < -1 or int(headers_count.min()) < 0:
            raise SuspectError("a negative length")
        without = headers_count == 0
        if not bool((headers_start[without] == record_end[without]).all()):
            raise SuspectError("a record does not end where its length says")
    return Fields(
        batch, timestamp_delta, offset_delta, key_start, key_length, value_start, value_length,
        headers_count, headers_start, record_end,
    )  # fmt: skip


class HeaderFields(msgspec.Struct, frozen=True):
    """All headers of all records in order; positions and lengths as in `Fields`."""

    key_start: Int64Array
    key_length: Int64Array
    value_start: Int64Array
    value_length: Int64Array


def read_headers(content: npt.NDArray[np.uint8], fields: Fields) -> HeaderFields:
    """Read the headers of the records, flattened.

    Raises:
        SuspectError: they do not fill their records exactly, or a name is null.
    """
    counts = fields.headers_count
    if bool((counts > fields.end - fields.headers_start).any()):
        raise SuspectError("more headers than bytes")
    total = int(counts.sum())
    slots = np.cumsum(counts) - counts
    found = HeaderFields(*(np.zeros(total, np.int64) for _ in range(4)))
    owners = np.flatnonzero(counts)
    at = fields.headers_start[owners]
    number = 0
    while len(owners):
        key_length, key_start = read_varints(content, at)
        if int(key_length.min()) < 0:
            raise SuspectError("a header without a name")
        value_length, value_start = read_varints(content, key_start + key_length)
        if int(value_length.min()) < -1:
            raise SuspectError("a negative length")
        at = value_start + np.maximum(value_length, 0)
        slot = slots[owners] + number
        found.key_start[slot], found.key_length[slot] = key_start, key_length
        found.value_start[slot], found.value_length[slot] = value_start, value_length
        number += 1
        more = counts[owners] > number
        if not bool((at[~more] == fields.end[owners[~more]]).all()):
            raise SuspectError("a record does not end where its length says")
        owners, at = owners[more], at[more]
    return found


def _record_bounds(
    content: npt.NDArray[np.uint8], data: bytes, starts: Int64Array, ends: Int64Array,
    counts: Int64Array,
) -> tuple[Int64Array, Int64Array]:  # fmt: skip
    """For each record the position after its length, and its end."""
    total = int(counts.sum())
    steps = int(counts.max()) if len(counts) else 0
    if steps * _LOCK_STEP_RECORDS > total:
        return _scalar_walk(data, starts, ends, counts)
    return _lock_step(content, starts, ends, counts)


def _scalar_walk(
    data: bytes, starts: Int64Array, ends: Int64Array, counts: Int64Array
) -> tuple[Int64Array, Int64Array]:
    firsts: list[int] = []
    record_ends: list[int] = []
    add_first, add_end = firsts.append, record_ends.append
    try:
        for at, end, count in zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True):
            for _ in range(count):
                length = data[at]
                if length < 128:
                    at += 1  # noqa: PLW2901  # the loop's own cursor
                elif (high := data[at + 1]) < 128:
                    length = length & 127 | high << 7
                    at += 2  # noqa: PLW2901
                else:
                    length, at = read_varint(data, at)  # noqa: PLW2901
                    length = length << 1 if length >= 0 else 1
                if length & 1:
                    raise SuspectError("a negative record length")
                add_first(at)
                at += length >> 1  # noqa: PLW2901
                add_end(at)
            if at != end:
                raise SuspectError("records do not fill their section")
    except (IndexError, ValueError) as error:
        raise SuspectError(str(error)) from error
    return np.array(firsts, np.int64), np.array(record_ends, np.int64)


def _lock_step(
    content: npt.NDArray[np.uint8], starts: Int64Array, ends: Int64Array, counts: Int64Array
) -> tuple[Int64Array, Int64Array]:
    total = int(counts.sum())
    firsts, record_ends = np.empty(total, np.int64), np.empty(total, np.int64)
    order = np.argsort(-counts, kind="stable")  # long chains first: ended ones are last
    slots = (np.cumsum(counts) - counts)[order]
    # number of chains with more than k records, for each k
    alive = len(counts) - np.searchsorted(np.sort(counts), np.arange(int(counts.max())), "right")
    at = starts[order].copy()
    try:
        for number, chains in enumerate(alive.tolist()):
            start = at[:chains]
            slot = slots[:chains] + number
            step = _STEP[content[start] | content[start + 1].astype(np.int64) << 8]
            if int(step.min()) > 0:
                first, after = start + 1 + (step > _STEP_ONE_BYTE_MAX), start + step
            else:
                length, first = read_varints(content, start)
                if int(length.min()) < 0:
                    raise SuspectError("a negative record length")
                after = first + length
            firsts[slot], record_ends[slot] = first, after
            at[:chains] = after
    except IndexError as error:
        raise SuspectError("a record reaches over the end of its section") from error
    if not bool((at == ends[order]).all()):
        raise SuspectError("records do not fill their section")
    return firsts, record_ends


# Distance from the start of a record to its end, by the first two bytes: those of the length.
# 0 where two bytes are not enough: a length of three bytes, a negative or an overlong one.
_STEP_ONE_BYTE_MAX: Final = 1 + 63
_STEP: Final = np.where(
    (PAIR_LENGTH > 2)
    | (PAIR_NUMBER < 0)
    | ((PAIR_LENGTH == 2) & (PAIR_LENGTH + PAIR_NUMBER <= _STEP_ONE_BYTE_MAX + 1)),
    0,
    PAIR_LENGTH + PAIR_NUMBER,
).astype(np.int64)
