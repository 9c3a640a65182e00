"""Many variable-length integers at once: numpy versions of `wire.primitives`."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
VARINT_BITS: Final = 32
VARLONG_BITS: Final = 64


class SuspectError(Exception):
    """Bytes that the vector reader does not vouch for; the scalar reader decides what they are."""


def read_varints(
    content: npt.NDArray[np.uint8], positions: Int64Array, bits: int = VARINT_BITS
) -> tuple[Int64Array, Int64Array]:
    """The zigzag numbers at the positions and the positions after them.

    Raises:
        SuspectError: a position outside the content, or a number of more than `bits` bits.
    """
    _check(content, positions)
    group = content[positions]
    after = positions + 1
    if not len(group) or int(group.max()) < 128:
        small = group.astype(np.int64)
        return (small >> 1) ^ -(small & 1), after
    number = (group & 0x7F).astype(np.uint64)
    more: Any = np.flatnonzero(group & 0x80)
    shift = 7
    while len(more):
        if shift >= bits:
            raise SuspectError("a number is too long")
        where = after[more]
        _check(content, where)
        group = content[where]
        number[more] |= (group & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[group >= 128]
        shift += 7
    if bits == VARINT_BITS and int(number.max()) >> VARINT_BITS:
        raise SuspectError("a number has more than 32 bits")
    signed = (number >> np.uint64(1)).astype(np.int64)
    return signed ^ -(number & np.uint64(1)).astype(np.int64), after


def _check(content: npt.NDArray[np.uint8], positions: Int64Array) -> None:
    if len(positions) and int(positions.max()) >= len(content):
        raise SuspectError("a record reaches over the end of its section")
