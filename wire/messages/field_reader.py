"""Reader of hand-read bodies: numbers, lengths, texts, tagged fields; views into the frame."""

import struct
from typing import Final

from wire.errors import RemoteProtocolError
from wire.primitives import TEXT_BYTES_MAX, Buffer, read_unsigned_varint, skip_tagged_fields

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UUID_BYTES: Final = 16
NOT_READABLE: Final = (IndexError, ValueError, struct.error, RemoteProtocolError)
"""Errors of reading bytes that are not as they should be."""


class FieldReader:
    """A position in a frame; every length is compared with the bytes that are left."""

    def __init__(self, body: Buffer, position: int, *, is_flexible: bool) -> None:
        self.view = memoryview(body)
        self.position = position
        self._is_flexible = is_flexible

    def take(self, size_bytes: int) -> memoryview:
        """The next bytes."""
        end = self.position + size_bytes
        if size_bytes < 0 or end > len(self.view):
            left = len(self.view) - self.position
            raise ValueError(f"a field of {size_bytes} bytes at {self.position}, {left} are left")
        taken = self.view[self.position : end]
        self.position = end
        return taken

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """The next numbers."""
        numbers = layout.unpack_from(self.view, self.position)
        self.position += layout.size
        return numbers

    def _length(self, layout: struct.Struct) -> int:
        """A length, -1 for null."""
        if not self._is_flexible:
            return self.unpack(layout)[0]
        length, self.position = read_unsigned_varint(self.view, self.position)
        return length - 1

    def count(self) -> int:
        """The length of an array, which may not be null; each element takes a byte at least."""
        count = self.nullable_count()
        if count is None:
            raise ValueError(f"an array of -1 elements at {self.position}")
        return count

    def nullable_count(self) -> int | None:
        """As `count`, None for null."""
        count = self._length(_INT32)
        if not -1 <= count <= len(self.view) - self.position:
            raise ValueError(f"an array of {count} elements at {self.position}")
        return None if count == -1 else count

    def string(self) -> str | None:
        """A text, None for null."""
        length = self._length(_INT16)
        if length > TEXT_BYTES_MAX:
            raise ValueError(f"a text of {length} bytes at {self.position}")
        return None if length == -1 else str(self.take(length), "utf-8")

    def text(self, what: str) -> str:
        """A text that may not be null."""
        text = self.string()
        if text is None:
            raise ValueError(f"no {what}")
        return text

    def topic_id(self) -> bytes:
        """The id of a topic."""
        return bytes(self.take(_UUID_BYTES))

    def topic(self, *, has_id: bool) -> str | bytes:
        """The id of a topic, or its name in the versions before ids."""
        return self.topic_id() if has_id else self.text("name of a topic")

    def records(self) -> memoryview | None:
        """Record batches, None for null."""
        length = self._length(_INT32)
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        """The tagged fields that end a structure, of which none is known."""
        if self._is_flexible:
            self.position = skip_tagged_fields(self.view, self.position)

    def tagged(self) -> dict[int, memoryview]:
        """The tagged fields that end a structure of a flexible version, by number."""
        assert self._is_flexible, "a classic version has none"
        count, self.position = read_unsigned_varint(self.view, self.position)
        fields = {}
        for _ in range(count):
            number, self.position = read_unsigned_varint(self.view, self.position)
            size_bytes, self.position = read_unsigned_varint(self.view, self.position)
            fields[number] = self.take(size_bytes)
        return fields
