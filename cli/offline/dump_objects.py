"""Log segments and snapshots as one JSON object a line, with the names of Kafka's own lines."""

from typing import Any

import msgspec
from typing_extensions import override

from cli.offline.control_records import control_record
from cli.offline.dump_segment import (
    BOOTSTRAP,
    MissingKeyError,
    SegmentDump,
    base_offset,
    missing_key,
    sequence_of,
    size_of,
    snapshot_id,
    timestamp_type,
)
from wire.batches.batch import Batch, BatchHeader, RecordView
from wire.batches.legacy_batch import LegacyBatch, LegacyRecord


class SegmentObjects(SegmentDump):
    """Lines of one `.log` or `.checkpoint` file as JSON objects.

    A batch has the fields of its header, a record `key` and `payload`: decoded objects, or text
    without a decoder; `control` names a control record. `error` replaces a record that cannot be
    read, `invalidBytes` follows the last whole batch.
    """

    @override
    def _first_line(self) -> str:
        if self.path.suffix == ".log":
            return _line({"logStartOffset": base_offset(self.path)})
        if self.path.name == BOOTSTRAP:
            return _line({"snapshot": "bootstrap"})
        end_offset, epoch = snapshot_id(self.path)
        return _line({"snapshotEndOffset": end_offset, "snapshotEpoch": epoch})

    @override
    def _batch_line(self, batch: Batch) -> str:
        header = batch.header
        return _line(
            {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.records_count,
                "baseSequence": header.base_sequence,
                "lastSequence": header.last_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.leader_epoch,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
                "deleteHorizonMs": header.delete_horizon_ms,
                "position": batch.position,
                timestamp_type(header): header.max_timestamp_ms,
                "size": header.size_bytes,
                "magic": header.magic,
                "compresscodec": header.codec.name.lower(),
                "crc": header.crc,
                "isvalid": batch.crc_is_valid,
            }
        )

    @override
    def _legacy_line(self, batch: LegacyBatch) -> str:
        return _line(
            {
                "lastOffset": batch.last_offset,
                "position": batch.position,
                batch.timestamp_type: batch.timestamp_ms,
                "size": batch.size_bytes,
                "magic": batch.magic,
                "compresscodec": batch.codec.name.lower(),
                "crc": batch.crc,
                "isvalid": batch.crc_is_valid,
            }
        )

    @override
    def _legacy_record_line(self, batch: LegacyBatch, record: LegacyRecord) -> str:
        fields: dict[str, Any] = {}
        if not self.skip_record_metadata:
            fields = {
                "offset": record.offset,
                batch.timestamp_type: record.timestamp_ms,
                "keySize": size_of(record.key),
                "valueSize": size_of(record.value),
                "isValid": record.crc_is_valid,
                "crc": record.crc,
            }
        return self._with_values(fields, record)

    @override
    def _record_line(self, header: BatchHeader, record: RecordView) -> str:
        fields: dict[str, Any] = {}
        if not self.skip_record_metadata:
            fields = {
                "offset": record.offset,
                timestamp_type(header): record.timestamp_ms,
                "keySize": size_of(record.key),
                "valueSize": size_of(record.value),
                "sequence": sequence_of(header, record),
                "headerKeys": [key for key, _ in record.headers],
            }
        try:
            if header.is_control:
                name, control = control_record(record.key, record.value)
                return _line({**fields, "control": name, "payload": control})
        except ValueError as error:
            return _line({**fields, "error": str(error)})
        return self._with_values(fields, record)

    def _with_values(self, fields: dict[str, Any], record: RecordView | LegacyRecord) -> str:
        if not self.print_data:
            return _line(fields)
        try:
            key, payload = map(self._value, self.texts(record))
        except MissingKeyError as error:
            raise missing_key(record.offset, _line(fields)) from error
        except ValueError as error:
            return _line({**fields, "error": str(error)})
        return _line({**fields, "key": key, "payload": payload})

    @override
    def _rest_line(self, invalid_bytes: int) -> str:
        return _line({"invalidBytes": invalid_bytes})

    def _value(self, text: str | None) -> Any:
        """Value of a decoder's text: JSON, but for keys of metadata and the mark of a null."""
        if text is None or self.describe_record is None:
            return text
        if text == "<DELETE>":
            return None
        try:
            return msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return text


def _line(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()
