"""Bytes of bodies as kio writes them."""

import dataclasses
import io
import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.serial.errors import OutOfBoundValue

from wire.messages.body_writer import body_writer
from wire.messages.codec import entity_class
from wire.messages.conversion import default_of, entity_of, field_types, is_array, is_nullable

CLASSES: Final = [
    (8, 9, "response"),  # flexible: texts, arrays of structures, error codes
    (8, 2, "response"),  # classic
    (11, 9, "response"),  # nullable texts, bytes
    (11, 1, "response"),
    (9, 1, "request"),  # classic arrays of numbers
    (9, 9, "request"),  # flexible ones, of ids and names
    (19, 4, "request"),  # classic arrays of nullable texts
    (45, 0, "request"),  # null for an array of numbers
    (66, 1, "request"),  # arrays of texts and of int64
    (68, 1, "request"),  # null for an array of structures
    (68, 1, "response"),  # null for a structure, ids
    (75, 0, "request"),
    (18, 3, "response"),  # tagged fields, which kio writes
    (54, 1, "request"),  # bodies of structures that have tagged fields
    (55, 2, "response"),
    (42, 0, "request"),
    (37, 0, "request"),  # null for a classic array
    (0, 3, "request"),  # null for classic records
    (16, 0, "request"),  # no field at all
]
BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LENGTHS: Final = (0, 1, 63, 126, 127, 128, 16_383)


def number(rng: random.Random, bits: int) -> int:
    return rng.choice((0, -1, rng.randrange(-(1 << bits - 1), 1 << bits - 1)))


def scalar(rng: random.Random, kind: str) -> Any:
    if kind in BITS:
        return number(rng, BITS[kind])
    made: dict[str, Callable[[], Any]] = {
        "uint16": lambda: rng.randrange(1 << 16),
        "bool": lambda: rng.random() < 0.5,
        "error_code": lambda: rng.choice((ErrorCode.none, ErrorCode.unknown_server_error)),
        "string": lambda: "ä" * (rng.choice(LENGTHS) // 2) + "x" * rng.randrange(2),
        "records": lambda: rng.randbytes(rng.choice(LENGTHS)),
        "bytes": lambda: rng.randbytes(rng.choice(LENGTHS)),
        "uuid": lambda: rng.choice((None, uuid.UUID(int=rng.getrandbits(128)))),
        "timedelta_i32": lambda: timedelta(milliseconds=rng.randrange(-1, 1 << 31)),
        "timedelta_i64": lambda: timedelta(milliseconds=rng.randrange(-1, 1 << 40)),
    }
    return made[kind]()


def value_of(rng: random.Random, entity: Any) -> Any:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        type_, nested = field_types(entity)[field.name], entity_of(field_types(entity)[field.name])
        is_tagged = "tag" in field.metadata
        if is_tagged and rng.random() < 0.5:
            values[field.name] = default_of(entity, field)
            continue
        if is_nullable(type_) and not is_tagged and rng.random() < 0.3:
            values[field.name] = None
            continue
        count = rng.choice((0, 1, 3)) if is_array(type_) else 1
        made = tuple(
            scalar(rng, field.metadata["kafka_type"]) if nested is None else value_of(rng, nested)
            for _ in range(count)
        )
        values[field.name] = made if is_array(type_) else made[0]
    return entity(**values)


def by_kio(entity: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    entity_writer(entity)(stream, value)
    return stream.getvalue()


@pytest.mark.parametrize("named", CLASSES, ids=str)
def test_a_body_has_kios_bytes(named: tuple[int, int, Any]) -> None:
    entity, rng = entity_class(*named), random.Random(5)
    write = body_writer(entity)
    for _ in range(20):
        value = value_of(rng, entity)
        assert write(value) == by_kio(entity, value)


@pytest.mark.parametrize("count", [126, 127, 128])
def test_the_length_of_a_flexible_array_grows_at_128(count: int) -> None:
    entity = entity_class(42, 2, "request")
    value = entity(groups_names=("g",) * count)
    assert body_writer(entity)(value) == by_kio(entity, value)


def test_a_text_of_a_classic_version_has_32767_bytes_at_most() -> None:
    entity = entity_class(42, 0, "request")
    longest = entity(groups_names=("x" * 32_767,))
    assert body_writer(entity)(longest) == by_kio(entity, longest)
    with pytest.raises(OutOfBoundValue, match="32768 bytes"):
        body_writer(entity)(entity(groups_names=("x" * 32_768,)))


def test_time_is_rounded_to_milliseconds() -> None:
    entity = entity_class(12, 4, "response")
    for microseconds in (400, 600, -600):
        value = entity(
            throttle_time=timedelta(microseconds=microseconds), error_code=ErrorCode.none
        )
        assert body_writer(entity)(value) == by_kio(entity, value)


def test_a_body_of_another_class_is_written_by_the_names_of_its_fields() -> None:
    newest, older = entity_class(12, 4, "response"), entity_class(12, 0, "response")
    value = newest(throttle_time=timedelta(0), error_code=ErrorCode.unknown_member_id)
    assert body_writer(older)(value) == by_kio(older, value) == b"\0\x19"
