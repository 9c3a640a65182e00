"""Validation of a produced batch, and the stamps that a leader puts on it.

A batch is judged by its header: size, checksum, number of records, kind, sequence, timestamps. Its
records are decoded only where the topic asks for it: keys of compacted topics, another codec than
that of the topic, or `validates_records`. Then the largest timestamp of the header is corrected to
that of the records, as Kafka always does. apache/kafka: storage/.../log/LogValidator.java,
UnifiedLog.java (`analyzeAndValidateRecords`), clients/.../requests/ProduceRequest.java
(`validateRecords`); codes and texts are those that 4.3.1 answers with.
"""

import struct
from enum import Enum
from typing import Final

import crc32c
import msgspec

from wire.batches.batch import (
    CRC_START,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    Batch,
    BatchHeader,
    RecordView,
    encode_records,
    iterate_batches,
    parse_batch_header,
)
from wire.batches.compression import Codec
from wire.errors import CorruptBatchError, ErrorCode
from wire.types import Offset

NO_TIMESTAMP_MS: Final = -1
ZSTD_VERSION_MIN: Final = 7
"""First version of Produce whose batches may be compressed by zstd (KIP-110)."""
WITHOUT_KEY: Final = "Compacted topic cannot accept message without key"
"""Begin of the error of such a record."""
_SHOWN_ERRORS_MAX: Final = 3
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC_POSITION: Final = 17
_EPOCH_POSITION: Final = 12
_MAX_TIMESTAMP_POSITION: Final = 35
_MAGIC_POSITION: Final = 16
_OLD_MAGICS: Final = (0, 1)  # of message sets
_MAGIC: Final = struct.Struct(">b")


class TimestampType(Enum):
    """`message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class AppendRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a topic that its appends obey; times in ms, sizes in bytes."""

    batch_bytes_max: int = 1_048_588
    """`max.message.bytes`; inclusive."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_ms_max: int = (1 << 63) - 1
    """`message.timestamp.before.max.ms`; inclusive."""
    after_ms_max: int = 3_600_000
    """`message.timestamp.after.max.ms`; inclusive."""
    codec: Codec | None = None
    """`compression.type`; None for `producer`, the codec of the batch."""
    level: int | None = None
    """`compression.*.level` of that codec; None for its default."""
    is_compacted: bool = False
    """True if every record needs a key."""
    validates_records: bool = False
    """True if the records of every batch are decoded."""


class RecordError(msgspec.Struct, frozen=True):
    """A record that is refused: its number in the batch, from 0."""

    batch_index: int
    message: str

    @property
    def shown(self) -> str:
        """Its form in the text of the whole refusal."""
        return f"RecordError(batchIndex={self.batch_index}, message='{self.message}')"


class RejectedError(Exception):
    """A batch is refused; nothing of it may be appended."""

    def __init__(
        self,
        code: ErrorCode,
        reason: str,
        record_errors: tuple[RecordError, ...] = (),
        message: str | None = None,
    ) -> None:
        """Store them.

        Args:
            code: of the answer.
            reason: for the log of the node.
            record_errors: of the answer.
            message: of the answer; None where Kafka gives none.
        """
        super().__init__(reason)
        self.code = code
        self.record_errors = record_errors
        self.message = message


def parse_produced(data: memoryview, version: int) -> Batch:
    """The one batch that a Produce request has for a partition.

    Args:
        data: `records` of the request; fewer than 17 bytes behind the batch are ignored.
        version: of the request, at least 3.

    Raises:
        RejectedError: none or several, or another format.
    """
    only = f"Produce requests with version {version} are only allowed to contain"
    if len(data) > _MAGIC_POSITION and data[_MAGIC_POSITION] != MAGIC:
        (magic,) = _MAGIC.unpack_from(data, _MAGIC_POSITION)
        if magic not in _OLD_MAGICS:
            text = f"Invalid magic found in record: {magic}"
            raise RejectedError(ErrorCode.corrupt_message, text, message=text)
        text = f"{only} record batches with magic version {MAGIC}"
        raise RejectedError(ErrorCode.invalid_record, text)
    try:
        batches = iterate_batches(data)
        batch = next(batches, None)
        is_only = batch is not None and next(batches, None) is None
    except CorruptBatchError as error:
        raise RejectedError(ErrorCode.corrupt_message, str(error)) from error
    if batch is None:
        text = f"Produce requests with version {version} must have at least one record batch"
        raise RejectedError(ErrorCode.invalid_record, f"{text} per partition")
    header = batch.header
    if header.attributes & 0x07 == Codec.ZSTD and version < ZSTD_VERSION_MIN:
        text = f"Produce requests with version {version} are not allowed to use ZStandard"
        raise RejectedError(ErrorCode.unsupported_compression_type, f"{text} compression")
    if not is_only:
        text = f"{only} exactly one record batch per partition"
        raise RejectedError(ErrorCode.invalid_record, text)
    return batch


def validated(batch: Batch, rules: AppendRules, partition: str, wall_ms: int) -> Batch:
    """The batch as it is to be appended, but for its offset and epoch.

    The buffer of the given batch is written to where only the timestamp or its type differ; with
    another codec it is a new one.

    Args:
        batch: of `parse_produced`, in a buffer that may be written to.
        rules: of the topic.
        partition: `topic-number`, for texts.
        wall_ms: since 1970.

    Raises:
        RejectedError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE; INVALID_RECORD or INVALID_TIMESTAMP, with
            the errors of records; for records that cannot be decoded UNKNOWN_SERVER_ERROR, which
            is what Kafka answers.
    """
    header = batch.header
    _check_batch(batch, partition, rules.batch_bytes_max)
    _check_header(header)
    is_append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    codec = _codec_of(header) if rules.codec is None else rules.codec
    is_out_of_range = not is_append_time and (
        _is_out_of_range(header.base_timestamp_ms, rules, wall_ms)
        or _is_out_of_range(header.max_timestamp_ms, rules, wall_ms)
    )
    claims_append_time = is_append_time and header.is_log_append_time
    max_timestamp_ms = header.max_timestamp_ms
    records: list[RecordView] | None = None
    if (
        rules.is_compacted
        or rules.validates_records
        or codec is not _codec_of(header)
        or is_out_of_range
        or claims_append_time
    ):
        records = _decoded(batch)
        _check_records(header, records, rules, partition, wall_ms)
        max_timestamp_ms = max(record.timestamp_ms for record in records)
    if is_append_time:
        max_timestamp_ms = wall_ms
    if records is not None and codec is not _codec_of(header):
        again = _encoded_again(header, records, codec, rules, max_timestamp_ms)
        _check_size_again(again.header.size_bytes, partition, rules.batch_bytes_max)
        return again
    return _with_timestamp(batch, rules.timestamp_type, max_timestamp_ms)


def stamp(batch: Batch, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Write offset and epoch of the leader into the batch, and return its new header.

    Both lie before the bytes that the checksum covers.
    """
    assert base_offset >= 0, f"{base_offset=}"
    assert leader_epoch >= 0, f"{leader_epoch=}"
    _BASE_OFFSET.pack_into(batch.buffer, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch.buffer, _EPOCH_POSITION, leader_epoch)
    return parse_batch_header(batch.buffer)


def _check_batch(batch: Batch, partition: str, batch_bytes_max: int) -> None:
    header = batch.header
    where = f"in the append to {partition}"
    if header.base_offset != 0:
        text = f"The baseOffset of the record batch {where} should be 0, but it is"
        raise RejectedError(ErrorCode.invalid_record, f"{text} {header.base_offset}")
    if header.size_bytes > batch_bytes_max:
        text = f"The record batch size {where} is {header.size_bytes} bytes which exceeds the"
        text = f"{text} maximum configured value of {batch_bytes_max}"
        raise RejectedError(ErrorCode.message_too_large, text)
    if not batch.crc_is_valid:
        text = f"Record is corrupt (stored crc = {header.crc}) in topic partition {partition}"
        raise RejectedError(ErrorCode.corrupt_message, text)


def _check_header(header: BatchHeader) -> None:
    first, last, count = header.base_offset, header.last_offset, header.records_count
    if header.last_offset_delta < 0:
        text = f"Batch has an invalid offset range: [{first}, {last}]"
    elif count <= 0:
        text = f"Invalid reported count for record batch: {count}"
    elif header.last_offset_delta + 1 != count:
        text = f"Inconsistent batch offset range [{first}, {last}] and count of records {count}"
    elif header.is_control:
        text = "Clients are not allowed to write control records"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        text = f"Invalid sequence number {header.base_sequence} in record batch with producerId"
        text = f"{text} {header.producer_id}"
    else:
        return
    raise RejectedError(ErrorCode.invalid_record, text)


def _codec_of(header: BatchHeader) -> Codec:
    try:
        return header.codec
    except CorruptBatchError as error:
        raise RejectedError(ErrorCode.unknown_server_error, str(error)) from error


def _decoded(batch: Batch) -> list[RecordView]:
    try:
        return batch.records()
    except CorruptBatchError as error:
        raise RejectedError(ErrorCode.unknown_server_error, str(error)) from error


def _is_out_of_range(timestamp_ms: int, rules: AppendRules, wall_ms: int) -> bool:
    if timestamp_ms == NO_TIMESTAMP_MS:
        return False
    age_ms = wall_ms - timestamp_ms
    return age_ms > rules.before_ms_max or -age_ms > rules.after_ms_max


def _check_records(
    header: BatchHeader,
    records: list[RecordView],
    rules: AppendRules,
    partition: str,
    wall_ms: int,
) -> None:
    """Refuse a batch with bad keys or timestamps, with an error for each bad record."""
    is_append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    errors: list[RecordError] = []
    code = ErrorCode.invalid_record
    for index, record in enumerate(records):
        if rules.is_compacted and record.key is None:
            text = f"{WITHOUT_KEY} in topic partition {partition}"
            errors.append(RecordError(index, text))
        elif not is_append_time and _is_out_of_range(record.timestamp_ms, rules, wall_ms):
            code = ErrorCode.invalid_timestamp
            first_ms, last_ms = _java_long(wall_ms - rules.before_ms_max), wall_ms
            last_ms = _java_long(wall_ms + rules.after_ms_max)
            errors.append(
                RecordError(
                    index,
                    f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out"
                    f" of range. The timestamp should be within [{first_ms}, {last_ms}]",
                )
            )
        elif is_append_time and header.is_log_append_time:
            code = ErrorCode.invalid_timestamp
            shown = f"offset={record.offset}, timestamp={record.timestamp_ms}"
            shown = f"{shown}, key={len(record.key or b'')} bytes, value={len(record.value or b'')}"
            errors.append(
                RecordError(
                    index,
                    f"Invalid timestamp type in message DefaultRecord({shown} bytes). Producer"
                    " should not set timestamp type to LogAppendTime.",
                )
            )
    if errors:
        raise _rejected(code, errors)


def _rejected(code: ErrorCode, errors: list[RecordError]) -> RejectedError:
    message = "One or more records have been rejected due to"
    if code is ErrorCode.invalid_timestamp:
        message = f"{message} invalid timestamp"
    else:
        shown = ", ".join(error.shown for error in errors[:_SHOWN_ERRORS_MAX])
        message = (
            f"{message} {len(errors)} record errors in total, and only showing the first three"
            f" errors at most: [{shown}]"
        )
    return RejectedError(code, message, tuple(errors), message)


def _check_size_again(size_bytes: int, partition: str, batch_bytes_max: int) -> None:
    if size_bytes > batch_bytes_max:
        text = f"Message batch size is {size_bytes} bytes in append to partition {partition} which"
        text = f"{text} exceeds the maximum configured size of {batch_bytes_max}."
        raise RejectedError(ErrorCode.message_too_large, text)


def _java_long(number: int) -> int:
    """The number as a Java long, which wraps."""
    return int.from_bytes((number % (1 << 64)).to_bytes(8, "big"), "big", signed=True)


def _with_timestamp(batch: Batch, kind: TimestampType, max_timestamp_ms: int) -> Batch:
    """The batch with this time and type in its header; the checksum follows where one differs."""
    header, is_append_time = batch.header, kind is TimestampType.LOG_APPEND_TIME
    if header.is_log_append_time == is_append_time and header.max_timestamp_ms == max_timestamp_ms:
        return batch
    buffer = batch.buffer
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT
    if is_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buffer, CRC_START, attributes)
    _TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    _CRC.pack_into(buffer, _CRC_POSITION, crc32c.crc32c(buffer[CRC_START:]))
    return Batch(parse_batch_header(buffer), buffer, batch.position)


def _encoded_again(
    header: BatchHeader,
    records: list[RecordView],
    codec: Codec,
    rules: AppendRules,
    max_timestamp_ms: int,
) -> Batch:
    attributes = header.attributes & ~(0x07 | LOG_APPEND_TIME_BIT) | codec
    create_time = msgspec.structs.replace(header, attributes=attributes)
    numbered = [
        msgspec.structs.replace(record, offset=Offset(header.base_offset + number))
        for number, record in enumerate(records)
    ]
    data = bytearray(encode_records(create_time, numbered, rules.level))
    buffer = memoryview(data)
    again = Batch(parse_batch_header(buffer), buffer, 0)
    return _with_timestamp(again, rules.timestamp_type, max_timestamp_ms)
