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
    """The walker of one value of the class; derived once."""
    flexible = bool(entity.__flexible__)  # type: ignore[attr-defined]  # kio: class attribute
    tagged: dict[int, Walker] = {}
    walkers: list[Walker] = []
    fixed_bytes = 0
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = _field_walker(entity, field, flexible=flexible)
            continue
        size_bytes = _fixed_bytes(entity, field)
        if size_bytes is not None:
            fixed_bytes += size_bytes
            continue
        if fixed_bytes:
            walkers.append(_fixed_walker(fixed_bytes))
            fixed_bytes = 0
        walkers.append(_field_walker(entity, field, flexible=flexible))
    if fixed_bytes:
        walkers.append(_fixed_walker(fixed_bytes))
    if flexible:
        walkers.append(_tagged_walker(tagged))

    def walk(body: bytes, position: int, edits: list[Edit]) -> int:
        for walker in walkers:
            position = walker(body, position, edits)
        return position

    return walk


def _fixed_bytes(entity: type, field: "dataclasses.Field[Any]") -> int | None:
    if is_array(field_types(entity)[field.name]):
        return None
    return _FIXED_BYTES.get(field.metadata.get("kafka_type", ""))


def _field_walker(entity: type, field: "dataclasses.Field[Any]", *, flexible: bool) -> Walker:
    field_type = field_types(entity)[field.name]
    nested = entity_of(field_type)
    kafka_type = field.metadata.get("kafka_type", "")
    if nested is not None:
        item = entity_walker(nested)
        if is_nullable(field_type) and not is_array(field_type) and "tag" not in field.metadata:
            item = _nullable_walker(item)
    elif kafka_type in _FIXED_BYTES:
        item = _fixed_walker(_FIXED_BYTES[kafka_type])
    else:
        assert kafka_type in _VARIABLE, kafka_type
        may_be_null = is_nullable(field_type) or is_array(field_type)
        # Responses of older kraftlines have longer messages.
        is_asked = kafka_type == "string" and entity.__module__.endswith(".request")
        bytes_max = TEXT_BYTES_MAX if is_asked else _BYTES_MAX
        item = _bytes_walker(kafka_type, bytes_max, flexible=flexible, may_be_null=may_be_null)
    if not is_array(field_type):
        return item
    # In an array of ids None stands for the zero id, not for a null array.
    is_tuple = typing.get_origin(field_type) is tuple
    may_be_null = is_nullable(field_type) and not (is_tuple and kafka_type == "uuid")
    return _array_walker(item, flexible=flexible, may_be_null=may_be_null)


def _fixed_walker(size_bytes: int) -> Walker:
    def walk(body: bytes, position: int, _edits: list[Edit]) -> int:
        end = position + size_bytes
        if end > len(body):
            raise IndexError(f"the body ends at {len(body)}, a field at {end}")
        return end

    return walk


def _bytes_walker(kafka_type: str, bytes_max: int, *, flexible: bool, may_be_null: bool) -> Walker:
    length_bytes = 2 if kafka_type == "string" else 4

    def walk(body: bytes, position: int, _edits: list[Edit]) -> int:
        if flexible:
            length, start = read_unsigned_varint(body, position)
            length -= 1
        else:
            start = position + length_bytes
            length = int.from_bytes(body[position:start], "big", signed=True)
        if length < 0 and not may_be_null:
            raise ValueError(f"null for a {kafka_type} at {position} that cannot be null")
        if length > bytes_max:
            raise ValueError(f"a {kafka_type} of {length} bytes at {position}")
        end = start + max(length, 0)
        if end > len(body):
            raise IndexError(f"the body ends at {len(body)}, a {kafka_type} at {end}")
        return end

    return walk


def _array_walker(item: Walker, *, flexible: bool, may_be_null: bool) -> Walker:
    def walk(body: bytes, position: int, edits: list[Edit]) -> int:
        if flexible:
            count, position = read_unsigned_varint(body, position)
            count -= 1
        else:
            count = int.from_bytes(body[position : position + 4], "big", signed=True)
            position += 4
        if count < 0 and not may_be_null:
            raise ValueError(f"null for an array at {position} that cannot be null")
        if count > len(body) - position:  # an item has at least one byte
            raise IndexError(f"array of {count} items in {len(body) - position} bytes")
        for _ in range(count):
            position = item(body, position, edits)
        return position

    return walk


def _nullable_walker(item: Walker) -> Walker:
    """The walker of a nullable entity: a byte before it, negative for null (KIP-893)."""

    def walk(body: bytes, position: int, edits: list[Edit]) -> int:
        is_null = body[position] > 0x7F
        return position + 1 if is_null else item(body, position + 1, edits)

    return walk


def _tagged_walker(tagged: dict[int, Walker]) -> Walker:
    def walk(body: bytes, position: int, edits: list[Edit]) -> int:
        if body[position] == 0:
            return position + 1
        return _walk_tagged(body, position, edits, tagged)

    return walk


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
