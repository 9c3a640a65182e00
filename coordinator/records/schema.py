"""Declaration of keys and values of coordinators' records in annotations.

    leader_epoch: Annotated[int, field(INT32, since=3, ignorable=True)] = -1

Codec and JSON form derive from it. Other than a metadata record (`metadata/schema.py`) a value has
versions before the flexible ones, fields that end with a version, and ignorable ones; a key is
never flexible. (apache/kafka: group-coordinator, transaction-coordinator and share-coordinator,
src/main/resources/common/message)
"""

from functools import cache
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin, get_type_hints

import msgspec

from metadata.schema import Scalar

NEVER: Final = 1 << 15
"""First flexible version of a layout that has none."""


class Fields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key, a value, or a struct inside one."""


class Key(Fields, frozen=True, kw_only=True, gc=False):
    """Base of all keys; `type` is the int16 that a key begins with."""

    type: ClassVar[int]


class Value(Fields, frozen=True, kw_only=True, gc=False):
    """Base of all values: the versions that can be read, the first flexible, the one written."""

    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_from: ClassVar[int] = 0
    written: ClassVar[int] = 0

    def version_to_write(self) -> int:
        """The version that Kafka 4.3 writes this value in, if no feature level lowers it."""
        return self.written

    def plain_bytes(self) -> bytes | None:
        """Bytes of this value in that version, where one packing makes them; else None."""
        return None


class CoordinatorRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a coordinator; without a value it is a tombstone of its key.

    `version` is that of the value, where it is not the one that is written by itself.
    """

    key: Key
    value: Value | None
    version: int | None = None


class CoordinatorRecordError(Exception):
    """A record that cannot be read or written; the text has the reason."""


class ArrayOf(msgspec.Struct, frozen=True):
    """An array of scalars or of structs."""

    element: Scalar | type[Fields]


FieldType = Scalar | ArrayOf | type[Fields]


class FieldRule(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one field, without its name."""

    type: FieldType
    since: int
    until: int | None
    tag: int | None
    nullable: bool
    ignorable: bool
    default: Any


class FieldSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a declared class, in declaration (= wire) order."""

    name: str
    json_name: str
    rule: FieldRule
    default: Any

    @property
    def is_tagged(self) -> bool:
        """Stands in the section of tagged fields."""
        return self.rule.tag is not None

    def is_in_version(self, version: int) -> bool:
        """True if the field exists in this version."""
        rule = self.rule
        return version >= rule.since and (rule.until is None or version <= rule.until)


_UNSET: Final = msgspec.UNSET


def field(
    type_: FieldType,
    *,
    since: int = 0,
    until: int | None = None,
    tag: int | None = None,
    nullable: bool = False,
    ignorable: bool = False,
    default: Any = _UNSET,
) -> FieldRule:
    """Declare a field; used inside `Annotated`.

    Args:
        type_: scalar, `array(...)` or a declared struct.
        since: first version that has it.
        until: last version that has it.
        tag: of a tagged field.
        nullable: in every version that has it.
        ignorable: lost without an error in a version that cannot carry it.
        default: the wire's, where it is not that of the class.
    """
    return FieldRule(
        type=type_,
        since=since,
        until=until,
        tag=tag,
        nullable=nullable,
        ignorable=ignorable,
        default=default,
    )


def array(element: Scalar | type[Fields]) -> ArrayOf:
    """Array type for `field`."""
    return ArrayOf(element)


@cache
def fields_of(cls: type[Fields]) -> tuple[FieldSpec, ...]:
    """The fields of a declared class in wire order, defaults resolved.

    A field without a default has that of its wire type, as in Kafka's generated classes.
    """
    names, values = cls.__struct_fields__, cls.__struct_defaults__
    pairs = zip(names[len(names) - len(values) :], values, strict=True)
    declared = {name: value for name, value in pairs if value is not msgspec.NODEFAULT}
    specs = []
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        (rule,) = (rule for rule in get_args(hint)[1:] if isinstance(rule, FieldRule))
        default = declared.get(name, _ZERO.get(rule.type, ()))
        specs.append(
            FieldSpec(
                name=name,
                json_name=_camel_case(name),
                rule=rule,
                default=default if rule.default is _UNSET else rule.default,
            )
        )
    return tuple(specs)


def _camel_case(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


_ZERO: Final[dict[FieldType, Any]] = {
    Scalar.BOOL: False,
    Scalar.INT8: 0,
    Scalar.INT16: 0,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.UUID: bytes(16),
    Scalar.STRING: "",
    Scalar.BYTES: b"",
}
