"""Times that may be absent although their field is not nullable: -1, which kio does not read.

A DescribeTransactions answers -1 for an id that has no transaction; it is read as None.
(apache/kafka: DescribeTransactionsResponse.json, DescribeTransactionsHandler.java)
"""

import dataclasses
from functools import cache
from typing import Any, Final

from wire.api_keys import DESCRIBE_TRANSACTIONS

_ABSENT: Final = {(DESCRIBE_TRANSACTIONS, "TransactionState"): "transaction_start_time"}
"""API key and class -> field."""
_HOLDERS: Final = {(DESCRIBE_TRANSACTIONS, "DescribeTransactionsResponse"): "transaction_states"}
"""API key and class of a body -> field with such a class in an array."""


@cache
def reading_class(entity: Any) -> Any:
    """The class that a body of kio's `entity` is read as; mostly itself."""
    key = (int(entity.__api_key__), entity.__name__)
    if key in _ABSENT:
        return _with_type(entity, _ABSENT[key], lambda kind: kind | None)
    if key in _HOLDERS:
        return _with_type(entity, _HOLDERS[key], _read_each)
    return entity


def _read_each(kind: Any) -> Any:
    element, _ = kind.__args__
    return tuple[reading_class(element), ...]  # type: ignore[misc]


def _with_type(entity: Any, name: str, changed: Any) -> Any:
    """The class with another type of a field."""
    fields = [
        (each.name, changed(each.type) if each.name == name else each.type, _copy(each))
        for each in dataclasses.fields(entity)
    ]
    constants = {
        each: getattr(entity, each)
        for each in ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
    }
    return dataclasses.make_dataclass(
        entity.__name__, fields, namespace=constants, frozen=True, slots=True, kw_only=True
    )


def _copy(field: "dataclasses.Field[Any]") -> Any:
    return dataclasses.field(metadata=field.metadata)
