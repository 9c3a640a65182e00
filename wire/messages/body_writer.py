"""Writers of bodies, made from their classes at the first use: straight lines instead of calls.

kio's writer calls functions for each field, which check what they are given and write to a stream:
8 to 20 times as long as this takes. Here the fields of a class are the text of one function:
neighbours of fixed size are one `pack`, texts and arrays are written where they are. What few
classes have (tagged fields, dates, floating point) is left to kio, and its bytes are what tests
compare with. (apache/kafka: generator/.../MessageDataGenerator.java)
"""

import dataclasses
import io
import linecache
import struct
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, Final

from kio.serial import entity_writer
from kio.serial.errors import OutOfBoundValue
from kio.serial.writers import Writer

from wire.messages.conversion import entity_of, field_types, is_array, is_nullable
from wire.primitives import encode_unsigned_varint

WriteParts = Callable[[Any, Callable[[bytes], object]], None]
"""Hands the pieces of a value to a function, in their order."""

_CODES: Final = {
    "int8": ("b", "{}"),
    "int16": ("h", "{}"),
    "int32": ("i", "{}"),
    "int64": ("q", "{}"),
    "uint8": ("B", "{}"),
    "uint16": ("H", "{}"),
    "uint32": ("I", "{}"),
    "uint64": ("Q", "{}"),
    "bool": ("?", "{}"),
    "error_code": ("h", "{}.value"),
    "timedelta_i32": ("i", "round({}.total_seconds() * 1000)"),
    "timedelta_i64": ("q", "round({}.total_seconds() * 1000)"),
    "uuid": ("16s", "uuid_bytes({})"),
}
"""Letter of `struct` and the number to be packed, by the type of a field."""
_VARIABLE: Final = frozenset({"string", "bytes", "records"})
_SMALL: Final = 128
_SHORT_LENGTHS: Final = tuple(encode_unsigned_varint(length + 1) for length in range(_SMALL))
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_SHORT_MAX: Final = (1 << 15) - 1
_ZERO_UUID: Final = bytes(16)
_NULL_ENTITY: Final = b"\xff"
_ENTITY: Final = b"\x01"


@cache
def body_writer(entity: type) -> Callable[[Any], bytes]:
    """The function from a body with the fields of this class to its bytes.

    It raises OutOfBoundValue where a text is longer than the version can carry.
    """
    write = _parts_writer(entity)

    def written(body: Any) -> bytes:
        parts: list[bytes] = []
        write(body, parts.append)
        return b"".join(parts)

    return written


@cache
def _parts_writer(entity: type) -> WriteParts:
    if not _is_plain(entity):
        return _kio_writer(entity)
    source = _Source(entity)
    lines = ["def write(v, out):", *(f"    {line}" for line in source.lines())]
    text = "\n".join(lines) + "\n"
    filename = f"<body {entity.__module__}.{entity.__name__}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), source.names)  # noqa: S102 (text of kio's declarations)
    write: WriteParts = source.names["write"]
    return write


def _kio_writer(entity: type) -> WriteParts:
    write: Writer[Any] = entity_writer(entity)

    def written(value: Any, out: Callable[[bytes], object]) -> None:
        stream = io.BytesIO()
        write(stream, value)
        out(stream.getvalue())

    return written


def _is_plain(entity: type) -> bool:
    """True if none of its own fields is one that is left to kio."""
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata:
            return False
        kind = field.metadata.get("kafka_type")
        is_nested = entity_of(field_types(entity)[field.name]) is not None
        if not is_nested and kind not in _CODES and kind not in _VARIABLE:
            return False
    return True


class _Source:
    """The text of one function and the names that it uses."""

    def __init__(self, entity: Any) -> None:
        self.is_flexible = bool(entity.__flexible__)
        self._types = field_types(entity)
        self._fields = dataclasses.fields(entity)
        self.names: dict[str, Any] = {
            "uuid_bytes": _uuid_bytes,
            "long_length": _long_length,
            "short": _short,
            "int32": _INT32.pack,
            "lengths": _SHORT_LENGTHS,
        }

    def lines(self) -> list[str]:
        """The lines of the function."""
        lines: list[str] = []
        for is_fixed, run in groupby(self._fields, key=self._is_fixed):
            fields = list(run)
            if is_fixed:
                lines.append(self._packed(fields))
            else:
                for field in fields:
                    lines += self._variable(field)
        if self.is_flexible:
            lines.append("out(b'\\0')")
        return lines or ["pass"]

    def _bind(self, stem: str, value: Any) -> str:
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def _is_fixed(self, field: "dataclasses.Field[Any]") -> bool:
        return field.metadata.get("kafka_type") in _CODES and not is_array(self._types[field.name])

    def _packed(self, fields: list["dataclasses.Field[Any]"]) -> str:
        kinds = [_CODES[field.metadata["kafka_type"]] for field in fields]
        pack = self._bind("pack", struct.Struct(">" + "".join(code for code, _ in kinds)).pack)
        values = [
            form.format(f"v.{field.name}") for field, (_, form) in zip(fields, kinds, strict=True)
        ]
        return f"out({pack}({', '.join(values)}))"

    def _variable(self, field: "dataclasses.Field[Any]") -> list[str]:
        type_, name = self._types[field.name], f"v.{field.name}"
        if is_array(type_):
            return self._array(field, name)
        nested = entity_of(type_)
        if nested is None:
            may_be_null = is_nullable(type_)
            return self._content(field.metadata["kafka_type"], name, may_be_null=may_be_null)
        write = self._bind("write", _parts_writer(nested))
        if not is_nullable(type_):
            return [f"{write}({name}, out)"]
        return [
            f"if {name} is None:",
            f"    out({_NULL_ENTITY!r})",
            "else:",
            f"    out({_ENTITY!r})",
            f"    {write}({name}, out)",
        ]

    def _array(self, field: "dataclasses.Field[Any]", name: str) -> list[str]:
        nested, kind = entity_of(self._types[field.name]), field.metadata.get("kafka_type", "")
        if nested is not None:
            each = [f"{self._bind('write', _parts_writer(nested))}(item, out)"]
        elif kind in _CODES:
            code, form = _CODES[kind]
            each = [
                f"out({self._bind('pack', struct.Struct('>' + code).pack)}({form.format('item')}))"
            ]
        else:
            each = self._content(kind, "item", may_be_null=False)
        null = b"\0" if self.is_flexible else _INT32.pack(-1)
        length = self._length("len(items)") if self.is_flexible else ["out(int32(len(items)))"]
        return [
            f"items = {name}",
            "if items is None:",
            f"    out({null!r})",
            "else:",
            *(f"    {line}" for line in length),
            "    for item in items:",
            *(f"        {line}" for line in each),
        ]

    def _content(self, kind: str, name: str, *, may_be_null: bool) -> list[str]:
        """Lines that write a text or bytes with their length."""
        made = f"{name}.encode()" if kind == "string" else name
        if self.is_flexible:
            null, length = b"\0", self._length("len(content)")
        elif kind == "string":
            null, length = _INT16.pack(-1), ["out(short(len(content)))"]
        else:
            null, length = _INT32.pack(-1), ["out(int32(len(content)))"]
        lines = [f"content = {made}", *length, "out(content)"]
        if not may_be_null:
            return lines
        return [
            f"if {name} is None:",
            f"    out({null!r})",
            "else:",
            *(f"    {each}" for each in lines),
        ]

    def _length(self, length: str) -> list[str]:
        return [f"n = {length}", f"out(lengths[n] if n < {_SMALL} else long_length(n))"]


def _uuid_bytes(value: Any) -> bytes:
    return _ZERO_UUID if value is None else value.bytes


def _long_length(length: int) -> bytes:
    return encode_unsigned_varint(length + 1)


def _short(length: int) -> bytes:
    if length > _SHORT_MAX:
        raise OutOfBoundValue(f"a text of {length} bytes, {_SHORT_MAX} at most")
    return _INT16.pack(length)
