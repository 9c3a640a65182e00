"""The outcome of a decision, and the errors that coordinators answer.

apache/kafka: coordinator-common/.../runtime/CoordinatorResult.java,
CoordinatorOperationExceptionHelper.java
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from coordinator.records.schema import CoordinatorRecord
from storage.producers.verification import VerificationGuard
from wire.errors import ApiError, ErrorCode
from wire.types import Offset

R = TypeVar("R")
OnFailure = Callable[[ErrorCode], None]


class ProducerIdAndEpoch(msgspec.Struct, frozen=True):
    """The producer of records that belong to its transaction."""

    producer_id: int
    producer_epoch: int


class Applied(msgspec.Struct, frozen=True, gc=False):
    """Place of a record in the log: its offset, its time (ms), the producer of its transaction."""

    offset: Offset
    timestamp_ms: int
    producer_id: int | None = None


class Write(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """Records that take effect together, and the response once they are committed.

    Without records nothing is appended; the response waits for all that was pending. Those that
    are not atomic may need several batches, of which the last ones may be missing. `on_failure`
    is called with Kafka's code when the records are not appended, do not commit in time or were
    pending as the leadership ended, before the answer.
    """

    response: R
    records: tuple[CoordinatorRecord, ...] = ()
    producer: ProducerIdAndEpoch | None = None
    on_failure: OnFailure | None = None
    is_atomic: bool = True
    guard: VerificationGuard | None = None
    """Of the verification of the producer's transaction (KIP-890)."""

    def __post_init__(self) -> None:
        """Assert that records of a transaction are one batch."""
        assert self.is_atomic or self.producer is None, "a transaction writes atomically"


COORDINATOR_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}
"""Errors of a log by what clients of a coordinator are told; all others are told as they are."""


def coordinator_error(code: ErrorCode) -> ApiError:
    """The refusal for an error of the log."""
    return ApiError(COORDINATOR_ERRORS.get(code, code))
