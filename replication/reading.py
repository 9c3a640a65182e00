"""Reads of the log of a partition: records from an offset, and offsets by time.

apache/kafka: core/.../cluster/Partition.scala (readRecords, fetchOffsetForTimestamp)
"""

from typing import Final

import msgspec

from replication.leader.fetch_session import FetchPartition
from replication.leader.leadership import UNCHANGED, Changed
from replication.log_offsets import LogOffsetMetadata
from storage.logs.tail import HeldBatch
from storage.logs.unified_log import NO_TIMESTAMP_MS, FetchIsolation, UnifiedLog
from storage.segments.file_slice import FileSlice
from storage.segments.timestamp_lookup import Spend, TimestampAndOffset, spend_nothing
from wire.errors import ErrorCode
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
"""The log start, since no record lies in remote storage."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A read for a Fetch; the offsets are those before it."""

    start: LogOffsetMetadata
    """The fetch offset; without a place if the logs diverge."""
    records: FileSlice | HeldBatch | None = None
    """Whole batches, which the caller closes; None without any."""
    diverging_epoch: OffsetAndEpoch | None = None
    """The follower truncates by it: largest epoch up to its last one, and its end here."""
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    changed: Changed = UNCHANGED
    """By the fetch of a follower."""


def diverging_epoch(log: UnifiedLog, request: FetchPartition) -> OffsetAndEpoch | ErrorCode | None:
    """End of the last common epoch, if the log of the reader has others from there on (KIP-595).

    None if it has none, or does not say. An epoch that is not known here, or a fetch offset below
    the log start, is OFFSET_OUT_OF_RANGE.
    """
    last_fetched_epoch = request.last_fetched_epoch
    if last_fetched_epoch is None:
        return None
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch < 0 or request.fetch_offset < log.log_start_offset:
        return ErrorCode.offset_out_of_range
    if epoch < last_fetched_epoch or end_offset < request.fetch_offset:
        return OffsetAndEpoch(Offset(end_offset), LeaderEpoch(epoch))
    return None


def without_records(log: UnifiedLog, request: FetchPartition) -> Fetched | ErrorCode:
    """The offsets for a Fetch, before its records are read, and the diverging epoch if any."""
    diverging = diverging_epoch(log, request)
    if isinstance(diverging, ErrorCode):
        return diverging
    offset = request.fetch_offset
    if diverging is None and not log.log_start_offset <= offset <= log.end_offset:
        return ErrorCode.offset_out_of_range
    return Fetched(
        start=LogOffsetMetadata(offset),
        diverging_epoch=diverging,
        high_watermark=Offset(log.high_watermark),
        last_stable_offset=Offset(log.last_stable_offset),
        log_start_offset=Offset(log.log_start_offset),
        log_end_offset=Offset(log.end_offset),
    )


def with_records(
    log: UnifiedLog,
    fetched: Fetched,
    max_bytes: int,
    isolation: FetchIsolation,
    *,
    at_least_one: bool,
) -> Fetched:
    """Read the records from the fetch offset, and the place of that offset.

    Raises:
        CorruptLogError: a header on the way is damaged.
    """
    offset = fetched.start.offset
    records: FileSlice | HeldBatch | None = log.tail.batch_at(offset, log.bound(isolation))
    if records is None or (records.size_bytes > max_bytes and not at_least_one):
        records = log.slice(offset, max_bytes, isolation, at_least_one=at_least_one)
    base_offset, position = (
        log.place_of(offset) if records is None else (records.segment_base_offset, records.position)
    )
    start = LogOffsetMetadata(offset, (Offset(base_offset), position))
    return msgspec.structs.replace(fetched, start=start, records=records)


def offset_for_timestamp(
    log: UnifiedLog,
    timestamp_ms: int,
    isolation: FetchIsolation,
    *,
    leader_epoch: LeaderEpoch,
    epoch_start_offset: Offset | None,
    spend: Spend = spend_nothing,
) -> TimestampAndOffset | ErrorCode | None:
    """Offset by time, or of an end; None if no record that may be read is there.

    A new leader with a high watermark below its epoch start may know less than the leader before
    it told: consumers that ask for the end, or for what lies behind it or nowhere, get
    OFFSET_NOT_AVAILABLE (KIP-207).

    Args:
        log: of the partition.
        timestamp_ms: of a record, or one of the negative constants here; others have no answer,
            as they name remote storage.
        isolation: LOG_END for replicas.
        leader_epoch: as the partition has it.
        epoch_start_offset: log end when it became leader, None for a follower.
        spend: told what the log is read for.
    """
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return log.earliest()
    is_behind = (
        isolation is not FetchIsolation.LOG_END
        and epoch_start_offset is not None
        and epoch_start_offset > log.high_watermark
    )
    end_offset = log.bound(isolation)
    if timestamp_ms == LATEST:
        if is_behind:
            return ErrorCode.offset_not_available
        return TimestampAndOffset(NO_TIMESTAMP_MS, end_offset, leader_epoch)
    if timestamp_ms == MAX_TIMESTAMP:
        found = log.with_max_timestamp(spend)
    elif timestamp_ms >= 0:
        found = log.at_timestamp(timestamp_ms, spend)
    else:
        return None
    if found is not None and found.offset < end_offset:
        return found
    return ErrorCode.offset_not_available if is_behind else None
