"""Random bodies of Kafka's RPCs, from the structure of kio's classes: boundary values first."""

import dataclasses
import datetime as dt
import io
import typing
import uuid
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from wire.messages.conversion import entity_of, field_types, is_array, is_nullable

TEXTS = (
    "",
    "a",
    "topic-1",
    "__cluster_metadata",
    "retention.ms",
    "é" * 40,
    "x" * 300,
    "\x00",
    "..",
)
UUIDS = (None, uuid.UUID(int=1), uuid.UUID(int=2**128 - 1), uuid.UUID(int=77))
BITS = {
    "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32,
    "uint64": 64,
}  # fmt: skip
ERROR_CODES = tuple(ErrorCode)
DEPTH_MAX = 5
MILLISECONDS = (0, 1, 500, 30_000, 2**31 - 1)


def body_bytes(entity: type, rng: Random) -> bytes:
    """A random body of the class, encoded by kio."""
    output = io.BytesIO()
    entity_writer(entity)(output, _entity(entity, rng, 0))
    return output.getvalue()


def _entity(entity: type, rng: Random, depth: int) -> Any:
    values = {}
    for name, kafka_type, nested, array, nullable in _fields(entity):
        if nullable and rng.random() < 0.15:
            values[name] = None
        elif array:
            few = rng.random() < 0.7 or depth >= DEPTH_MAX - 2
            count = rng.randrange(2 if few else 4) if depth < DEPTH_MAX else 0
            values[name] = tuple(_value(kafka_type, nested, rng, depth + 1) for _ in range(count))
        else:
            values[name] = _value(kafka_type, nested, rng, depth + 1)
    return entity(**values)


@cache
def _fields(entity: type) -> list[tuple[str, str, type | None, bool, bool]]:
    found = []
    for field in dataclasses.fields(entity):
        field_type = field_types(entity)[field.name]
        nested = entity_of(field_type)
        kafka_type = field.metadata.get("kafka_type", "")
        array = is_array(field_type)
        # None is what kio has for the zero id, in arrays too: not a null of its own
        is_id = kafka_type == "uuid" and (not array or typing.get_origin(field_type) is tuple)
        nullable = is_nullable(field_type) and not is_id
        found.append((field.name, kafka_type, nested, array, nullable))
    return found


def _value(kafka_type: str, nested: type | None, rng: Random, depth: int) -> Any:
    if nested is not None:
        return _entity(nested, rng, depth)
    if kafka_type in BITS:
        return _integer(BITS[kafka_type], rng, signed=kafka_type.startswith("int"))
    return _MAKERS[kafka_type](rng)


def _integer(bits: int, rng: Random, *, signed: bool) -> int:
    kind = rng.random()
    if kind < 0.5:
        return rng.randrange(5)
    high = 1 << (bits - signed)
    if kind < 0.75:
        return rng.choice((0, high - 1, -high if signed else 1, -1 if signed else high - 1))
    return rng.randrange(-high if signed else 0, high)


def _text(rng: Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(TEXTS)
    return "".join(chr(rng.randrange(32, 0x3FF)) for _ in range(rng.randrange(12)))


def _duration_i32(rng: Random) -> dt.timedelta:
    return dt.timedelta(milliseconds=rng.choice(MILLISECONDS))


_MAKERS: dict[str, Callable[[Random], Any]] = {
    "bool": lambda rng: rng.random() < 0.5,
    "string": _text,
    "bytes": lambda rng: rng.randbytes(rng.randrange(20)),
    "records": lambda rng: rng.randbytes(rng.randrange(80)),
    "uuid": lambda rng: rng.choice(UUIDS),
    "float64": lambda rng: rng.choice((0.0, 1.5, -1.0, 1e308, float("inf"), rng.random())),
    "error_code": lambda rng: rng.choice(ERROR_CODES),
    "timedelta_i32": _duration_i32,
    "timedelta_i64": lambda rng: dt.timedelta(milliseconds=rng.choice(MILLISECONDS)),
    "datetime_i64": lambda rng: dt.datetime.fromtimestamp(rng.randrange(2**31), dt.UTC),
}
