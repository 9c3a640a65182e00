"""Equality of images, field by field."""

from collections.abc import Iterable
from itertools import compress
from operator import attrgetter, is_not, or_
from typing import Final

from msgspec.structs import replace

from metadata.image import Image

_COMPARED: Final = tuple(name for name in Image.__struct_fields__ if name != "provenance")
_fields: Final = attrgetter(*_COMPARED)


def image_difference(
    one: Image, other: Image, equal: tuple[Image, Image] | None = None
) -> str | None:
    """First field in which two images differ, None if they are equal.

    A registration's offset is not compared: a snapshot does not keep it.

    Args:
        one: an image.
        other: another one.
        equal: an older pair that was equal; a field that both still share with it is skipped.
    """
    names: Iterable[str] = _COMPARED
    if equal is not None:
        is_new = map(is_not, _fields(one), _fields(equal[0]))
        is_new_there = map(is_not, _fields(other), _fields(equal[1]))
        names = compress(_COMPARED, map(or_, is_new, is_new_there))
    for name in names:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is theirs or mine == theirs:
            continue
        if name == "brokers":
            plain = [
                {key: replace(b, registration_offset=0) for key, b in brokers.items()}
                for brokers in (mine, theirs)
            ]
            if plain[0] == plain[1]:
                continue
        return name
    return None
