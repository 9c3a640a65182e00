"""Offsets with their place in the log, so that bytes between two of them can be counted.

apache/kafka: storage/.../internals/log/LogOffsetMetadata.java
"""

import msgspec

from wire.types import Offset


class LogOffsetMetadata(msgspec.Struct, frozen=True, gc=False):
    """An offset with its place in the log, None where only the offset is known."""

    offset: Offset
    place: tuple[Offset, int] | None = None
    """Base offset of its segment, and bytes of the segment before it."""
