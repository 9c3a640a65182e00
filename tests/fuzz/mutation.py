"""Mutations of byte strings: what real damage and hostile peers do to valid input."""

import struct
from collections.abc import Sequence
from random import Random

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 0x7FFF, 0x8000, 0x7FFF_FFFF, -0x8000_0000, 0x1000_0000)
LAYOUTS = (">b", ">h", ">i", ">q")
VARINTS = (
    b"\x00", b"\x01", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x10", b"\x81\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80" * 11,
)  # fmt: skip
WORDS = (
    b"null", b"true", b"-1", b"1e999", b"9" * 40, b"\\u", b"\\ud800", b"\xff\xfe", b"\xed\xa0\x80",
    b"=", b":", b"\\", b"\n", b"\r", b"\x00", b"[" * 40, b"{" * 40, b'"', b"NaN", b"%00", b",,",
    b"#", b"\xc2\x85", b"\xd9\xa1", b" ", b"\x1f\x8b\x08\x00", b"(" * 40,
)  # fmt: skip
DEEP_WORDS = tuple(
    word * count for word in (b"[", b"{", b'{"a":', b"(", b"#{") for count in (2_000, 100_000)
)
"""Nested deeper than a reader that calls itself can go."""
DEEP = 0.005
SIZE_MAX = 1 << 16


def mutated(data: bytes, pool: Sequence[bytes], rng: Random) -> bytes:
    """One to four changes; `pool` gives material to splice in."""
    changed = bytearray(data)
    for _ in range(1 + int(rng.random() * rng.random() * 4)):
        rng.choice(_CHANGES)(changed, pool, rng)
    return bytes(changed[:SIZE_MAX])


def _place(data: bytearray, rng: Random) -> int:
    """A position; low ones more often, as lengths and versions stand there."""
    if not data:
        return 0
    if rng.random() < 0.3:
        return rng.randrange(min(len(data), 24))
    return rng.randrange(len(data))


def _flip(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    if data:
        data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _set(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    if data:
        data[_place(data, rng)] = rng.randrange(256)


def _number(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    layout = rng.choice(LAYOUTS)
    size = struct.calcsize(layout)
    if len(data) < size:
        return
    place = min(_place(data, rng), len(data) - size)
    number = rng.choice(NUMBERS)
    limit = 1 << (8 * size - 1)
    struct.pack_into(layout, data, place, (number + limit) % (2 * limit) - limit)


def _nudge(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    """A length or count that is a little off."""
    if data:
        place = _place(data, rng)
        data[place] = (data[place] + rng.choice((-2, -1, 1, 2))) % 256


def _insert(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    place = _place(data, rng)
    kind = rng.random()
    if kind < DEEP:
        new = rng.choice(DEEP_WORDS)
    elif kind < 0.4:
        new = rng.choice(VARINTS)
    elif kind < 0.7:
        new = rng.choice(WORDS)
    else:
        new = rng.randbytes(1 + rng.randrange(8))
    data[place:place] = new


def _overwrite(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    place = _place(data, rng)
    new = rng.choice(VARINTS if rng.random() < 0.6 else WORDS)
    data[place : place + len(new)] = new


def _delete(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    place = _place(data, rng)
    del data[place : place + 1 + int(rng.random() ** 3 * 64)]


def _truncate(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    del data[_place(data, rng) :]


def _repeat(data: bytearray, _pool: Sequence[bytes], rng: Random) -> None:
    start = _place(data, rng)
    part = data[start : start + 1 + rng.randrange(64)]
    data[start:start] = part * rng.choice((1, 1, 2, 16))


def _splice(data: bytearray, pool: Sequence[bytes], rng: Random) -> None:
    other = rng.choice(pool)
    if not other:
        return
    start = rng.randrange(len(other))
    end = min(len(other), start + 1 + rng.randrange(256))
    place = _place(data, rng)
    data[place : place + (end - start if rng.random() < 0.5 else 0)] = other[start:end]


def _append(data: bytearray, pool: Sequence[bytes], rng: Random) -> None:
    data += rng.choice(pool) if rng.random() < 0.5 else bytes(rng.randrange(32))


_CHANGES = (
    _flip, _flip, _set, _number, _nudge, _nudge, _insert, _overwrite, _delete, _truncate, _repeat,
    _splice, _append,
)  # fmt: skip
