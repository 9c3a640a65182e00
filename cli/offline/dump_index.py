"""Index files and producer snapshots, line by line in the form of Kafka's DumpLogSegments.

The offset index is checked against the log: the batch at an entry's position must end at the
entry's offset. The time index is checked against the largest timestamp of the batch of its entry.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cli.offline.dump_log import MESSAGE_BYTES_MAX
from cli.offline.dump_segment import base_offset, java_optional
from storage.producers.producer_entry import decrement_sequence
from storage.producers.producer_snapshot import ProducerSnapshotEntry, decode_producer_snapshot
from storage.segments.transaction_index import decode_transaction_index
from wire.batches.batch import Batch, iterate_batches
from wire.errors import CorruptBatchError

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class IndexDump:
    """Lines of one index; mismatches are collected for standard error."""

    def __init__(
        self,
        path: Path,
        *,
        sanity_only: bool,
        verify_only: bool,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        """Store the options; nothing is read yet.

        Args:
            path: An `.index` or `.timeindex` file beside its `.log`.
            sanity_only: Check the form of the file only.
            verify_only: Check the entries without printing them.
            message_bytes_max: Limit of the batch of an entry of an offset index.
        """
        self.path = path
        self.sanity_only = sanity_only
        self.verify_only = verify_only
        self.message_bytes_max = message_bytes_max
        self.base_offset = base_offset(path)
        self.mismatches: list[tuple[int, int]] = []
        self.out_of_order: list[tuple[int, int]] = []
        self.not_found: list[tuple[int, int]] = []

    def offset_index_lines(self) -> Iterator[str]:
        """Lines of an `.index` file."""
        entries = offset_entries(self.path)
        if not entries:
            yield f"{self.path} is empty."
            return
        if self.sanity_only:
            yield self._sanity_line(_OFFSET_ENTRY.size, self.base_offset + entries[-1][0])
            return
        log = self._log_bytes()
        for number, (relative_offset, position) in enumerate(entries):
            offset = self.base_offset + relative_offset
            if offset == self.base_offset and number > 0:
                return
            batch = next(_batches_from(log, position), None)
            if batch is not None and batch.header.size_bytes > self.message_bytes_max:
                raise CorruptBatchError(
                    f"the batch at position {position} has {batch.header.size_bytes} bytes, "
                    f"more than --max-message-size {self.message_bytes_max}"
                )
            last_offset = batch.header.last_offset if batch else -1
            if last_offset != offset:
                self.mismatches.append((offset, last_offset))
            if not self.verify_only:
                yield f"offset: {offset} position: {position}"

    def time_index_lines(self) -> Iterator[str]:
        """Lines of a `.timeindex` file."""
        entries = _entries(self.path, _TIME_ENTRY)
        if self.sanity_only:
            yield self._sanity_line(_TIME_ENTRY.size, self.base_offset)
            return
        log = self._log_bytes()
        offsets = offset_entries(self.path.with_suffix(".index"))
        previous_ms = -1
        for number, (timestamp_ms, relative_offset) in enumerate(entries):
            offset = self.base_offset + relative_offset
            if offset == self.base_offset and number > 0:
                return
            start = max((at for entry, at in offsets if entry <= relative_offset), default=0)
            self._check_time_entry(_batches_from(log, start), offset, timestamp_ms)
            if previous_ms >= timestamp_ms:
                self.out_of_order.append((timestamp_ms, previous_ms))
            if not self.verify_only:
                yield f"timestamp: {timestamp_ms} offset: {offset}"
            previous_ms = timestamp_ms

    def _check_time_entry(self, batches: Iterator[Batch], offset: int, timestamp_ms: int) -> None:
        batch = next((batch for batch in batches if batch.header.last_offset >= offset), None)
        if batch is None or batch.header.last_offset != offset:
            self.not_found.append((offset, batch.header.last_offset if batch else -1))
            return
        found_ms = max((record.timestamp_ms for record in batch.records()), default=-1)
        if found_ms != timestamp_ms:
            self.mismatches.append((timestamp_ms, found_ms))

    def complaints(self) -> Iterator[str]:
        """Lines about this file for standard error."""
        if self.path.suffix == ".index":
            if self.mismatches:
                yield f"Mismatches in :{self.path.absolute()}"
            for offset, last_offset in self.mismatches:
                yield f"  Index offset: {offset}, log offset: {last_offset}"
            return
        if self.mismatches:
            yield f"Found timestamp mismatch in :{self.path.absolute()}"
        for indexed_ms, found_ms in self.mismatches:
            yield f"  Index timestamp: {indexed_ms}, log timestamp: {found_ms}"
        if self.out_of_order:
            yield f"Found out of order timestamp in :{self.path.absolute()}"
        for indexed_ms, previous_ms in self.out_of_order:
            yield f"  Index timestamp: {indexed_ms}, Previously indexed timestamp: {previous_ms}"
        if self.not_found:
            yield "The following indexed offsets are not found in the log."
        for offset, found in self.not_found:
            yield f"Indexed offset: {offset}, found log offset: {found}"

    def _sanity_line(self, entry_bytes: int, last_offset: int) -> str:
        size_bytes = self.path.stat().st_size
        if size_bytes % entry_bytes or last_offset < self.base_offset:
            raise CorruptBatchError(
                f"{self.path}: {size_bytes} bytes are not whole entries in order"
            )
        return f"{self.path} passed sanity check."

    def _log_bytes(self) -> bytes:
        return self.path.with_suffix(".log").read_bytes()


def offset_entries(path: Path) -> list[tuple[int, int]]:
    """(relative offset, position) of every entry of an offset index, zeros at the end included."""
    return [(offset, position) for offset, position in _entries(path, _OFFSET_ENTRY)]


def producer_snapshot_lines(content: bytes, path: str) -> Iterator[str]:
    """Lines of a producer `.snapshot` file, one per producer.

    Source: apache/kafka: ProducerStateManager.java (`readSnapshot`).

    Raises:
        CorruptFileError: the file is cut, of another version, or its CRC is wrong.
    """
    for entry in decode_producer_snapshot(content, path):
        yield _producer_line(entry)


def _producer_line(entry: ProducerSnapshotEntry) -> str:
    first_offset = entry.current_transaction_first_offset
    first = java_optional(first_offset if first_offset >= 0 else None)
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {first} "
        f"lastTimestamp: {entry.timestamp_ms}"
    )
    if entry.last_offset < 0:
        return line
    first_sequence = decrement_sequence(entry.last_sequence, entry.offset_delta)
    return (
        f"{line} firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
        f"timestamp: {entry.timestamp_ms}"
    )


def transaction_index_lines(path: Path) -> Iterator[str]:
    """Lines of a `.txnindex` file, one per aborted transaction."""
    for entry in decode_transaction_index(path.read_bytes()):
        yield (
            f"version: {entry.version} producerId: {entry.producer_id} "
            f"firstOffset: {entry.first_offset} lastOffset: {entry.last_offset} "
            f"lastStableOffset: {entry.last_stable_offset}"
        )


def _entries(path: Path, layout: struct.Struct) -> list[tuple[int, ...]]:
    content = path.read_bytes()
    return list(layout.iter_unpack(content[: len(content) // layout.size * layout.size]))


def _batches_from(log: bytes, position: int) -> Iterator[Batch]:
    return iterate_batches(memoryview(log)[position:])
