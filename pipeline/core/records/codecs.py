"""Decompressed record sections of many batches in one buffer, within a limit.

The framing of the codecs is that of `wire.batches.compression`. The two that decompress without a
limit are read here piece by piece, so that a small blob cannot fill the memory: exceeding the
limit is a fault of the batch. One zstd context serves the process (making one costs as much as a
batch of 16 KiB); a reader is one thread.
"""

import zlib
from typing import Final

import numpy as np
import zstandard

from pipeline.core.records.batches import BATCH_BYTES_MAX, BatchTable
from pipeline.core.records.varints import Int64Array
from wire.batches.batch import HEADER_BYTES
from wire.batches.compression import Codec, decompress
from wire.errors import CorruptBatchError

CODEC_MASK: Final = 0x07
CODEC_NAMES: Final = tuple(codec.name.lower() for codec in Codec)
_GZIP_WINDOW_BITS: Final = 31
_PIECE_BYTES: Final = 8192  # of zstd, which decompress to 256 MiB at most
_ZSTD: Final = zstandard.ZstdDecompressor()


def plain_section(codec: Codec, section: bytes, bytes_max: int = BATCH_BYTES_MAX) -> bytes:
    """Decompress the records section of one batch.

    Raises:
        CorruptBatchError: not a stream of the codec, or larger than `bytes_max`.
    """
    if not section:
        return b""  # a batch that compaction emptied
    if codec is Codec.GZIP:
        return _gunzip(section, bytes_max)
    if codec is Codec.ZSTD:
        return _unzstd(section, bytes_max)
    plain = decompress(codec, section)
    if len(plain) > bytes_max:
        raise _TooLargeError(bytes_max)
    return plain


class _TooLargeError(CorruptBatchError):
    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the records unfold to more than {bytes_max} bytes")


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


def _gunzip(section: bytes, bytes_max: int) -> bytes:
    parts = []
    left = bytes_max
    while section:
        decoder = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            part = decoder.decompress(section, left + 1)
        except zlib.error as error:
            raise CorruptBatchError(f"records are not valid gzip: {error}") from error
        left -= len(part)
        if left < 0:
            raise _TooLargeError(bytes_max)
        if not decoder.eof:
            raise CorruptBatchError("records are not valid gzip: the stream is cut")
        parts.append(part)
        section = decoder.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unzstd(section: bytes, bytes_max: int) -> bytes:
    parts = []
    left = bytes_max
    while section:
        decoder = _ZSTD.decompressobj()
        fed = 0
        try:
            while fed < len(section) and not decoder.eof:
                part = decoder.decompress(section[fed : fed + _PIECE_BYTES])
                fed += _PIECE_BYTES
                left -= len(part)
                if left < 0:
                    raise _TooLargeError(bytes_max)
                parts.append(part)
        except zstandard.ZstdError as error:
            raise CorruptBatchError(f"records are not valid zstd: {error}") from error
        if not decoder.eof:
            raise CorruptBatchError("records are not valid zstd: the stream is cut")
        section = decoder.unused_data + section[fed:]
    return parts[0] if len(parts) == 1 else b"".join(parts)
