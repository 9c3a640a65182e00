"""Decoded records of the metadata log: one view each, control and unknown records included.

Secrets are hidden: the parts of SCRAM credentials and the values of password configs.
"""

from collections.abc import Iterator
from typing import Any, Final

from inspection.views import HIDDEN, AtOffset, View, is_secret
from metadata import json_form, record_codec
from metadata.control_records import DUMP_NAMES, control_json, control_type, decode_control
from metadata.records import ConfigRecord, UserScramCredentialRecord
from metadata.schema import MetadataRecordError, UnknownRecord
from wire.batches.batch import Batch, iterate_batches

_SCRAM_SECRETS: Final = ("salt", "storedKey", "serverKey")


class RecordView(View, frozen=True, kw_only=True):
    """One record of the metadata log."""

    offset: int
    epoch: int
    timestamp_ms: int
    type: str
    """Kafka's name; UNKNOWN_RECORD for a type that this version does not have."""
    version: int | None
    """Version of the record, None for control records."""
    data: dict[str, Any] | None
    """Fields by Kafka's names; None if the bytes could not be decoded."""
    hex: str | None = None
    """Bytes of a record that is unknown or could not be decoded."""


class RecordsView(AtOffset, frozen=True, kw_only=True):
    """Consecutive records of the log."""

    log_start_offset: int
    records: list[RecordView]
    next_offset: int
    """Offset to continue from; equals `metadata_offset` after the last committed record."""


def record_views(content: bytes, from_offset: int) -> Iterator[RecordView]:
    """Yield the records at or above an offset from whole batches of the log.

    Raises:
        CorruptBatchError: a batch is damaged.
    """
    for batch in iterate_batches(content):
        if batch.header.end_offset <= from_offset:
            continue
        for view in _batch_views(batch):
            if view.offset >= from_offset:
                yield view


def _batch_views(batch: Batch) -> Iterator[RecordView]:
    header = batch.header
    for record in batch.records():
        value = b"" if record.value is None else bytes(record.value)
        if header.is_control:
            kind, data, raw = _control(record.key, value)
            version = None
        else:
            kind, version, data, raw = _metadata(value)
        yield RecordView(
            offset=record.offset,
            epoch=header.leader_epoch,
            timestamp_ms=record.timestamp_ms,
            type=kind,
            version=version,
            data=data,
            hex=raw,
        )


def _control(key: bytes | memoryview | None, value: bytes) -> tuple[str, Any, str | None]:
    try:
        number = control_type(key)
        record = decode_control(number, value)
    except MetadataRecordError:
        return "UNREADABLE_CONTROL_RECORD", None, value.hex()
    if record is None:
        return f"CONTROL_RECORD_{number}", None, value.hex()
    return DUMP_NAMES[number], control_json(record), None


def _metadata(value: bytes) -> tuple[str, int | None, Any, str | None]:
    try:
        record = record_codec.decode(value)
        version = record_codec.decoded_version(value)
    except MetadataRecordError:
        return "UNREADABLE_RECORD", None, None, value.hex()
    if isinstance(record, UnknownRecord):
        data = {"apiKey": record.unknown_api_key}
        return "UNKNOWN_RECORD", record.version, data, record.body.hex()
    shown = json_form.to_json(record, version)
    data = shown["data"]
    if isinstance(record, UserScramCredentialRecord):
        data.update(dict.fromkeys(_SCRAM_SECRETS, HIDDEN))
    elif isinstance(record, ConfigRecord) and is_secret(record.resource_type, record.name):
        data["value"] = HIDDEN
    return shown["type"], version, data, None
