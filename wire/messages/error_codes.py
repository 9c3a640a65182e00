"""Error codes of a response body, wherever it has them."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any

from wire.errors import ErrorCode
from wire.messages.conversion import entity_of, field_types, is_array


def error_codes(body: Any) -> Iterator[ErrorCode]:
    """Yield the code of the response and those of its rows, `none` too, as Kafka counts them.

    apache/kafka: clients/.../common/requests/AbstractResponse.java (errorCounts)
    """
    entity: type = type(body)
    own, rows = _fields(entity)
    for name in own:
        yield getattr(body, name)
    for name in rows:
        for row in getattr(body, name):
            yield from error_codes(row)


@cache
def _fields(entity: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the codes of a class, and of the arrays whose rows have some; structs have none."""
    own, rows = [], []
    for field in dataclasses.fields(entity):
        field_type = field_types(entity)[field.name]
        nested = entity_of(field_type)
        if field.metadata.get("kafka_type") == "error_code":
            own.append(field.name)
        elif nested is not None and any(_fields(nested)):
            assert is_array(field_type), f"{entity} {field.name}"
            rows.append(field.name)
    return tuple(own), tuple(rows)
