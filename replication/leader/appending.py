"""Appends of produced batches at their leaders, with the error that each is answered with.

apache/kafka: core/.../server/ReplicaManager.scala (appendToLocalLog)
"""

from typing import Final

import msgspec

from network.clock import Clock
from replication.leader.leadership import Changed
from replication.partition import Partition
from storage.errors import FsyncError, OutOfSpaceError
from storage.logs.log_validator import Checked, RecordError, RejectedError
from storage.producers.append_source import AppendSource
from storage.producers.producer_state import ProducerStateError
from wire.batches.batch import Batch
from wire.errors import CorruptBatchError, ErrorCode

DISK_ERRORS: Final = (OSError, OutOfSpaceError, FsyncError)
"""Errors of a log directory, which is offline from then on."""
WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.kafka_storage_error,
    }
)
"""Errors beside which Kafka does not answer the log start offset."""


class AppendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a Produce at a partition; -1 is none."""

    code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    end_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    message: str | None = None


class AppendStep(msgspec.Struct, frozen=True):
    """An append with what it did to the partition."""

    result: AppendResult
    changed: Changed | None = None
    """None if nothing was appended."""
    failure: Exception | None = None
    """Of `DISK_ERRORS`: the log directory has failed."""


def append_batch(
    partition: Partition | ErrorCode,
    batch: Batch | Checked,
    required_acks: int,
    clock: Clock,
    source: AppendSource,
) -> AppendStep:
    """Append a batch as leader.

    Args:
        partition: or why there is none here.
        batch: as `Partition.append_as_leader` takes it.
        required_acks: of the request.
        clock: of the step.
        source: of the batch.
    """
    if isinstance(partition, ErrorCode):
        return AppendStep(AppendResult(code=partition))
    try:
        appended = partition.append_as_leader(
            batch,
            required_acks=required_acks,
            wall_ms=clock.wall_ms,
            now_ms=clock.now_ms,
            source=source,
        )
    except (RejectedError, ProducerStateError, CorruptBatchError, *DISK_ERRORS) as error:
        return _failed(partition, error)
    if isinstance(appended, ErrorCode):
        return AppendStep(_refused(partition, appended))
    append = appended.append
    result = AppendResult(
        base_offset=append.base_offset,
        end_offset=append.end_offset,
        append_time_ms=append.append_time_ms,
        log_start_offset=append.log_start_offset,
    )
    return AppendStep(result, appended.changed)


def _failed(partition: Partition, error: Exception) -> AppendStep:
    match error:
        case RejectedError():
            refused = _refused(partition, error.code)
            return AppendStep(
                msgspec.structs.replace(
                    refused, record_errors=error.record_errors, message=error.message
                )
            )
        case ProducerStateError():
            return AppendStep(_refused(partition, error.code))
        case CorruptBatchError():
            return AppendStep(_refused(partition, ErrorCode.corrupt_message))
        case _:
            return AppendStep(_refused(partition, ErrorCode.kafka_storage_error), failure=error)


def _refused(partition: Partition, code: ErrorCode) -> AppendResult:
    if code in WITHOUT_LOG_START:
        return AppendResult(code=code)
    assert partition.log is not None, f"{code=} of a leader, which has a log"
    return AppendResult(code=code, log_start_offset=partition.log.log_start_offset)
