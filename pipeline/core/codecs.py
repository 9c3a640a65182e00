"""Plain record sections of many batches in one buffer, within a limit.

What a compressed blob is says `wire.compression`; here it is only bounded: a blob that unfolds to
more than the limit is a fault of its batch and not the end of the process.
"""

import io
import zlib
from typing import Final

import numpy as np
import zstandard

from pipeline.core.batches import BATCH_BYTES_MAX, BatchTable
from pipeline.core.varints import Int64Array
from wire.batch import HEADER_BYTES
from wire.compression import Codec, decompress
from wire.errors import CorruptBatchError

CODEC_MASK: Final = 0x07
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_GZIP_WINDOW_BITS: Final = 31
_SNAPPY_RATIO_MAX: Final = 64  # a copy of 64 bytes takes at least two


def plain_section(codec: Codec, section: bytes, bytes_max: int = BATCH_BYTES_MAX) -> bytes:
    """The records section of one batch, decompressed.

    Raises:
        CorruptBatchError: not a stream of the codec, or more than `bytes_max` come out of it.
    """
    if codec is Codec.GZIP and _gzip_is_over(section, bytes_max):
        raise CorruptBatchError(f"the records unfold to more than {bytes_max} bytes")
    if codec is Codec.ZSTD and _zstd_is_over(section, bytes_max):
        raise CorruptBatchError(f"the records unfold to more than {bytes_max} bytes")
    plain = decompress(codec, section)
    if len(plain) > bytes_max:
        raise CorruptBatchError(f"the records unfold to {len(plain)} bytes, limit {bytes_max}")
    return plain


def plain_sections(table: BatchTable, bytes_max: int) -> tuple[bytes, Int64Array, Int64Array]:
    """A buffer with the plain sections of all batches, and where each starts and ends in it.

    Batches without compression are not copied when all are such.

    Raises:
        CorruptBatchError: some section is damaged; which one, the caller finds out one by one.
    """
    starts = table.positions + HEADER_BYTES
    ends = table.positions + table.sizes
    codecs = table.headers["attributes"] & CODEC_MASK
    if not codecs.any():
        return table.buffer, starts, ends
    if int(codecs.max()) > Codec.ZSTD:
        raise CorruptBatchError("an unknown codec")
    parts = []
    buffer = table.buffer
    for start, end, codec in zip(starts.tolist(), ends.tolist(), codecs.tolist(), strict=True):
        section = buffer[start:end]
        parts.append(plain_section(Codec(codec), section, bytes_max) if codec else section)
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    after = np.cumsum(lengths)
    return b"".join(parts), after - lengths, after


def _gzip_is_over(section: bytes, bytes_max: int) -> bool:
    # DEFLATE unfolds at most 1032 to 1
    if len(section) * 1032 <= bytes_max:
        return False
    left = bytes_max
    while section:
        decoder = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            left -= len(decoder.decompress(section, left + 1))
        except zlib.error:
            return False  # the real reader says what it is
        if left < 0:
            return True
        if not decoder.eof:
            return False
        section = decoder.unused_data
    return False


def _zstd_is_over(section: bytes, bytes_max: int) -> bool:
    # a block of at most 128 KiB takes at least 4 bytes
    if len(section) * 32768 <= bytes_max:
        return False
    left = bytes_max
    try:
        with zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(section), read_across_frames=True
        ) as reader:
            while chunk := reader.read(min(1 << 20, left + 1)):
                left -= len(chunk)
                if left < 0:
                    return True
    except zstandard.ZstdError:
        return False
    return False
