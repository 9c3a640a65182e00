"""Log segments and snapshots, line by line in the form of Kafka's DumpLogSegments."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from cli.arguments import shortened
from cli.offline.control_records import describe_control_record
from wire.batches.batch import Batch, BatchHeader, RecordView
from wire.batches.legacy_batch import LegacyBatch, LegacyRecord, iterate_any
from wire.errors import CorruptBatchError

NO_OFFSET: Final = -1
BOOTSTRAP: Final = "bootstrap.checkpoint"
ALL_BYTES: Final = 2**31 - 1
_INDENT: Final = "|"
"""Begin of the line of a record."""
RecordPrinter = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]
"""(key, value) -> texts to print, None for none. Raises ValueError if they cannot be decoded."""


class SkippedRecordError(ValueError):
    """A record that a decoder cannot read; another text stands in place of its key.

    Args:
        reason: why.
        unknown_type: of the key, if that is the reason.
    """

    def __init__(self, reason: str, unknown_type: int | None = None) -> None:
        super().__init__(reason)
        self.unknown_type = unknown_type

    def key_text(self, offset: int) -> str:
        """Text for the record at an offset."""
        if self.unknown_type is None:
            return f"Error at offset {offset}, skipping. {self}"
        return f"Unknown record type {self.unknown_type} at offset {offset}, skipping."


class MissingKeyError(Exception):
    """A record without the key that a decoder needs, which ends the dump; `line` is its begin."""

    line = ""


class FileNameError(ValueError):
    """A name that does not begin with an offset."""


class SegmentDump:
    """Lines of one `.log` or `.checkpoint` file; non-consecutive offsets are collected."""

    def __init__(
        self,
        path: Path,
        *,
        deep: bool,
        print_data: bool,
        describe_record: RecordPrinter | None,
        bytes_max: int = ALL_BYTES,
        skip_record_metadata: bool = False,
    ) -> None:
        """Store the options; nothing is read yet.

        Args:
            path: The file; its name holds the first offset.
            deep: Read the records.
            print_data: Print the records.
            describe_record: Function from key and value to their texts; None: decode as UTF-8.
            bytes_max: Limit of bytes to read.
            skip_record_metadata: Print only key and payload of records.
        """
        self.path = path
        self.deep = deep
        self.print_data = print_data
        self.describe_record = describe_record
        self.bytes_max = bytes_max
        self.skip_record_metadata = skip_record_metadata
        self.non_consecutive: list[tuple[int, int]] = []
        self._last_offset = NO_OFFSET

    def lines(self) -> Iterator[str]:
        """Lines for standard output.

        Raises:
            CorruptBatchError: a length or a record is impossible; earlier lines were given already.
            MissingKeyError: so is a record without the key that the decoder needs.
        """
        yield self._first_line()
        content = self.path.read_bytes()[: self.bytes_max]
        valid_bytes = 0
        for batch in iterate_any(content):
            if isinstance(batch, LegacyBatch):
                yield self._legacy_line(batch)
                if self.deep:
                    yield from self._legacy_record_lines(batch)
                self._last_offset = batch.last_offset
                valid_bytes = batch.position + batch.size_bytes
                continue
            yield self._batch_line(batch)
            if self.deep:
                yield from self._record_lines(batch)
            self._last_offset = batch.header.last_offset
            valid_bytes = batch.position + batch.header.size_bytes
        if valid_bytes < len(content) and self.bytes_max == ALL_BYTES:
            yield self._rest_line(len(content) - valid_bytes)

    def _first_line(self) -> str:
        """The line of the file name: base offset of a segment, id of a snapshot."""
        if self.path.suffix == ".log":
            return f"Log starting offset: {base_offset(self.path)}"
        if self.path.name == BOOTSTRAP:
            return "KRaft bootstrap snapshot"
        end_offset, epoch = snapshot_id(self.path)
        return f"Snapshot end offset: {end_offset}, epoch: {epoch}"

    def _batch_line(self, batch: Batch) -> str:
        """The line of a batch."""
        header = batch.header
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
            f"count: {header.records_count} baseSequence: {header.base_sequence} "
            f"lastSequence: {header.last_sequence} producerId: {header.producer_id} "
            f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
            f"isTransactional: {_java(header.is_transactional)} "
            f"isControl: {_java(header.is_control)} "
            f"deleteHorizonMs: {java_optional(header.delete_horizon_ms)} "
            f"position: {batch.position} "
            f"{timestamp_type(header)}: {header.max_timestamp_ms} size: {header.size_bytes} "
            f"magic: {header.magic} compresscodec: {header.codec.name.lower()} crc: {header.crc} "
            f"isvalid: {_java(batch.crc_is_valid)}"
        )

    def _legacy_line(self, batch: LegacyBatch) -> str:
        """The line of a message of magic 0 or 1, or of a wrapper of several."""
        return (
            f"offset: {batch.last_offset} position: {batch.position} "
            f"{batch.timestamp_type}: {batch.timestamp_ms} size: {batch.size_bytes} "
            f"magic: {batch.magic} compresscodec: {batch.codec.name.lower()} crc: {batch.crc} "
            f"isvalid: {_java(batch.crc_is_valid)}"
        )

    def _rest_line(self, invalid_bytes: int) -> str:
        """The line of the bytes after the last whole batch."""
        return f"Found {invalid_bytes} invalid bytes at the end of {self.path.name}"

    def _record_lines(self, batch: Batch) -> Iterator[str]:
        if self.describe_record is not None and not batch.crc_is_valid:
            raise CorruptBatchError(
                f"batch at position {batch.position} (offset {batch.header.base_offset}): "
                "the checksum does not match"
            )
        for record in batch.records():
            self._note_offset(record.offset)
            yield self._record_line(batch.header, record)

    def _legacy_record_lines(self, batch: LegacyBatch) -> Iterator[str]:
        for record in batch.records():
            self._note_offset(record.offset)
            yield self._legacy_record_line(batch, record)

    def _note_offset(self, offset: int) -> None:
        if offset != self._last_offset + 1:
            self.non_consecutive.append((self._last_offset, offset))
        self._last_offset = offset

    def _record_line(self, header: BatchHeader, record: RecordView) -> str:
        if self.skip_record_metadata:  # what a control record says counts as its metadata
            return "" if header.is_control else self._with_texts([_INDENT], record)
        words = [_record_fields(header, record)]
        try:
            if header.is_control:
                words.append(describe_control_record(record.key, record.value))
                return " ".join(words)
        except ValueError as error:
            words.append(f"payload: Error at {record.offset}, skipping. {error}")
            return " ".join(words)
        return self._with_texts(words, record)

    def _legacy_record_line(self, batch: LegacyBatch, record: LegacyRecord) -> str:
        fields = (
            f"| offset: {record.offset} {batch.timestamp_type}: {record.timestamp_ms} "
            f"keySize: {size_of(record.key)} valueSize: {size_of(record.value)} "
            f"isValid: {_java(record.crc_is_valid)} crc: {record.crc}"
        )
        return self._with_texts([_INDENT] if self.skip_record_metadata else [fields], record)

    def _with_texts(self, words: list[str], record: RecordView | LegacyRecord) -> str:
        """The words of a record, and behind them its key and its payload if they are wanted."""
        if not self.print_data:
            return _joined(words)
        try:
            key, payload = self.texts(record)
        except MissingKeyError as error:
            raise missing_key(record.offset, _joined(words)) from error
        except SkippedRecordError as error:
            key, payload = error.key_text(record.offset), None
        except ValueError as error:
            words.append(f"payload: Error at {record.offset}, skipping. {error}")
            return " ".join(words)
        if key is not None:
            words.append(f"key: {key}")
        if payload is not None:
            words.append(f"payload: {payload}")
        return _joined(words)

    def texts(self, record: RecordView | LegacyRecord) -> tuple[str | None, str | None]:
        """Texts of key and value; raises ValueError if the decoder cannot read them."""
        if self.describe_record is not None:
            return self.describe_record(record.key, record.value)
        key = None if record.key is None else _text(record.key)
        return key, None if record.value is None else _text(record.value)


def _joined(words: list[str]) -> str:
    """A line of a record, empty if there is nothing in it."""
    return "" if words == [_INDENT] else " ".join(words)


def base_offset(path: Path) -> int:
    """Base offset from the name of a segment.

    Raises:
        FileNameError: the name does not begin with a number.
    """
    number = path.name.split(".")[0]
    try:
        return int(number)
    except ValueError as error:
        raise FileNameError(f'For input string: "{shortened(number)}"') from error


def missing_key(offset: int, line: str) -> MissingKeyError:
    """The end of a dump at a record without a key, behind the begin of its line."""
    error = MissingKeyError(
        f"Failed to decode message at offset {offset} using the specified decoder "
        "(message had a missing key)"
    )
    error.line = line
    return error


def snapshot_id(path: Path) -> tuple[int, int]:
    """End offset and epoch from the name of a snapshot."""
    end_offset, _, epoch = path.stem.partition("-")
    return int(end_offset), int(epoch)


def java_optional(value: int | None) -> str:
    """An OptionalLong as Java prints it."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def sequence_of(header: BatchHeader, record: RecordView) -> int:
    """Sequence number of a record, -1 without one."""
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) & ALL_BYTES


def _record_fields(header: BatchHeader, record: RecordView) -> str:
    keys = ",".join(key for key, _ in record.headers)
    return (
        f"| offset: {record.offset} {timestamp_type(header)}: {record.timestamp_ms} "
        f"keySize: {size_of(record.key)} valueSize: {size_of(record.value)} "
        f"sequence: {sequence_of(header, record)} headerKeys: [{keys}]"
    )


def timestamp_type(header: BatchHeader) -> str:
    """Kind of the timestamps: set at append by the broker, or at creation by the producer."""
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def size_of(content: bytes | None) -> int:
    """Length in bytes, -1 for null."""
    return -1 if content is None else len(content)


def _java(flag: bool) -> str:  # noqa: FBT001
    return "true" if flag else "false"


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")
