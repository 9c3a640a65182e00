"""Conversion between a record and its part of the image by fields of equal names."""

from functools import cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def copied(target: type[T], source: msgspec.Struct, **others: Any) -> T:
    """An instance of `target` with the values of `source` in the fields that both have.

    `others` are the fields of `target` that `source` lacks; each must be given or have a default.
    """
    shared = _shared(target, type(source))
    return target(
        **{name: getattr(source, name) for name in shared if name not in others}, **others
    )


@cache
def _shared(target: type[msgspec.Struct], source: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in target.__struct_fields__ if name in source.__struct_fields__)
