"""Control records of the log as Kafka's dump tool prints them: a label and one JSON object."""

import dataclasses
import importlib
import struct
import uuid
from base64 import urlsafe_b64encode
from typing import Any, Final

import msgspec

ABORT: Final = 0
COMMIT: Final = 1
ABORTED: Final = "ABORT"
COMMITTED: Final = "COMMIT"
# type of the key -> what the dump prints before the JSON, and the schema of the value
SCHEMAS: Final[dict[int, tuple[str, str, str]]] = {
    2: ("LeaderChange", "leader_change_message", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "snapshot_header_record", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "snapshot_footer_record", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "k_raft_version_record", "KRaftVersionRecord"),
    6: ("KRaftVoters", "voters_record", "VotersRecord"),
}


def describe_control_record(key: bytes, value: bytes) -> str:
    """The text after the record's own fields.

    Raises:
        ValueError: key or value is not a control record that is known.
    """
    name, payload = control_record(key, value)
    if payload is None:
        return f"controlType: {name}"
    if name in (ABORTED, COMMITTED):
        return f"endTxnMarker: {name} coordinatorEpoch: {payload['coordinatorEpoch']}"
    colon = ":" if name == "LeaderChange" else ""
    return f"{name}{colon} {msgspec.json.encode(payload).decode()}"


def control_record(key: bytes, value: bytes) -> tuple[str, dict[str, Any] | None]:
    """The name of a control record, and its fields by Kafka's names; None for an unknown one.

    Raises:
        ValueError: the key is too short, or the version of the value is unknown.
    """
    if len(key) < 4:
        raise ValueError(f"control record key of {len(key)} bytes")
    (kind,) = struct.unpack_from(">h", key, 2)
    if kind in (ABORT, COMMIT):
        (epoch,) = struct.unpack_from(">i", value, 2)
        return COMMITTED if kind else ABORTED, {"coordinatorEpoch": epoch}
    if kind not in SCHEMAS:
        return f"UNKNOWN({kind})", None
    name, module_name, class_name = SCHEMAS[kind]
    (version,) = struct.unpack_from(">h", value)
    return name, _fields(_decode(module_name, class_name, version, value), version)


def _decode(module_name: str, class_name: str, version: int, value: bytes) -> Any:
    from kio.serial import entity_reader  # noqa: PLC0415  # only control batches need it

    try:
        module = importlib.import_module(f"kio.schema.{module_name}.v{version}.data")
    except ImportError as error:
        raise ValueError(f"{class_name} version {version} is unknown") from error
    decoded = entity_reader(getattr(module, class_name))(value, 0)
    return decoded[0] if isinstance(decoded, tuple) else decoded


def _fields(entity: Any, version: int) -> dict[str, Any]:
    fields = _plain(entity)
    # these messages carry their version as a field of their own; Kafka prints it once, first
    fields.pop("version", None)
    return {"version": version, **fields}


def _plain(value: Any, metadata_type: str | None = None) -> Any:
    """A kio value as the JSON that Kafka's generated JsonConverter makes of it."""
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
