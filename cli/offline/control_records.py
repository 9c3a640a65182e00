"""Control records of the log in the form of Kafka's dump tool: a label and one JSON object."""

import dataclasses
import struct
import uuid
from base64 import urlsafe_b64encode
from typing import Any, Final

import msgspec

ABORT: Final = 0
COMMIT: Final = 1
ABORTED: Final = "ABORT"
COMMITTED: Final = "COMMIT"
# type of the key -> label that the dump prints before the JSON
NAMES: Final[dict[int, str]] = {
    ABORT: ABORTED,
    COMMIT: COMMITTED,
    2: "LeaderChange",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
_TYPE: Final = struct.Struct(">h")  # after the version of the key
_END_TRANSACTION: Final = struct.Struct(">hi")  # version, coordinator epoch


def describe_control_record(key: bytes | None, value: bytes | None) -> str:
    """The text after the record's own fields.

    Raises:
        ValueError: as `control_record`.
    """
    name, payload = control_record(key, value)
    if payload is None:
        return f"controlType: {name}"
    if name in (ABORTED, COMMITTED):
        return f"endTxnMarker: {name} coordinatorEpoch: {payload['coordinatorEpoch']}"
    colon = ":" if name == "LeaderChange" else ""
    return f"{name}{colon} {msgspec.json.encode(payload).decode()}"


def control_record(key: bytes | None, value: bytes | None) -> tuple[str, dict[str, Any] | None]:
    """Name of a control record, and its fields by Kafka's names (None for an unknown type).

    Raises:
        ValueError: key or value is absent, cut or damaged; the text names it.
    """
    from wire.batches.control_records import (  # noqa: PLC0415  # with kio
        control_type,
        decode_control_value,
    )
    from wire.errors import CorruptBatchError  # noqa: PLC0415

    try:
        kind = control_type(key)
        if kind is None:
            assert key is not None
            return f"UNKNOWN({_TYPE.unpack_from(key, 2)[0]})", None
        content = value or b""
        if kind in (ABORT, COMMIT):
            return NAMES[kind], {"coordinatorEpoch": _coordinator_epoch(content)}
        entity = decode_control_value(kind, content)
    except CorruptBatchError as error:
        raise ValueError(str(error)) from error
    (version,) = _TYPE.unpack_from(content)
    return NAMES[kind], _fields(entity, version)


def _coordinator_epoch(value: bytes) -> int:
    """Coordinator epoch of the marker that ends a transaction.

    Raises:
        ValueError: the marker is cut, or of a negative version.
    """
    if len(value) < _END_TRANSACTION.size:
        raise ValueError(
            f"end of a transaction of {len(value)} bytes, at least {_END_TRANSACTION.size} are due"
        )
    version, epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise ValueError(f"end of a transaction of version {version}")
    return int(epoch)


def _fields(entity: Any, version: int) -> dict[str, Any]:
    fields = _plain(entity)
    # these messages have their version as a field too; Kafka prints it once, first
    fields.pop("version", None)
    return {"version": version, **fields}


def _plain(value: Any, metadata_type: str | None = None) -> Any:
    """A kio value in the form of Kafka's generated JsonConverter."""
    if dataclasses.is_dataclass(value):
        return {
            _camel_case(field.name): _plain(
                getattr(value, field.name), field.metadata.get("kafka_type")
            )
            for field in dataclasses.fields(value)
        }
    if metadata_type == "uuid":
        content = value.bytes if isinstance(value, uuid.UUID) else bytes(16)
        return urlsafe_b64encode(content).rstrip(b"=").decode()
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    if isinstance(value, int):
        return int(value)
    return value


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
