"""The header checksum of LZ4 frames in messages of magic 0, which Kafka's producers got wrong.

They hashed the frame's magic too, and readers of that format ignore the byte (KAFKA-3160). Here it
is replaced by the one that the frame format asks for, so that any decoder takes the frame.
github.com/lz4/lz4: doc/lz4_Frame_format.md; github.com/Cyan4973/xxHash: doc/xxhash_spec.md
"""

from typing import Final

from wire.errors import CorruptBatchError

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS_POSITION: Final = 4
_CONTENT_SIZE_BIT: Final = 0x08
_CONTENT_SIZE_BYTES: Final = 8
_DICTIONARY_BIT: Final = 0x01
_DICTIONARY_BYTES: Final = 4
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK: Final = 0xFFFF_FFFF
_SHORT_MAX: Final = 15


def with_standard_checksum(frame: bytes) -> bytes:
    """The frame with the header checksum of the format.

    Raises:
        CorruptBatchError: it is no LZ4 frame.
    """
    return _with_checksum_of(frame, _FLAGS_POSITION)


def with_old_checksum(frame: bytes) -> bytes:
    """The frame with the header checksum that messages of magic 0 have.

    Raises:
        CorruptBatchError: it is no LZ4 frame.
    """
    return _with_checksum_of(frame, 0)


def _with_checksum_of(frame: bytes, start: int) -> bytes:
    """The frame with the checksum of its header from a position on."""
    if not frame.startswith(_FRAME_MAGIC) or len(frame) <= _FLAGS_POSITION:
        raise CorruptBatchError("records are not valid lz4: the frame has another magic")
    flags = frame[_FLAGS_POSITION]
    end = _FLAGS_POSITION + 2
    end += _CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE_BIT else 0
    end += _DICTIONARY_BYTES if flags & _DICTIONARY_BIT else 0
    if len(frame) <= end:
        raise CorruptBatchError("records are not valid lz4: the frame header is cut")
    checksum = xxh32(frame[start:end]) >> 8 & 0xFF
    return frame[:end] + bytes((checksum,)) + frame[end + 1 :]


def xxh32(content: bytes) -> int:
    """XXH32 with seed 0 of at most 15 bytes."""
    assert len(content) <= _SHORT_MAX, f"{len(content)=}"
    prime1, prime2, prime3, prime4, prime5 = _PRIMES
    state = prime5 + len(content) & _MASK
    whole = len(content) // 4 * 4
    for start in range(0, whole, 4):
        lane = int.from_bytes(content[start : start + 4], "little")
        state = _rotated(state + lane * prime3, 17) * prime4 & _MASK
    for byte in content[whole:]:
        state = _rotated(state + byte * prime5, 11) * prime1 & _MASK
    state = (state ^ state >> 15) * prime2 & _MASK
    state = (state ^ state >> 13) * prime3 & _MASK
    return state ^ state >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 32 - bits) & _MASK
