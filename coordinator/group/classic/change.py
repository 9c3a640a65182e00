"""The outcome of a step of a group: records, and what follows when their fate is known."""

from collections.abc import Callable
from typing import Final

import msgspec

from coordinator.records.schema import CoordinatorRecord
from network.clock import Now
from wire.errors import ErrorCode


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Records to be appended as one unit; without any, nothing waits.

    Soft state is already what it will be. `committed` ends what waits for the records, at that
    time; `failed` takes the change back, with the error that the append ended with.
    """

    records: tuple[CoordinatorRecord, ...] = ()
    committed: Callable[[Now], None] | None = None
    failed: Callable[[ErrorCode, Now], None] | None = None


NO_CHANGE: Final = Change()


def append_error(code: ErrorCode) -> ErrorCode:
    """Error of a JoinGroup or SyncGroup whose record could not be appended.

    apache/kafka: GroupMetadataManager.appendGroupMetadataErrorToResponseError
    """
    return _RESPONSE_ERRORS.get(code, code)


_RESPONSE_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}
