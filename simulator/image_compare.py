"""Equality of images, field by field."""

from typing import Final

from msgspec.structs import replace

from metadata.image import Image

_COMPARED: Final = tuple(name for name in Image.__struct_fields__ if name != "provenance")


def image_difference(
    one: Image, other: Image, equal: tuple[Image, Image] | None = None
) -> str | None:
    """The first field in which two images differ, None if they are equal.

    A registration's offset is not compared: a snapshot does not keep it.

    Args:
        one: an image.
        other: another one.
        equal: an older pair that was equal; a field that both still have from it is not looked at.
    """
    for name in _COMPARED:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is theirs:
            continue
        if equal is not None and (
            mine is getattr(equal[0], name) and theirs is getattr(equal[1], name)
        ):
            continue
        if mine == theirs:
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
