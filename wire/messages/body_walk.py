"""Check of the bytes of a body before kio reads it.

kio's native reader allocates what an array's length claims, and a length that no memory can hold
aborts the process: a frame of ten bytes could end a node. It stops at a tagged field that it does
not know, while the protocol lets a newer peer add tagged fields to any version. It reads null as
None also where the protocol forbids null, and no caller expects that. So the body is walked by the
structure of its class: lengths are checked against the bytes that are there, unknown tagged fields
are cut out, forbidden nulls are refused, and so are texts of requests that are longer than a record
can hold, as by Kafka (apache/kafka: generator/.../MessageDataGenerator.java).
"""

import dataclasses
import linecache
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from wire.messages.conversion import entity_of, field_types, is_array, is_nullable
from wire.primitives import TEXT_BYTES_MAX, encode_unsigned_varint, read_unsigned_varint

# A replacement of body[start:end]; in ascending order, without overlap.
Edit = tuple[int, int, bytes]
# From body, position and the edits found so far: walks one value, returns the position after it.
Walker = Callable[[bytes, int, list[Edit]], int]

_FIXED_BYTES: Final = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float64": 8,
    "uuid": 16,
    "bool": 1,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
_VARIABLE: Final = frozenset({"string", "bytes", "records"})
_BYTES_MAX: Final = 2**31 - 1


def checked_body(entity: type, body: bytes) -> bytes:
    """The body with lengths that fit, without tagged fields that the class does not declare.

    Raises:
        IndexError, ValueError: the body is not one of this class.
    """
    edits: list[Edit] = []
    entity_walker(entity)(body, 0, edits)
    if not edits:
        return body
    kept = bytearray()
    position = 0
    for start, end, replacement in edits:
        assert position <= start <= end
        kept += body[position:start]
        kept += replacement
        position = end
    return bytes(kept + body[position:])


@cache
def entity_walker(entity: type) -> Walker:
    """The walker of one value of the class; its text is made at the first use."""
    source = _Source()
    return source.compiled(f"{entity.__module__}.{entity.__name__}", source.entity(entity))


class _Source:
    """The text of the function that walks a value of a class, and the names that it uses.

    In it `b` are the bytes, `p` is the position and `end` the end of them.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "read_unsigned_varint": read_unsigned_varint,
            "walk_tagged": _walk_tagged,
            "ended": _ended,
            "null": _null,
            "long": _long,
            "crowded": _crowded,
        }

    def compiled(self, name: str, lines: list[str]) -> Walker:
        """The function of these lines, which belong to what is named."""
        head = ["def walk(b, p, edits):", "    end = len(b)"]
        text = "\n".join([*head, *_indented([*lines, "return p"])]) + "\n"
        filename = f"<walk {name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)  # noqa: S102 (text of kio's declarations)
        walker: Walker = self.names["walk"]
        return walker

    def _bind(self, stem: str, value: Any) -> str:
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def entity(self, entity: type) -> list[str]:
        """Lines that walk the fields of a class, its section of tagged ones at the end."""
        flexible = bool(entity.__flexible__)  # type: ignore[attr-defined]  # kio: class attribute
        tagged: dict[int, Walker] = {}
        lines: list[str] = []
        fixed_bytes = 0
        for field in dataclasses.fields(entity):
            if "tag" in field.metadata:
                tagged[field.metadata["tag"]] = _field_walker(entity, field, flexible=flexible)
                continue
            size_bytes = _fixed_bytes(entity, field)
            if size_bytes is not None:
                fixed_bytes += size_bytes
                continue
            lines += _fixed(fixed_bytes)
            fixed_bytes = 0
            lines += self.field(entity, field, flexible=flexible)
        lines += _fixed(fixed_bytes)
        if flexible:
            known = self._bind("tagged", tagged)
            lines.append(f"p = walk_tagged(b, p, edits, {known}) if b[p] else p + 1")
        return lines or ["pass"]

    def field(self, entity: type, field: "dataclasses.Field[Any]", *, flexible: bool) -> list[str]:
        """Lines that walk a field that may have any size."""
        field_type = field_types(entity)[field.name]
        nested = entity_of(field_type)
        kafka_type = field.metadata.get("kafka_type", "")
        if nested is not None:
            item = self.entity(nested)
            if is_nullable(field_type) and not is_array(field_type) and "tag" not in field.metadata:
                # a byte before it, negative for null (KIP-893)
                item = ["p += 1", "if b[p - 1] <= 127:", *_indented(item)]
        elif kafka_type in _FIXED_BYTES:
            item = _fixed(_FIXED_BYTES[kafka_type])
        else:
            assert kafka_type in _VARIABLE, kafka_type
            may_be_null = is_nullable(field_type) or is_array(field_type)
            # Responses of older kraftlines have longer messages.
            is_asked = kafka_type == "string" and entity.__module__.endswith(".request")
            bytes_max = TEXT_BYTES_MAX if is_asked else _BYTES_MAX
            item = _bytes(kafka_type, bytes_max, flexible=flexible, may_be_null=may_be_null)
        if not is_array(field_type):
            return item
        # In an array of ids None stands for the zero id, not for a null array.
        is_tuple = typing.get_origin(field_type) is tuple
        may_be_null = is_nullable(field_type) and not (is_tuple and kafka_type == "uuid")
        return _array(item, flexible=flexible, may_be_null=may_be_null)


def _fixed_bytes(entity: type, field: "dataclasses.Field[Any]") -> int | None:
    if is_array(field_types(entity)[field.name]):
        return None
    return _FIXED_BYTES.get(field.metadata.get("kafka_type", ""))


def _field_walker(entity: type, field: "dataclasses.Field[Any]", *, flexible: bool) -> Walker:
    """The walker of one tagged field."""
    source, name = _Source(), f"{entity.__module__}.{entity.__name__}.{field.name}"
    return source.compiled(name, source.field(entity, field, flexible=flexible))


def _fixed(size_bytes: int) -> list[str]:
    if not size_bytes:
        return []
    return [f"p += {size_bytes}", "if p > end:", "    raise ended('field', end, p)"]


_COMPACT: Final = ("n = b[p]", "p += 1", "if n > 127:", "    n, p = read_unsigned_varint(b, p - 1)")
"""Lines that read a compact length, which is one more than what it counts."""


def _bytes(kafka_type: str, bytes_max: int, *, flexible: bool, may_be_null: bool) -> list[str]:
    if flexible:
        lines = [
            *_COMPACT,
            f"    if n > {bytes_max + 1}:",
            f"        raise long({kafka_type!r}, n - 1, p)",
            "n -= 1",
        ]
    else:
        length_bytes = 2 if kafka_type == "string" else 4
        lines = [
            f"n = int.from_bytes(b[p : p + {length_bytes}], 'big', signed=True)",
            f"p += {length_bytes}",
        ]
    if not may_be_null:
        lines += ["if n < 0:", f"    raise null({kafka_type!r}, p)"]
    return [
        *lines,
        "if n > 0:",
        "    p += n",
        "if p > end:",
        f"    raise ended({kafka_type!r}, end, p)",
    ]


def _array(item: list[str], *, flexible: bool, may_be_null: bool) -> list[str]:
    if flexible:
        lines = [*_COMPACT, "n -= 1"]
    else:
        lines = ["n = int.from_bytes(b[p : p + 4], 'big', signed=True)", "p += 4"]
    if not may_be_null:
        lines += ["if n < 0:", "    raise null('array', p)"]
    return [
        *lines,
        "if n > end - p:",  # an item has at least one byte
        "    raise crowded(n, end - p)",
        "for _ in range(n):",
        *_indented(item),
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _ended(what: str, size: int, end: int) -> IndexError:
    return IndexError(f"the body ends at {size}, a {what} at {end}")


def _null(what: str, position: int) -> ValueError:
    return ValueError(f"null for a {what} at {position} that cannot be null")


def _long(what: str, size: int, position: int) -> ValueError:
    return ValueError(f"a {what} of {size} bytes at {position}")


def _crowded(count: int, left: int) -> IndexError:
    return IndexError(f"array of {count} items in {left} bytes")


def _walk_tagged(body: bytes, position: int, edits: list[Edit], tagged: dict[int, Walker]) -> int:
    """Walk over a tagged section: drop unknown fields, edit known ones, correct count and sizes."""
    count, after_count = read_unsigned_varint(body, position)
    count_span = (position, after_count)
    position = after_count
    known_count = 0
    inner_edits: list[Edit] = []
    for _ in range(count):
        start = position
        tag, size_position = read_unsigned_varint(body, position)
        size_bytes, content = read_unsigned_varint(body, size_position)
        position = content + size_bytes
        if position > len(body):
            raise IndexError(f"the body ends at {len(body)}, a tagged field at {position}")
        if tag not in tagged:
            inner_edits.append((start, position, b""))
            continue
        known_count += 1
        content_edits: list[Edit] = []
        if tagged[tag](body, content, content_edits) != position:
            raise ValueError(f"tagged field {tag} does not have the {size_bytes} bytes it claims")
        if content_edits:
            grown = sum(len(new) - (end - begin) for begin, end, new in content_edits)
            size = encode_unsigned_varint(size_bytes + grown)
            inner_edits.append((size_position, content, size))
            inner_edits += content_edits
    if known_count != count:
        edits.append((*count_span, encode_unsigned_varint(known_count)))
    edits += inner_edits
    return position
