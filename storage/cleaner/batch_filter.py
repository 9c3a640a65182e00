"""The rest of a batch that was cleaned: all of it, some records, an empty header, or nothing.

    INV-CL-1  no record, batch or offset is moved: a batch keeps its first and last offset
    INV-CL-2  the record with the highest offset of a key stays, unless it is a tombstone whose
              delete horizon has passed, or of an aborted transaction

A tombstone, and the marker of a transaction whose records are gone, get a delete horizon when they
are met first: bit 6 of the attributes, the time in the base timestamp. A later round drops them
once it has passed, so that a reader who began before sees them. (KIP-534)

apache/kafka: storage/.../log/Cleaner.java (`cleanInto`, `shouldRetainRecord`),
clients/.../common/record/MemoryRecords.java (`filterTo`)
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from storage.cleaner.clean_job import CleanStats, LastRecord
from storage.cleaner.offset_map import KEY_BYTES_MAX, OffsetMap, map_key
from storage.cleaner.transactions import CleanedTransactions
from wire.batches.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Batch,
    BatchHeader,
    with_header,
)
from wire.batches.compression import Codec, compress, decompress
from wire.batches.legacy_batch import LegacyBatch, LegacyRecord
from wire.batches.legacy_writer import encode_wrapper
from wire.batches.record_fields import (
    RecordFields,
    record_fields,
    section_of,
    timestamp_delta_ms,
)
from wire.errors import CorruptBatchError

WRONG_CRC: Final = "the CRC of the batch is wrong"
_NO_TIMESTAMP_MS: Final = -1
_EMPTY_BITS: Final = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class Kept(NamedTuple):
    """A batch of the cleaned segment; `content` None if it is the same as before."""

    content: bytes | None
    last_offset: int
    max_timestamp_ms: int


class FilterRules(msgspec.Struct, frozen=True, kw_only=True):
    """Values that one segment is cleaned by; times are wall clock."""

    now_ms: int
    delete_retention_ms: int
    upper_bound_offset: int
    """End of the round: the batch that ends there stays, empty at least."""
    producers: Mapping[int, LastRecord]
    keeps_old_tombstones: bool
    """True if those of magic 0 and 1, which have no delete horizon, stay in this segment."""

    def __post_init__(self) -> None:
        """Assert the range of each value."""
        assert self.now_ms >= 0, f"{self.now_ms=}"
        assert self.delete_retention_ms >= 0, f"{self.delete_retention_ms=}"
        assert self.upper_bound_offset > 0, f"{self.upper_bound_offset=}"


class BatchFilter:
    """The filter of one segment.

    Args:
        offsets: of the dirty part of the log.
        transactions: at the beginning of the segment.
        rules: of the segment.
        stats: of the round.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        rules: FilterRules,
        stats: CleanStats,
    ) -> None:
        assert offsets.latest_offset >= 0, "the map is built first"
        self._offsets = offsets.offsets
        self._latest_offset = offsets.latest_offset
        self._transactions = transactions
        self._rules = rules
        self._stats = stats

    def filtered(self, batch: Batch | LegacyBatch) -> Kept | None:
        """The rest of the next batch; None if nothing is left.

        Raises:
            CorruptBatchError: its checksum is wrong, or its records cannot be read.
        """
        if not batch.crc_is_valid:
            raise CorruptBatchError(WRONG_CRC)
        if isinstance(batch, LegacyBatch):
            return self._old(batch)
        return self._control(batch) if batch.header.is_control else self._data(batch)

    # -- magic 2 --------------------------------------------------------------------------------

    def _control(self, batch: Batch) -> Kept | None:
        header, now_ms = batch.header, self._rules.now_ms
        is_needless = self._transactions.is_needless(batch)
        horizon_ms = header.delete_horizon_ms
        has_passed = horizon_ms is not None and horizon_ms <= now_ms
        if is_needless and has_passed:
            return self._emptied(header)
        count = header.records_count
        self._stats.messages_read += count
        if count == 0:
            return self._emptied(header)
        self._stats.messages_written += count
        if not is_needless or horizon_ms is not None:
            return Kept(None, header.last_offset, header.max_timestamp_ms)
        section = plain_section(batch)
        return self._rebuilt(header, section, record_fields(section, count), sets_horizon=True)

    def _data(self, batch: Batch) -> Kept | None:
        header, stats = batch.header, self._stats
        if self._transactions.is_aborted(header.last_offset, header):
            return self._emptied(header)
        count = header.records_count
        stats.messages_read += count
        section = plain_section(batch)
        fields = record_fields(section, count)
        assert len(fields) == count, f"{len(fields)=} {count=}"
        kept = self._retained(header, fields)
        if not kept:
            return self._emptied(header)
        stats.messages_written += len(kept)
        has_tombstone = False in [has_value for *_, has_value in kept]
        sets_horizon = header.delete_horizon_ms is None and has_tombstone
        if len(kept) == count and not sets_horizon:
            return Kept(None, header.last_offset, header.max_timestamp_ms)
        return self._rebuilt(header, section, kept, sets_horizon=sets_horizon)

    def _retained(self, header: BatchHeader, fields: list[RecordFields]) -> list[RecordFields]:
        """The records that stay, of a batch that is not aborted."""
        base_offset, latest_offset, get = header.base_offset, self._latest_offset, self._offsets.get
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._rules.now_ms < horizon_ms
        if header.last_offset <= latest_offset:
            kept = [
                each
                for each in fields
                if (key := each[5]) is not None
                and base_offset + each[4]
                >= get(key if len(key) <= KEY_BYTES_MAX else map_key(key), -1)
                and (each[6] or keeps_tombstones)
            ]
            if len(kept) < len(fields):
                self._stats.invalid_messages_read += [each[5] for each in fields].count(None)
            return kept
        kept = []
        for each in fields:
            offset, key, has_value = base_offset + each[4], each[5], each[6]
            is_newest = offset > latest_offset or self._is_newest(offset, key)
            if is_newest and (has_value or keeps_tombstones or offset > latest_offset):
                kept.append(each)
        return kept

    def _is_newest(self, offset: int, key: bytes | None) -> bool:
        if key is None:
            self._stats.invalid_messages_read += 1
            return False
        return offset >= self._offsets.get(map_key(key), -1)

    def _rebuilt(
        self,
        header: BatchHeader,
        section: bytes,
        kept: Sequence[RecordFields],
        *,
        sets_horizon: bool,
    ) -> Kept:
        """The batch with these records alone, and maybe a delete horizon from now on."""
        assert 0 < len(kept) <= header.records_count, f"{len(kept)=} {header=}"
        assert not (sets_horizon and header.delete_horizon_ms is not None), f"set once: {header=}"
        base_ms, rules = header.base_timestamp_ms, self._rules
        if header.is_log_append_time:
            times_ms = [header.max_timestamp_ms] * len(kept)
        else:
            times_ms = [base_ms + timestamp_delta_ms(section, each) for each in kept]
        attributes = header.attributes
        if sets_horizon:
            new_base_ms = rules.now_ms + rules.delete_retention_ms
            attributes |= DELETE_HORIZON_BIT
        elif header.delete_horizon_ms is not None:
            new_base_ms = base_ms
        else:
            new_base_ms = times_ms[0]
        deltas_ms = None
        if new_base_ms != base_ms or header.is_log_append_time:
            deltas_ms = [each - new_base_ms for each in times_ms]
        newest_ms = max(times_ms)
        new = msgspec.structs.replace(
            header,
            attributes=attributes,
            base_timestamp_ms=new_base_ms,
            max_timestamp_ms=newest_ms,
        )
        compressed = compress(header.codec, section_of(section, kept, deltas_ms))
        content = with_header(new, compressed, len(kept))
        return Kept(content, header.last_offset, newest_ms)

    def _emptied(self, header: BatchHeader) -> Kept | None:
        """The header of a batch without records, if it is to stay."""
        is_end = header.end_offset == self._rules.upper_bound_offset
        if not is_end and not self._is_last_of_producer(header):
            return None
        new = msgspec.structs.replace(
            header,
            attributes=header.attributes & _EMPTY_BITS,
            base_timestamp_ms=_NO_TIMESTAMP_MS,
        )
        content = with_header(new, b"", 0)
        assert len(content) == HEADER_BYTES, f"{len(content)=}"
        return Kept(content, header.last_offset, header.max_timestamp_ms)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """True if the batch holds the last sequence, or the epoch, of an active producer."""
        last = self._rules.producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    # -- magic 0 and 1 --------------------------------------------------------------------------

    def _old(self, batch: LegacyBatch) -> Kept | None:
        """As of magic 2, but that there is no empty form: Kafka gives up where it would need one.

        Raises:
            CorruptBatchError: the messages inside a wrapper cannot be read.
        """
        self._transactions.is_aborted(batch.last_offset, None)
        records = batch.records()
        self._stats.messages_read += len(records)
        kept = [each for each in records if self._stays(each)]
        self._stats.messages_written += len(kept)
        if not kept:
            return None
        if len(kept) == len(records):
            return Kept(None, batch.last_offset, batch.timestamp_ms)
        assert kept[-1].offset <= batch.last_offset, f"INV-CL-1 {kept[-1].offset=}"
        newest_ms = max(each.timestamp_ms for each in kept)
        return Kept(encode_wrapper(batch, kept), kept[-1].offset, newest_ms)

    def _stays(self, record: LegacyRecord) -> bool:
        if record.offset > self._latest_offset:
            return True
        is_newest = self._is_newest(record.offset, record.key)
        return is_newest and (record.value is not None or self._rules.keeps_old_tombstones)


def plain_section(batch: Batch) -> bytes:
    """The records section, decompressed."""
    codec, section = batch.header.codec, batch.buffer[HEADER_BYTES:]
    return bytes(section) if codec is Codec.NONE else decompress(codec, section)
