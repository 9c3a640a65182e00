"""A partition at a follower: what it appends, and where it truncates to.

apache/kafka: core/.../server/{ReplicaFetcherThread,AbstractFetcherThread}.scala
(processPartitionData, getOffsetTruncationState), Partition.scala
(appendRecordsToFollowerOrFutureReplica)
"""

import msgspec

from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.unified_log import UnifiedLog
from wire.errors import RemoteProtocolError
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch


class FetchedFromLeader(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a leader's Fetch response, without an error and without a diverging epoch."""

    records: memoryview
    high_watermark: Offset
    log_start_offset: Offset


class FollowerAppended(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an append: `stopped` says why later batches were not taken."""

    end_offset: Offset
    high_watermark_raised: bool
    stopped: str | None = None


def append_fetched(
    log: UnifiedLog, fetched: FetchedFromLeader, leader_epoch: LeaderEpoch, wall_ms: int
) -> FollowerAppended:
    """Append what a leader sent, and take its high watermark and log start.

    The high watermark is the leader's as far as the log reaches; it falls with that of a new
    leader which does not know its own yet, as in Kafka.

    Raises:
        UnexpectedOffsetError: the records begin below the end of the log; nothing was appended.
        ProducerStateError, CorruptBatchError, OutOfSpaceError: as `append_as_follower`.
    """
    appended = log.append_as_follower(fetched.records, leader_epoch, wall_ms)
    before = log.high_watermark
    log.set_high_watermark(fetched.high_watermark)
    log.raise_log_start_to(min(fetched.log_start_offset, log.high_watermark))
    assert log.end_offset == appended.end_offset, f"{log.end_offset=} {appended=}"
    return FollowerAppended(
        end_offset=Offset(appended.end_offset),
        high_watermark_raised=log.high_watermark > before,
        stopped=appended.stopped,
    )


def begins_anew_with(log: UnifiedLog, refused: UnexpectedOffsetError) -> bool:
    """True if a log begins anew with a batch below its end: it is empty, inside that batch.

    The leader's log start, where this log begins, is inside the batch.
    """
    is_empty = log.log_start_offset == log.end_offset
    return is_empty and refused.first_offset >= 0 and refused.last_offset >= log.end_offset


def truncation_offset(log: UnifiedLog, diverging: OffsetAndEpoch) -> Offset:
    """Offset to truncate to by a leader's diverging epoch (KIP-101, KIP-279).

    If the follower does not know that epoch, it truncates to the end of its own largest one below,
    and the next fetch decides again.

    Raises:
        RemoteProtocolError: the leader answered an epoch or an end that does not exist.
    """
    if diverging.epoch < 0 or diverging.offset < 0:
        raise RemoteProtocolError(f"no diverging epoch: {diverging}")
    epoch, end_offset = log.end_offset_for_epoch(diverging.epoch)
    if epoch < 0:  # it knows no epochs up to that
        end_offset = diverging.offset
    elif epoch == diverging.epoch:
        end_offset = min(end_offset, diverging.offset)
    return Offset(min(end_offset, log.end_offset))
