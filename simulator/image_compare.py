"""Equality of images, field by field."""

from typing import Final

from msgspec.structs import replace

from metadata.image import Image

_COMPARED: Final = tuple(name for name in Image.__struct_fields__ if name != "provenance")


def image_difference(one: Image, other: Image) -> str | None:
    """The first field in which two images differ, None if they are equal.

    A registration's offset is not compared: a snapshot does not keep it.
    """
    for name in _COMPARED:
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
