"""Declaration of a record's layout in annotations: field types, versions, tags.

A record class is its own schema. Each wire field is annotated with `field(...)`:

    directories: Annotated[tuple[DirectoryId, ...], field(array(UUID), since=1)] = ()

and all users of the layout (the codec, the JSON form, the test strategies) call `fields_of(cls)`.
All schemas are flexible from version 0; a tagged field is tagged in every version that has it, a
nullable one is nullable in every version that has it: true of every metadata record of Kafka 3.0 to
4.3 (apache/kafka: metadata/src/main/resources/common/metadata).
"""

from enum import Enum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin, get_type_hints

import msgspec

UnknownTags = tuple[tuple[int, bytes], ...]


class MetadataRecordError(Exception):
    """A metadata record cannot be read or written; the text names the record and the reason."""


class Scalar(Enum):
    """A field type without structure; the value is its name in Kafka's schemas."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"


BOOL: Final = Scalar.BOOL
INT8: Final = Scalar.INT8
INT16: Final = Scalar.INT16
UINT16: Final = Scalar.UINT16
INT32: Final = Scalar.INT32
INT64: Final = Scalar.INT64
FLOAT64: Final = Scalar.FLOAT64
UUID: Final = Scalar.UUID
STRING: Final = Scalar.STRING
BYTES: Final = Scalar.BYTES


class WireStruct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record or a struct inside one; `unknown_tags` are kept in ascending tag order."""

    unknown_tags: UnknownTags = ()


class ArrayOf(msgspec.Struct, frozen=True):
    """An array of scalars or of structs."""

    element: Scalar | type[WireStruct]


FieldType = Scalar | ArrayOf | type[WireStruct]


class FieldRule(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one field, without its name and default."""

    type: FieldType
    since: int
    tag: int | None
    nullable: bool


class FieldSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One wire field of a record class, in declaration (= wire) order."""

    name: str
    json_name: str
    type: FieldType
    default: Any
    since: int
    tag: int | None
    nullable: bool


class Record(WireStruct, frozen=True, kw_only=True, gc=False):
    """Base of all metadata records. `versions` is the inclusive range that can be read."""

    api_key: ClassVar[int] = -1
    versions: ClassVar[tuple[int, int]] = (0, 0)
    type_name: ClassVar[str] = ""


class UnknownRecord(Record, frozen=True, kw_only=True, gc=False):
    """A record of a type that this software does not know, with its body unchanged."""

    unknown_api_key: int
    version: int
    body: bytes


def field(
    type_: FieldType, *, since: int = 0, tag: int | None = None, nullable: bool = False
) -> FieldRule:
    """Declare a wire field; used inside `Annotated`."""
    assert since >= 0, f"{since=}"
    assert tag is None or tag >= 0, f"{tag=}"
    return FieldRule(type=type_, since=since, tag=tag, nullable=nullable)


def array(element: Scalar | type[WireStruct]) -> ArrayOf:
    """Array type for `field`."""
    return ArrayOf(element)


@cache
def fields_of(cls: type[WireStruct]) -> tuple[FieldSpec, ...]:
    """The wire fields of a declared class in wire order, defaults resolved.

    A required field (no default in Python) gets the default of its wire type: Kafka's generated
    classes compare with it when a version cannot carry the field.
    """
    hints = get_type_hints(cls, include_extras=True)
    defaults = _declared_defaults(cls)
    specs = []
    for name, hint in hints.items():
        if get_origin(hint) is not Annotated:
            continue
        rules = [rule for rule in get_args(hint)[1:] if isinstance(rule, FieldRule)]
        assert len(rules) == 1, f"{cls.__name__}.{name} needs exactly one field(...)"
        rule = rules[0]
        specs.append(
            FieldSpec(
                name=name,
                json_name=_camel_case(name),
                type=rule.type,
                default=defaults[name] if name in defaults else _type_default(rule.type),
                since=rule.since,
                tag=rule.tag,
                nullable=rule.nullable,
            )
        )
    return tuple(specs)


def is_in_version(spec: FieldSpec, version: int) -> bool:
    """True if the field exists in this version of its record."""
    return version >= spec.since


def _declared_defaults(cls: type[WireStruct]) -> dict[str, Any]:
    names = cls.__struct_fields__
    defaults = cls.__struct_defaults__
    pairs = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return {name: default for name, default in pairs if default is not msgspec.NODEFAULT}


def _type_default(type_: FieldType) -> Any:
    if isinstance(type_, ArrayOf):
        return ()
    if isinstance(type_, type):
        return None
    return _SCALAR_DEFAULTS[type_]


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


_SCALAR_DEFAULTS: Final[dict[Scalar, Any]] = {
    BOOL: False,
    INT8: 0,
    INT16: 0,
    UINT16: 0,
    INT32: 0,
    INT64: 0,
    FLOAT64: 0.0,
    UUID: bytes(16),
    STRING: "",
    BYTES: b"",
}
