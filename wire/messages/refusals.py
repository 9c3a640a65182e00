"""The response of any API that refuses a request with one error, by the classes of the two alone.

Errors stand where the response has some: at its top, and in a row for each item of the request. The
rows of the two are paired by position, and their fields by name, or by the names that Kafka gives
the same thing in requests and responses.

apache/kafka: clients/.../common/requests/*Request.java (getErrorResponse)
"""

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any, Final
from uuid import UUID

from wire.api_keys import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_TRANSACTIONS,
    EXPIRE_DELEGATION_TOKEN,
    PRODUCE,
    RENEW_DELEGATION_TOKEN,
)
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.messages.conversion import converter, default_of, entity_of, field_types, is_array

_PARTITION: Final = ("partition_index", "index", "partition", "partition_id")
_TOPIC: Final = ("name", "topic", "topic_name")
_SAME: Final = (_PARTITION, _TOPIC, ("user", "name"))
"""Names of one thing."""
_UNKNOWN: Final = ("base_offset", "high_watermark", "committed_offset", "node_id", "port")
"""Fields that are -1 beside an error, and have no default in the schema."""
NOT_REFUSED: Final = frozenset(
    {
        CREATE_DELEGATION_TOKEN,
        RENEW_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN,
        DESCRIBE_TRANSACTIONS,
    }
)
"""APIs whose responses have times, which kio cannot write as none."""
NO_ACKS: Final = 0


def refusal(api_key: int, version: int, body: Any, error: ErrorCode, message: str) -> Entity | None:
    """Return a response in the version of the request; None if it has no response.

    Args:
        api_key: of the request.
        version: of the request.
        body: of the request in the class of its own version (`codec.decode_body_as_sent`).
        error: wherever the response has one.
        message: text beside it, in versions that have one.
    """
    if api_key == PRODUCE and body.acks == NO_ACKS:
        return None
    entity = codec.entity_class(api_key, version, "response")
    refused: Entity = _refused(entity, body, error, message)
    return refused


def _refused(entity: type, source: object, error: ErrorCode, message: str) -> Any:
    values: dict[str, object] = {}
    for field in dataclasses.fields(entity):
        name, field_type = field.name, field_types(entity)[field.name]
        nested = entity_of(field_type)
        if _is_code(field):
            values[name] = error
        elif name == "error_message":
            values[name] = message
        elif nested is None:
            values[name] = _plain(entity, field, source)
        elif is_array(field_type) and _has_codes(nested):
            values[name] = _rows(nested, source, error, message, is_optional=_has_own(entity))
        else:
            values[name] = _same_rows(entity, field, nested, source)
    return entity(**values)


def _plain(entity: type, field: "dataclasses.Field[Any]", source: object) -> object:
    """Value of a field of the response: -1, that of the request or the default."""
    if field.name in _UNKNOWN:
        return -1
    for name in _names(field.name):
        found = getattr(source, name, None)
        if found is not None and not isinstance(found, tuple):
            return found
    return default_of(entity, field)


def _same_rows(
    entity: type, field: "dataclasses.Field[Any]", nested: type, source: object
) -> object:
    """Rows without errors that the request has by the same name, as a quota's entity is."""
    found = getattr(source, field.name, None)
    if not isinstance(found, tuple) or not found:
        return default_of(entity, field)
    kind: type = type(found[0])
    convert = converter(kind, nested)
    return found if convert is None else tuple(map(convert, found))


def _rows(
    nested: type, source: object, error: ErrorCode, message: str, *, is_optional: bool
) -> tuple[Any, ...]:
    """One row with the error for each item of the first array of the request, which it names."""
    items = _items(source)
    keys = _keys(nested)
    if keys and items and not _names_one(items[0], keys):
        # a request may group its items, as by directory: those inside are the rows
        items = [inner for item in items for inner in _items(item)]
    if keys and is_optional:
        items = [item for item in items if _names_one(item, keys)]
    first = next((each for each in dataclasses.fields(nested) if each.name in keys[:1]), None)
    is_text = first is not None and isinstance(default_of(nested, first), str)
    items = [i for i in items if dataclasses.is_dataclass(i) or isinstance(i, str) is is_text]
    return tuple(
        _refused(nested, item, error, message)
        if dataclasses.is_dataclass(item)
        else _row_of(nested, item, keys, error, message)
        for item in items
    )


def _row_of(nested: type, item: object, keys: list[str], error: ErrorCode, message: str) -> Any:
    """A row for an item that is no row: a name or a number, which is the row's first key."""
    row = _refused(nested, None, error, message)
    return dataclasses.replace(row, **{keys[0]: item})


def _names_one(item: object, keys: list[str]) -> bool:
    if not dataclasses.is_dataclass(item):
        return True
    return any(hasattr(item, name) for key in keys for name in _names(key))


def _items(source: object) -> list[Any]:
    """Items of the first array of a request or row that has some; others say other things."""
    if not dataclasses.is_dataclass(source):
        return []
    for field in dataclasses.fields(source):
        found = getattr(source, field.name)
        if isinstance(found, tuple) and found:
            return list(found)
    return []


def _names(name: str) -> Iterator[str]:
    yield name
    for same in _SAME:
        if name in same:
            yield from same


def _is_code(field: "dataclasses.Field[Any]") -> bool:
    return field.metadata.get("kafka_type") == "error_code"


@cache
def _has_own(entity: type) -> bool:
    return any(map(_is_code, dataclasses.fields(entity)))


@cache
def _has_codes(entity: type) -> bool:
    nested = [entity_of(each) for each in field_types(entity).values()]
    return _has_own(entity) or any(_has_codes(each) for each in nested if each is not None)


@cache
def _keys(nested: type) -> list[str]:
    """Fields of a row that may name its item."""
    return [
        field.name
        for field in dataclasses.fields(nested)
        if field_types(nested)[field.name] is not bool
        and not _is_code(field)
        and field.name != "error_message"
        and entity_of(field_types(nested)[field.name]) is None
        and not is_array(field_types(nested)[field.name])
    ]


def named_partitions(body: object) -> Iterator[tuple[str | UUID | None, int | None]]:
    """Yield the topics that a request names, by name or id, each with a partition.

    None for the partition if it names the topic alone.
    """
    if not dataclasses.is_dataclass(body):
        return
    for field in dataclasses.fields(body):
        rows = getattr(body, field.name)
        if not isinstance(rows, tuple):
            continue
        for row in rows:
            topic = _first(row, (*_TOPIC, "topic_id"))
            if topic is None:
                yield from named_partitions(row)
                continue
            numbers = list(_partitions(row))
            yield from ((topic, number) for number in numbers or (None,))


def _partitions(row: object) -> Iterator[int]:
    for items in _arrays(row):
        for item in items:
            number = item if isinstance(item, int) else _first(item, _PARTITION)
            if isinstance(number, int):
                yield int(number)


def _arrays(row: Any) -> Iterator[tuple[Any, ...]]:
    for field in dataclasses.fields(row):
        found = getattr(row, field.name)
        if isinstance(found, tuple):
            yield found


def _first(row: object, names: tuple[str, ...]) -> Any:
    """The first of these fields that a row has and fills; None for a name or number."""
    if not dataclasses.is_dataclass(row):
        return None
    return next((v for name in names if (v := getattr(row, name, None)) is not None), None)
