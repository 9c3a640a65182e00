"""Conversion between kio's classes of different versions, by field name.

kio has a class per entity and version. Fields of equal name carry over, nested entities likewise;
a field that the source lacks takes the target's default; a field that the target lacks is dropped.
The few fields that changed their name or shape have a rule in `field_rules.py`.
"""

import dataclasses
import types
import typing
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode

from wire.messages.field_rules import FIELD_RULES

Converter = Callable[[Any], Any]


@cache
def converter(source: type, target: type) -> Converter | None:
    """The function from an instance of `source` to one of `target`; None if they are the same."""
    if source is target:
        return None
    source_types = field_types(source)
    steps: list[tuple[str, Converter]] = []
    constants: dict[str, Any] = {}
    for field in dataclasses.fields(target):
        rule = FIELD_RULES.get((_api_key(target), target.__name__, field.name))
        if field.name in source_types:
            target_type = field_types(target)[field.name]
            steps.append((field.name, _carry(field.name, source_types[field.name], target_type)))
        elif rule is not None:
            steps.append((field.name, rule(target)))
        else:
            constants[field.name] = default_of(target, field)

    def convert(entity: Any) -> Any:
        values = {name: step(entity) for name, step in steps}
        return target(**values, **constants)

    return convert


@cache
def is_readable_as(source: type, target: type) -> bool:
    """True if an instance of `source` has every field that a writer of `target` reads.

    A writer looks up fields by name alone, so a response of the newest class can be written in an
    older version without a copy; the writer ignores fields that the version lacks.
    """
    if source is target:
        return True
    source_types = field_types(source)
    tagged = {field.name for field in dataclasses.fields(target) if "tag" in field.metadata}
    for name, target_type in field_types(target).items():
        if name not in source_types:
            return False
        if name in tagged and entity_of(target_type) is not None:
            return False  # omitted if equal to the default, and equality compares classes
        source_type = source_types[name]
        if is_nullable(source_type) and not is_nullable(target_type):
            return False
        source_entity, target_entity = entity_of(source_type), entity_of(target_type)
        if target_entity is not None:
            assert source_entity is not None
            if not is_readable_as(source_entity, target_entity):
                return False
    return True


@cache
def field_types(entity: type) -> dict[str, Any]:
    """The type of every field by name, in the order of the wire."""
    hints = typing.get_type_hints(entity)
    return {field.name: hints[field.name] for field in dataclasses.fields(entity)}


def entity_of(field_type: Any) -> type | None:
    """The nested entity class in a field's type (itself, optional or in a tuple), if any."""
    for part in _parts(field_type):
        if typing.get_origin(part) is tuple:
            return entity_of(typing.get_args(part)[0])
        if isinstance(part, type) and dataclasses.is_dataclass(part):
            return part
    return None


def is_array(field_type: Any) -> bool:
    """True if the field holds a sequence, nullable or not."""
    return any(typing.get_origin(part) is tuple for part in _parts(field_type))


def is_nullable(field_type: Any) -> bool:
    """True if None is a value of the field, also where it is written `tuple[T | None, ...]`."""
    if typing.get_origin(field_type) is tuple:
        return is_nullable(typing.get_args(field_type)[0])
    return types.NoneType in _parts(field_type)


def default_of(entity: type, field: "dataclasses.Field[Any]") -> Any:
    """The declared default of a field, else the protocol's: zero, empty, null."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _implicit_default(field_types(entity)[field.name])


def default_entity(entity: type) -> Any:
    """An instance with the default in every field."""
    return entity(**{field.name: default_of(entity, field) for field in dataclasses.fields(entity)})


def _implicit_default(field_type: Any) -> Any:
    if typing.get_origin(field_type) is tuple:
        return ()
    if is_nullable(field_type):
        return None
    if dataclasses.is_dataclass(field_type):
        assert isinstance(field_type, type)
        return default_entity(field_type)
    if issubclass(field_type, ErrorCode):
        return ErrorCode.none
    for base, value in _IMPLICIT_DEFAULTS:
        if issubclass(field_type, base):
            return value
    raise AssertionError(f"no default is known for {field_type}")


_IMPLICIT_DEFAULTS: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (str, ""),
    (bytes, b""),
    (timedelta, timedelta(0)),
    (datetime, None),
    (uuid.UUID, None),
)


def _carry(name: str, source_type: Any, target_type: Any) -> Converter:
    """The function from a source entity to the target's value of a field that both classes have."""
    source_entity, target_entity = entity_of(source_type), entity_of(target_type)
    inner = (
        converter(source_entity, target_entity)
        if source_entity is not None and target_entity is not None
        else None
    )
    carries_array = is_array(target_type)
    instead_of_null = (
        _implicit_default(target_type)
        if is_nullable(source_type) and not is_nullable(target_type)
        else None
    )

    def carry(entity: Any) -> Any:
        value = getattr(entity, name)
        if value is None:
            return instead_of_null
        if inner is None:
            return value
        return tuple(inner(item) for item in value) if carries_array else inner(value)

    return carry


def _parts(field_type: Any) -> tuple[Any, ...]:
    origin = typing.get_origin(field_type)
    if origin is types.UnionType or origin is typing.Union:
        return typing.get_args(field_type)
    return (field_type,)


def _api_key(entity: type) -> int:
    return int(getattr(entity, "__api_key__", -1))
