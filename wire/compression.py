"""The four codecs of the records section, framed as Kafka's clients frame them.

gzip is RFC 1952, snappy is the xerial block stream (a blob without its magic is one raw block),
lz4 is the frame format, zstd one or more standard frames without a declared content size.
Compressed bytes of two encoders may differ; only what they decode to is fixed.
"""

import enum
import struct
import zlib
from typing import Final

import cramjam
import zstandard

from wire.errors import CorruptBatchError

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_GZIP_WINDOW_BITS: Final = 31
_ZSTD_LEVEL: Final = 3


class Codec(enum.IntEnum):
    """The compression bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, plain: bytes) -> bytes:
    """The records section in the codec's framing."""
    match codec:
        case Codec.NONE:
            return plain
        case Codec.GZIP:
            encoder = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
            return encoder.compress(plain) + encoder.flush()
        case Codec.SNAPPY:
            return _xerial_stream(plain)
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress(plain))
        case Codec.ZSTD:
            return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(plain)


def decompress(codec: Codec, compressed: bytes | memoryview) -> bytes:
    """The plain records section.

    Raises:
        CorruptBatchError: the bytes are not a complete stream of this codec.
    """
    try:
        match codec:
            case Codec.NONE:
                return bytes(compressed)
            case Codec.GZIP:
                return _gunzip(bytes(compressed))
            case Codec.SNAPPY:
                return _read_snappy(bytes(compressed))
            case Codec.LZ4:
                return bytes(cramjam.lz4.decompress(bytes(compressed)))
            case Codec.ZSTD:
                return _read_zstd(bytes(compressed))
    except (
        zlib.error,
        struct.error,
        cramjam.CompressionError,
        cramjam.DecompressionError,
        zstandard.ZstdError,
    ) as error:
        raise CorruptBatchError(f"records are not valid {codec.name.lower()}: {error}") from error


def _gunzip(compressed: bytes) -> bytes:
    plain = bytearray()
    while compressed:
        decoder = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        plain += decoder.decompress(compressed)
        if not decoder.eof:
            raise CorruptBatchError("records are not valid gzip: the stream is cut")
        compressed = decoder.unused_data
    return bytes(plain)


def _read_zstd(compressed: bytes) -> bytes:
    plain = bytearray()
    while compressed:
        decoder = zstandard.ZstdDecompressor().decompressobj()
        plain += decoder.decompress(compressed)
        if not decoder.eof:
            raise CorruptBatchError("records are not valid zstd: the stream is cut")
        compressed = decoder.unused_data
    return bytes(plain)


def _xerial_stream(plain: bytes) -> bytes:
    stream = bytearray(_XERIAL_HEADER)
    for start in range(0, len(plain), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK_BYTES]))
        stream += struct.pack(">i", len(block)) + block
    return bytes(stream)


def _read_snappy(compressed: bytes) -> bytes:
    if not compressed.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(compressed))
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
        plain += bytes(cramjam.snappy.decompress_raw(block))
        position += size_bytes
    return bytes(plain)
