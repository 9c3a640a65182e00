"""decode=json: the records of Kafka's own topics as JSON.

Metadata records have the form of Kafka's dump tool. A value that cannot be decoded (an unknown
type, a newer version, damage) is kept in hex and never stops a read. Values of other topics are
passed through if they are JSON, and otherwise become a JSON string in base64.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from metadata import control_records, record_codec
from metadata.json_source import record_json_text
from metadata.records import RECORD_TYPES
from metadata.schema import MetadataRecordError, UnknownRecord
from pipeline.core.records.coordinator_records import CoordinatorRecordError, coordinator_decoder
from wire.types import METADATA_TOPIC_NAME

if TYPE_CHECKING:
    from pipeline.core.records.decode import Group

# json, api key, api name, api version
Described = tuple[str | None, int | None, str | None, int | None]
ABORT: Final = 0
COMMIT: Final = 1


def describe_records(group: "Group", keys: pa.Array, values: pa.Array) -> dict[str, pa.Array]:
    """The columns json, apiKey, apiName and apiVersion of a group of records."""
    describe = _describer(group.topic)
    rows: list[Described] = []
    is_control = group.is_control.tolist()
    for key, value, control in zip(keys.to_pylist(), values.to_pylist(), is_control, strict=True):
        rows.append(describe_control(key, value) if control else describe(key, value))
    texts, api_keys, names, versions = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "json": pa.array(texts, pa.string()),
        "apiKey": pa.array(api_keys, pa.int32()),
        "apiName": pa.array(names, pa.string()),
        "apiVersion": pa.array(versions, pa.int32()),
    }


def describe_metadata(key: bytes | None, value: bytes | None) -> Described:  # noqa: ARG001
    """Describe a record of the metadata log or of a snapshot."""
    if value is None:
        return None, None, None, None
    api_key: int | None = None
    version: int | None = None
    try:
        if len(value) > 2 and value[1] < 128 and value[2] < 128:
            api_key, version = value[1], value[2]
        record = record_codec.decode(value)
        if version is None:
            version = record_codec.decoded_version(value)
        if isinstance(record, UnknownRecord):
            text = record_json_text(record, record.version)
            return text, record.unknown_api_key, "UNKNOWN_RECORD", record.version
        return record_json_text(record, version), record.api_key, record.type_name, version
    except MetadataRecordError as error:
        name = RECORD_TYPES[api_key].type_name if api_key in RECORD_TYPES else "UNKNOWN_RECORD"
        return _in_hex(value, name, version, str(error)), api_key, name, version


def describe_control(key: bytes | None, value: bytes | None) -> Described:
    """Describe a control record by the JSON that Kafka's dump tool prints after its name."""
    kind: int | None = None
    try:
        kind = control_records.control_type(key)
        if kind in (ABORT, COMMIT):
            epoch = int.from_bytes((value or b"")[2:6], "big", signed=True)
            name = "COMMIT" if kind == COMMIT else "ABORT"
            return json.dumps({"coordinatorEpoch": epoch}), kind, name, 0
        record = control_records.decode_control(kind, value)
        if record is not None:
            text = _dumps(control_records.control_json(record))
            return text, kind, control_records.DUMP_NAMES[kind], record.version
        error = f"control record type {kind} is unknown"
    except MetadataRecordError as problem:
        error = str(problem)
    return _in_hex(value or b"", "UNKNOWN_CONTROL", None, error), kind, "UNKNOWN_CONTROL", None


def describe_other(key: bytes | None, value: bytes | None) -> Described:  # noqa: ARG001
    """Describe a value of an ordinary topic."""
    if value is None:
        return None, None, None, None
    try:
        msgspec.json.decode(value)
        return value.decode(), None, None, None
    except (ValueError, RecursionError):  # RecursionError: JSON, but nested too deep for a reader
        return f'"{b64encode(value).decode()}"', None, None, None


def _describer(topic: str) -> Callable[[bytes | None, bytes | None], Described]:
    if topic == METADATA_TOPIC_NAME:
        return describe_metadata
    decode = coordinator_decoder(topic)
    if decode is None:
        return describe_other

    def describe(key: bytes | None, value: bytes | None) -> Described:
        try:
            found = decode(key, value)
        except CoordinatorRecordError as error:
            text = _in_hex(value or b"", "UNKNOWN_RECORD", None, str(error))
            return text, None, "UNKNOWN_RECORD", None
        return _dumps(found.content), found.kind, found.name, found.version

    return describe


def _in_hex(value: bytes, name: str, version: int | None, error: str) -> str:
    return _dumps({"type": name, "version": version, "data": {"hex": value.hex(), "error": error}})


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
