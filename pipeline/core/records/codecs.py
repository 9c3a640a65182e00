"""Decompressed record sections of many batches in one buffer, within a limit.

Exceeding the limit is a fault of the batch: a small blob cannot fill the memory
(`wire.batches.compression`).
"""

from typing import Final

import numpy as np

from pipeline.core.records.batches import BATCH_BYTES_MAX, BatchTable
from pipeline.core.records.varints import Int64Array
from wire.batches.batch import HEADER_BYTES
from wire.batches.compression import Codec, decompress
from wire.errors import CorruptBatchError

CODEC_MASK: Final = 0x07
CODEC_NAMES: Final = tuple(codec.name.lower() for codec in Codec)


def plain_section(codec: Codec, section: bytes, bytes_max: int = BATCH_BYTES_MAX) -> bytes:
    """Decompress the records section of one batch.

    Raises:
        CorruptBatchError: not a stream of the codec, or larger than `bytes_max`.
    """
    if not section:
        return b""  # a batch that compaction emptied
    return decompress(codec, section, bytes_max)


def plain_sections(
    table: BatchTable, bytes_max: int, total_max: int
) -> tuple[bytes, Int64Array, Int64Array]:
    """A buffer with the plain sections of the first batches, and start and end of each in it.

    If no batch is compressed nothing is copied. Otherwise sections are added until `total_max`
    bytes are reached, at least one: the length of the arrays is their number.

    Raises:
        CorruptBatchError: some section is damaged; the caller finds it by decoding one by one.
    """
    starts = table.positions + HEADER_BYTES
    ends = table.positions + table.sizes
    codecs = table.headers["attributes"] & CODEC_MASK
    if not codecs.any():
        return table.buffer, starts, ends
    if int(codecs.max()) > Codec.ZSTD:
        raise CorruptBatchError("an unknown codec")
    parts = []
    left = total_max
    buffer = table.buffer
    for start, end, codec in zip(starts.tolist(), ends.tolist(), codecs.tolist(), strict=True):
        section = buffer[start:end]
        parts.append(plain_section(Codec(codec), section, bytes_max) if codec else section)
        left -= len(parts[-1])
        if left <= 0:
            break
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    after = np.cumsum(lengths)
    return b"".join(parts), after - lengths, after
