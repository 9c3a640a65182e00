"""`.txnindex`: the aborted transactions that end in a segment.

34 bytes each: int16 version 0, then int64 producer id, first offset, last offset (of the marker),
last stable offset; big-endian. apache/kafka: storage/.../log/{TransactionIndex,AbortedTxn}.java
"""

import struct
from typing import Final

import msgspec

TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
_ENTRY: Final = struct.Struct(">hqqqq")
assert _ENTRY.size == 34, f"{_ENTRY.size=}"


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A producer's aborted transaction; both offsets are inclusive."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(entry: AbortedTransaction) -> bytes:
    """The entry as it is in a file."""
    return _ENTRY.pack(*msgspec.structs.astuple(entry))


def decode_transaction_index(content: bytes) -> list[AbortedTransaction]:
    """The entries of a file; a cut entry at the end is left out."""
    whole = len(content) // _ENTRY.size * _ENTRY.size
    return [AbortedTransaction(*entry) for entry in _ENTRY.iter_unpack(content[:whole])]
