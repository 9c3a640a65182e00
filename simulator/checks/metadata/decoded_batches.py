"""Committed batches as records, decoded once for all nodes.

Every node of a world reads the same batches, and each of them again after every restart. Bytes mean
the same to every reader: those that production code has decoded are not decoded again. That is
nine of ten batches.
"""

import struct
from collections.abc import Iterator
from typing import Final

from metadata.loader import CommittedBatch, committed_batches
from wire.batches.batch import HEADER_BYTES

BATCHES_MAX: Final = 20_000
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_OVERHEAD: Final = 12


class DecodedBatches:
    """Cache in front of `committed_batches`, shared by the nodes of a world."""

    def __init__(self) -> None:
        self._known: dict[bytes, CommittedBatch] = {}

    def __call__(self, content: bytes) -> Iterator[CommittedBatch]:
        """Decode as `metadata.loader.committed_batches` does, errors included."""
        known, position, size = self._known, 0, len(content)
        while position + _OVERHEAD <= size:
            (length,) = _LENGTH.unpack_from(content, position + _LENGTH_AT)
            end = position + _OVERHEAD + length
            stored = content[position:end]
            batch = known.get(stored)
            if batch is None:
                if not position + HEADER_BYTES <= end <= size:
                    break
                (batch,) = committed_batches(stored)
                if len(known) >= BATCHES_MAX:
                    known.clear()
                known[stored] = batch
            yield batch
            position = end
        if position < size:
            yield from committed_batches(content[position:])
