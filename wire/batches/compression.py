"""The four codecs of the records section, framed as Kafka's clients frame them.

gzip is RFC 1952, snappy is the xerial block stream (a blob without its magic is one raw block),
lz4 is the frame format, zstd one or more standard frames without a declared content size.
Compressed bytes of two encoders may differ; only what they decode to is fixed.

A small blob may expand to gigabytes: the output is bounded during decompression, before its memory
is allocated.
"""

import enum
import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from wire.errors import CorruptBatchError
from wire.primitives import read_unsigned_varint

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_GZIP_WINDOW_BITS: Final = 31
_ZSTD_LEVEL: Final = 3
_LZ4_PIECE_BYTES: Final = 16 * 1024
"""Input of one encoder call, which no other thread of the interpreter runs beside."""
_LZ4_RATIO_MAX: Final = 255
_ROOM_RATIO: Final = 16
"""First guess of what comes out of a stream, as a multiple of its size."""
_ROOM_GROWTH: Final = 4
PLAIN_BYTES_MAX: Final = 128 * 1024 * 1024
"""Limit per batch: 16 times what Kafka admits to the metadata log, compressed or not."""


class Codec(enum.IntEnum):
    """The compression bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, plain: bytes, level: int | None = None) -> bytes:
    """The records section in the codec's framing; a level is one of Kafka's for the codec."""
    match codec:
        case Codec.NONE:
            return plain
        case Codec.GZIP:
            encoder = zlib.compressobj(-1 if level is None else level, wbits=_GZIP_WINDOW_BITS)
            return encoder.compress(plain) + encoder.flush()
        case Codec.SNAPPY:
            return _xerial_stream(plain)
        case Codec.LZ4:
            # Kafka's Java reader refuses blocks that refer to the ones before them
            blocks = cramjam.lz4.Compressor(level, block_linked=False)
            for start in range(0, len(plain), _LZ4_PIECE_BYTES):
                blocks.compress(plain[start : start + _LZ4_PIECE_BYTES])
            return bytes(blocks.finish())
        case Codec.ZSTD:
            used = _ZSTD_LEVEL if level is None else level
            return bytes(cramjam.zstd.compress(plain, used))


def decompress(
    codec: Codec, compressed: bytes | memoryview, plain_bytes_max: int = PLAIN_BYTES_MAX
) -> bytes:
    """The plain records section.

    Raises:
        CorruptBatchError: the bytes are not a complete stream of this codec, or more than
            `plain_bytes_max` bytes come out of it.
    """
    plain = b""
    try:
        match codec:
            case Codec.NONE:
                plain = bytes(compressed)
            case Codec.GZIP:
                plain = _gunzip(bytes(compressed), plain_bytes_max)
            case Codec.SNAPPY:
                plain = _read_snappy(bytes(compressed), plain_bytes_max)
            case Codec.LZ4:
                plain = _read_lz4(bytes(compressed), plain_bytes_max)
            case Codec.ZSTD:
                plain = _read_zstd(bytes(compressed), plain_bytes_max)
    except (
        zlib.error,
        struct.error,
        cramjam.CompressionError,
        cramjam.DecompressionError,
    ) as error:
        raise CorruptBatchError(f"records are not valid {codec.name.lower()}: {error}") from error
    return _within(plain, plain_bytes_max)


def _within(plain: bytes, plain_bytes_max: int) -> bytes:
    if len(plain) > plain_bytes_max:
        raise _too_large(plain_bytes_max)
    return plain


def _too_large(plain_bytes_max: int) -> CorruptBatchError:
    return CorruptBatchError(f"the records unfold to more than {plain_bytes_max} bytes")


def _gunzip(compressed: bytes, plain_bytes_max: int) -> bytes:
    plain = bytearray()
    while compressed:
        decoder = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        plain += decoder.decompress(compressed, plain_bytes_max - len(plain) + 1)
        if len(plain) > plain_bytes_max:
            raise _too_large(plain_bytes_max)
        if not decoder.eof:
            raise CorruptBatchError("records are not valid gzip: the stream is cut")
        compressed = decoder.unused_data
    return bytes(plain)


def _read_zstd(compressed: bytes, plain_bytes_max: int) -> bytes:
    """Decompress frames one behind the other; nothing is the stream without a frame."""
    if not compressed:
        return b""
    return _read_bounded(cramjam.zstd.decompress_into, compressed, plain_bytes_max)


def _read_lz4(compressed: bytes, plain_bytes_max: int) -> bytes:
    largest = len(compressed) * _LZ4_RATIO_MAX
    if largest <= plain_bytes_max:
        return bytes(cramjam.lz4.decompress(compressed))
    return _read_bounded(cramjam.lz4.decompress_into, compressed, plain_bytes_max)


def _read_bounded(
    decompress_into: Callable[[bytes, bytearray], int], compressed: bytes, plain_bytes_max: int
) -> bytes:
    """Decompress into a buffer that grows up to the limit; most streams fit into the first one."""
    room = min(_ROOM_RATIO * len(compressed), plain_bytes_max)
    while True:
        plain = bytearray(room)
        try:
            size_bytes = decompress_into(compressed, plain)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if room >= plain_bytes_max:
                raise _too_large(plain_bytes_max) from error
            room = min(_ROOM_GROWTH * room, plain_bytes_max)
        else:
            return bytes(memoryview(plain)[:size_bytes])


def _xerial_stream(plain: bytes) -> bytes:
    stream = bytearray(_XERIAL_HEADER)
    for start in range(0, len(plain), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK_BYTES]))
        stream += struct.pack(">i", len(block)) + block
    return bytes(stream)


def _read_snappy(compressed: bytes, plain_bytes_max: int) -> bytes:
    if not compressed.startswith(_XERIAL_MAGIC):
        return _read_snappy_block(compressed, plain_bytes_max, 0)
    plain = bytearray()
    position = 0
    while position < len(compressed):
        if compressed.startswith(_XERIAL_MAGIC, position):
            position += len(_XERIAL_HEADER)
            continue
        (size_bytes,) = struct.unpack_from(">i", compressed, position)
        position += 4
        if size_bytes < 0 or position + size_bytes > len(compressed):
            raise CorruptBatchError(f"snappy block of {size_bytes} bytes does not fit")
        block = compressed[position : position + size_bytes]
        plain += _read_snappy_block(block, plain_bytes_max, len(plain))
        position += size_bytes
    return bytes(plain)


def _read_snappy_block(block: bytes, plain_bytes_max: int, before_bytes: int) -> bytes:
    """Decompress a raw block; it begins with its plain length, which the decoder allocates."""
    try:
        size_bytes, _ = read_unsigned_varint(block, 0)
    except (ValueError, IndexError) as error:
        raise CorruptBatchError(f"snappy block without a length: {error}") from error
    if before_bytes + size_bytes > plain_bytes_max:
        raise _too_large(plain_bytes_max)
    return bytes(cramjam.snappy.decompress_raw(block))
