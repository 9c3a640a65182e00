"""Vectorized variable-length integers: numpy versions of `wire.primitives`.

Nearly all numbers in a record have one or two bytes, so those are looked up in tables indexed by
two bytes; longer ones are assembled byte by byte.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
VARINT_BITS: Final = 32
VARLONG_BITS: Final = 64


class SuspectError(Exception):
    """Bytes that the vector reader cannot decode for sure; the scalar reader decides."""


def read_varints(
    content: Bytes, positions: Int64Array, bits: int = VARINT_BITS
) -> tuple[Int64Array, Int64Array]:
    """The zigzag numbers at the positions, and the positions after them.

    Raises:
        SuspectError: a position outside the content, or a number of more than `bits` bits.
    """
    if not len(positions):
        return positions.astype(np.int64), positions.astype(np.int64)
    last = int(positions.max())
    if last >= len(content):
        raise SuspectError("a record reaches over the end of its section")
    first = content[positions]
    if int(first.max()) < 128:
        return zigzag(first.astype(np.int64)), positions + 1
    if last + 1 < len(content):
        # int64, since numpy indexes by any other type three times as slowly
        pair = first | content[positions + 1].astype(np.int64) << 8
        length = PAIR_LENGTH[pair]
        if int(length.max()) <= 2:
            return PAIR_NUMBER[pair].astype(np.int64), positions + length
    return _read_any(content, positions, first, bits)


def _read_any(
    content: Bytes, positions: Int64Array, first: Bytes, bits: int
) -> tuple[Int64Array, Int64Array]:
    """Read numbers of any length; `first` are their first bytes."""
    number = (first & 0x7F).astype(np.uint64)
    after = positions + 1
    more: npt.NDArray[np.intp] = np.flatnonzero(first & 0x80)
    shift = 7
    while len(more):
        if shift >= bits:
            raise SuspectError("a number is too long")
        where = after[more]
        if int(where.max()) >= len(content):
            raise SuspectError("a number reaches over the end of its section")
        group = content[where]
        number[more] |= (group & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[group >= 128]
        shift += 7
    if bits == VARINT_BITS and int(number.max()) >> VARINT_BITS:
        raise SuspectError("a number has more than 32 bits")
    signed = (number >> np.uint64(1)).astype(np.int64)
    return signed ^ -(number & np.uint64(1)).astype(np.int64), after


def zigzag(numbers: Int64Array) -> Int64Array:
    """The signed numbers encoded by the unsigned ones."""
    return (numbers >> 1) ^ -(numbers & 1)


_PAIR: Final = np.arange(1 << 16, dtype=np.int64)
_LOW: Final = _PAIR & 0xFF
_HIGH: Final = _PAIR >> 8
# by two bytes, the first one low: bytes of the number that starts there, 3 for "three or more"
PAIR_LENGTH: Final = np.where(_LOW < 128, 1, np.where(_HIGH < 128, 2, 3)).astype(np.uint8)
PAIR_NUMBER: Final = zigzag(np.where(_LOW < 128, _LOW, _LOW & 0x7F | (_HIGH & 0x7F) << 7)).astype(
    np.int16
)
