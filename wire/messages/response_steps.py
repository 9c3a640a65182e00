"""Responses of many rows, written in pieces by kio's writers of fields."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from typing import Any, Final

from kio.serial._serialize import get_field_writer  # it offers writers of whole bodies alone
from kio.serial.errors import OutOfBoundValue
from kio.serial.writers import Writer

from wire.api_keys import API_VERSIONS, CREATE_TOPICS, FETCH
from wire.connections.headers import encode_response_header
from wire.messages.body_writer import body_writer
from wire.messages.codec import (
    Body,
    encode_response,
    entity_class,
    has_flexible_response_header,
)
from wire.messages.conversion import converter, entity_of, field_types, is_array, is_readable_as
from wire.messages.fields import encode_length
from wire.steps import Steps

PIECE: Final = 64
"""Rows, and structures around them, that are written in one piece."""
ROW_UNITS: Final = 2
"""Cost of a row."""
_OF_OTHER_FORM: Final = (API_VERSIONS, CREATE_TOPICS, FETCH)

_Field = tuple[str, Writer[Any], type | None]
"""Name, writer, and class of the rows of an array of structures."""


def write_response(api_key: int, version: int, correlation_id: int, body: Body) -> Steps[bytes]:
    """As `codec.encode_response`, in pieces of `PIECE` rows.

    Raises:
        LocalProtocolError: as there.
    """
    assert api_key not in _OF_OTHER_FORM, f"{api_key=}"
    entity = entity_class(api_key, version, "response")
    source: type = type(body)
    lowered = body
    if not is_readable_as(source, entity):
        convert = converter(source, entity)
        assert convert is not None
        lowered = convert(body)
    parts = [
        encode_response_header(
            correlation_id, is_flexible=has_flexible_response_header(api_key, version)
        )
    ]
    try:
        for count, part in enumerate(_parts(entity, lowered), 1):
            parts.append(part)
            if count % PIECE == 0:
                yield PIECE * ROW_UNITS
    except OutOfBoundValue:  # a text that is too long, which is cut there or refused
        return encode_response(api_key, version, correlation_id, body)
    return b"".join(parts)


def _parts(entity: type, value: Any) -> Iterator[bytes]:
    """The bytes of a structure; those of each of its rows without rows are a part."""
    is_flexible = bool(entity.__flexible__)  # type: ignore[attr-defined]  # kio: class attribute
    head = BytesIO()
    for name, write, rows_of in _fields(entity):
        rows = getattr(value, name)
        if rows_of is None or rows is None:
            write(head, rows)
            continue
        head.write(encode_length(len(rows), is_flexible=is_flexible))
        yield head.getvalue()
        head = BytesIO()
        if _has_rows(rows_of):
            for row in rows:
                yield from _parts(rows_of, row)
            continue
        write_row = body_writer(rows_of)
        for row in rows:
            yield write_row(row)
    if is_flexible:
        head.write(b"\0")
    yield head.getvalue()


def _has_rows(entity: type) -> bool:
    return any(rows_of is not None for _, _, rows_of in _fields(entity))


@cache
def _fields(entity: type) -> tuple[_Field, ...]:
    """The fields of a structure in their order; it has no tagged ones, if it has rows."""
    is_flexible = bool(entity.__flexible__)  # type: ignore[attr-defined]  # kio: class attribute
    found: list[_Field] = []
    for field in dataclasses.fields(entity):
        field_type = field_types(entity)[field.name]
        nested = entity_of(field_type) if is_array(field_type) else None
        is_tagged = "tag" in field.metadata
        writer = get_field_writer(field, is_flexible, is_request_header=False, is_tag=is_tagged)
        found.append((field.name, writer, nested))
    has_rows = any(rows_of is not None for _, _, rows_of in found)
    is_plain = not any("tag" in field.metadata for field in dataclasses.fields(entity))
    assert is_plain or not has_rows, f"{entity} has tagged fields beside rows"
    return tuple(found)
