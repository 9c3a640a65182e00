"""Validation of a produced batch, and the stamps that a leader puts on it.

A batch is judged by its header: size, checksum, number of records, kind, sequence, timestamps. Its
records are decoded only where the topic asks for it: keys of compacted topics, another codec than
that of the topic, or `validates_records`. Then the largest timestamp of the header is corrected to
that of the records, as Kafka always does. Many records are decoded in pieces, and what comes of it
is kept for the append, which is one piece. apache/kafka: storage/.../log/LogValidator.java,
UnifiedLog.java (`analyzeAndValidateRecords`); codes and texts are those that 4.3.1 answers with.
"""

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from wire.batches.batch import (
    CODEC_MASK,
    CRC_START,
    LOG_APPEND_TIME_BIT,
    Batch,
    BatchHeader,
    parse_batch_header,
    with_header,
)
from wire.batches.compression import Codec, compress
from wire.batches.records import RecordReader, RecordView, encode_section
from wire.checksum import crc32c
from wire.errors import CorruptBatchError, ErrorCode
from wire.steps import Aside, Steps, finished
from wire.types import Offset

NO_TIMESTAMP_MS: Final = -1
ANY_AGE_MS: Final = (1 << 63) - 1
"""`message.timestamp.before.max.ms` without a bound, its default."""
WITHOUT_KEY: Final = "Compacted topic cannot accept message without key"
"""Begin of the error of such a record."""
SLICE: Final = 128
"""Records that are decoded in one piece."""
SLICE_BYTES_MAX: Final = 16 * 1024
"""Bytes behind which no record of a piece begins: it may have as many headers."""
SMALL_BYTES_MAX: Final = 64 * 1024
"""Bytes of a batch up to which it is decoded at once, if its records are not too many."""
_RECORD_UNITS: Final = 3
"""Cost of a record that is decoded, and once more if it is encoded again; of a header 1."""
_SHOWN_ERRORS_MAX: Final = 3
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_CRC: Final = struct.Struct(">I")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC_POSITION: Final = 17
_EPOCH_POSITION: Final = 12
_MAX_TIMESTAMP_POSITION: Final = 35


class TimestampType(Enum):
    """`message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class AppendRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a topic that its appends obey; times in ms, sizes in bytes."""

    batch_bytes_max: int = 1_048_588
    """`max.message.bytes`; inclusive."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_ms_max: int = ANY_AGE_MS
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
    verifies_transactions: bool = True
    """`transaction.partition.verification.enable`, of the broker: True if a transaction begins only
    where the coordinator was asked."""


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


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A batch whose checks were done in pieces; its timestamp is that of the append."""

    given: Batch
    rules: AppendRules
    """By which it was judged."""
    batch: Batch
    """The given one, or the same records in another codec."""
    max_timestamp_ms: int
    """Of its records."""
    refusal: RejectedError | None = None


def is_small(batch: Batch) -> bool:
    """True if a batch is judged in one piece, whatever the rules of its topic ask for."""
    return batch.header.records_count <= SLICE and len(batch.buffer) <= SMALL_BYTES_MAX


class LogValidator(msgspec.Struct, frozen=True):
    """Checks of the batches that clients send to a partition."""

    partition: str
    """`topic-number`, for texts."""
    rules: AppendRules

    def needs_records(self, header: BatchHeader, wall_ms: int) -> bool:
        """True if the records of a batch are to be decoded: its header does not say all."""
        return _needs_records(header, self.rules, wall_ms)

    def check_in_steps(self, batch: Batch, wall_ms: int) -> Steps[Checked]:
        """Judge a batch in pieces; a refusal is kept for the append."""
        rules = self.rules
        try:
            _check_batch(batch, self.partition, rules.batch_bytes_max)
            _check_header(batch.header)
            judged = yield from _judged(batch, rules, self.partition, wall_ms)
        except RejectedError as refusal:
            return Checked(
                given=batch, rules=rules, batch=batch, max_timestamp_ms=-1, refusal=refusal
            )
        again, max_timestamp_ms = judged
        return Checked(given=batch, rules=rules, batch=again, max_timestamp_ms=max_timestamp_ms)

    def validated(self, batch: Batch | Checked, wall_ms: int) -> Batch:
        """As the function `validated`; one that was judged by other rules is judged anew."""
        if isinstance(batch, Batch):
            return validated(batch, self.rules, self.partition, wall_ms)
        if batch.refusal is not None:
            assert batch.batch is batch.given, "nothing is made of a refused batch"
        if batch.rules != self.rules:
            return validated(batch.given, self.rules, self.partition, wall_ms)
        if batch.refusal is not None:
            raise batch.refusal
        return _with_timestamp(batch.batch, self.rules, batch.max_timestamp_ms, wall_ms)

    def check_segment(self, header: BatchHeader, segment_bytes: int) -> None:
        """Refuse a batch that is larger than a segment."""
        assert segment_bytes > 0, f"{segment_bytes=}"
        if header.size_bytes > segment_bytes:
            text = f"Message batch size is {header.size_bytes} bytes in append to partition"
            text = f"{text} {self.partition}, which exceeds the maximum configured segment size"
            raise RejectedError(ErrorCode.record_list_too_large, f"{text} of {segment_bytes}.")

    def append_time_ms(self, wall_ms: int) -> int:
        """The time that is answered: of the append, -1 where that of the records counts."""
        is_append_time = self.rules.timestamp_type is _APPEND_TIME
        return wall_ms if is_append_time else NO_TIMESTAMP_MS


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
    _codec_of(header)
    max_timestamp_ms = header.max_timestamp_ms
    if _needs_records(header, rules, wall_ms):
        batch, max_timestamp_ms = finished(_judged(batch, rules, partition, wall_ms))
    return _with_timestamp(batch, rules, max_timestamp_ms, wall_ms)


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


def _needs_records(header: BatchHeader, rules: AppendRules, wall_ms: int) -> bool:
    if rules.timestamp_type is _APPEND_TIME:
        may_be_untimely = header.is_log_append_time
    else:
        # The header has the first and the largest timestamp, but not the smallest.
        may_be_untimely = (
            (rules.before_ms_max < ANY_AGE_MS and header.records_count > 1)
            or _is_out_of_range(header.base_timestamp_ms, rules, wall_ms)
            or _is_out_of_range(header.max_timestamp_ms, rules, wall_ms)
        )
    return (
        rules.is_compacted
        or rules.validates_records
        or may_be_untimely
        or (rules.codec is not None and header.attributes & CODEC_MASK != rules.codec)
    )


def _is_out_of_range(timestamp_ms: int, rules: AppendRules, wall_ms: int) -> bool:
    if timestamp_ms == NO_TIMESTAMP_MS:
        return False
    age_ms = wall_ms - timestamp_ms
    return age_ms > rules.before_ms_max or -age_ms > rules.after_ms_max


def _judged(
    batch: Batch, rules: AppendRules, partition: str, wall_ms: int
) -> Steps[tuple[Batch, int]]:
    """Decode a batch; in the codec of its topic, with the largest timestamp of its records."""
    header, max_timestamp_ms = batch.header, NO_TIMESTAMP_MS
    own = _codec_of(header)
    codec = own if rules.codec is None else rules.codec
    # Deltas of timestamps are those of CreateTime, whatever the topic asks for.
    attributes = header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME_BIT) | codec
    create_time = msgspec.structs.replace(header, attributes=attributes)
    reader = RecordReader(header, (yield from _section(batch, own)))
    errors, sections = _RecordErrors(header, rules, partition, wall_ms), []
    first_offset = int(header.base_offset)
    while not reader.is_at_end:
        try:
            records = reader.take(SLICE, SLICE_BYTES_MAX)
        except CorruptBatchError as error:
            raise RejectedError(ErrorCode.unknown_server_error, str(error)) from error
        errors.look_at(records)
        max_timestamp_ms = max(max_timestamp_ms, *(record.timestamp_ms for record in records))
        units = len(records) * _RECORD_UNITS + sum(len(record.headers) for record in records)
        if codec is not own:
            numbered = [
                msgspec.structs.replace(record, offset=Offset(offset))
                for offset, record in enumerate(records, first_offset)
            ]
            sections.append(encode_section(create_time, numbered))
            first_offset += len(records)
            units *= 2
        yield units
    errors.end()
    if codec is own:
        return batch, max_timestamp_ms
    again = yield from _encoded_again(create_time, b"".join(sections), rules.level)
    _check_size_again(again.header.size_bytes, partition, rules.batch_bytes_max)
    return again, max_timestamp_ms


def _section(batch: Batch, codec: Codec) -> Steps[bytes]:
    """The records of a batch, decompressed aside."""
    if codec is Codec.NONE:
        return batch.section()

    def decompressed() -> bytes | CorruptBatchError:
        try:
            return batch.section()
        except CorruptBatchError as error:
            return error

    aside = Aside(decompressed)
    yield aside
    if isinstance(aside.result, CorruptBatchError):
        raise RejectedError(ErrorCode.unknown_server_error, str(aside.result)) from aside.result
    return aside.result


def _encoded_again(header: BatchHeader, section: bytes, level: int | None) -> Steps[Batch]:
    """A batch of these records, compressed aside."""
    aside = Aside(lambda: compress(header.codec, section, level))
    if header.codec is Codec.NONE:
        aside.run()
    else:
        yield aside
    assert aside.result, f"{header.records_count=} cannot be nothing"
    buffer = memoryview(bytearray(with_header(header, aside.result, header.records_count)))
    return Batch(parse_batch_header(buffer), buffer, 0)


class _RecordErrors:
    """The errors of the records of a batch: bad keys and timestamps."""

    def __init__(
        self, header: BatchHeader, rules: AppendRules, partition: str, wall_ms: int
    ) -> None:
        self._header = header
        self._rules = rules
        self._partition = partition
        self._wall_ms = wall_ms
        self._code = ErrorCode.invalid_record
        # Kafka reads no keys and values of a compressed batch that keeps its codec.
        self._is_partial = header.codec is not Codec.NONE and rules.codec in (None, header.codec)
        self._errors: list[RecordError] = []
        self._count = 0
        """Records that were looked at."""

    def look_at(self, records: Sequence[RecordView]) -> None:
        """Judge the next records."""
        rules, wall_ms, errors = self._rules, self._wall_ms, self._errors
        is_append_time = rules.timestamp_type is _APPEND_TIME
        claims_append_time = is_append_time and self._header.is_log_append_time
        for index, record in enumerate(records, self._count):
            if rules.is_compacted and record.key is None:
                text = f"{WITHOUT_KEY} in topic partition {self._partition}"
                errors.append(RecordError(index, text))
            elif not is_append_time and _is_out_of_range(record.timestamp_ms, rules, wall_ms):
                self._code = ErrorCode.invalid_timestamp
                errors.append(RecordError(index, _out_of_range(record, rules, wall_ms)))
            elif claims_append_time:
                self._code = ErrorCode.invalid_timestamp
                errors.append(RecordError(index, _wrong_type(record, is_partial=self._is_partial)))
        self._count += len(records)
        assert self._count <= self._header.records_count, f"{self._count=}"

    def end(self) -> None:
        """Refuse the batch if there are errors."""
        assert self._count == self._header.records_count, f"{self._count=} are not all"
        if self._errors:
            raise _rejected(self._code, self._errors)


def _out_of_range(record: RecordView, rules: AppendRules, wall_ms: int) -> str:
    first_ms = _java_long(wall_ms - rules.before_ms_max)
    last_ms = _java_long(wall_ms + rules.after_ms_max)
    return (
        f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out"
        f" of range. The timestamp should be within [{first_ms}, {last_ms}]"
    )


def _wrong_type(record: RecordView, *, is_partial: bool) -> str:
    absent = -1 if is_partial else 0
    key, value = (absent if each is None else len(each) for each in (record.key, record.value))
    name = "PartialDefaultRecord" if is_partial else "DefaultRecord"
    return (
        f"Invalid timestamp type in message {name}(offset={record.offset}, timestamp="
        f"{record.timestamp_ms}, key={key} bytes, value={value} bytes). Producer should not set"
        " timestamp type to LogAppendTime."
    )


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


def _with_timestamp(batch: Batch, rules: AppendRules, max_timestamp_ms: int, wall_ms: int) -> Batch:
    """The batch with the time and type of its topic in its header, and its checksum.

    The time is that of the records, or of the append.
    """
    header, is_append_time = batch.header, rules.timestamp_type is _APPEND_TIME
    if is_append_time:
        max_timestamp_ms = wall_ms
    if header.is_log_append_time == is_append_time and header.max_timestamp_ms == max_timestamp_ms:
        return batch
    buffer = batch.buffer
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT
    if is_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buffer, CRC_START, attributes)
    _TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    _CRC.pack_into(buffer, _CRC_POSITION, crc32c(buffer[CRC_START:]))
    return Batch(parse_batch_header(buffer), buffer, batch.position)
