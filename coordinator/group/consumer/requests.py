"""ConsumerGroupHeartbeat as the coordinator takes it, and the checks that need no group.

(apache/kafka: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid)
"""

from typing import Final

import msgspec

from coordinator.group.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    PartitionsByTopic,
)
from coordinator.group.consumer.reconciliation import OwnedPartitions
from wire.errors import ApiError, ErrorCode

GENERATED_MEMBER_ID_VERSION: Final = 1
"""First version whose clients make their member ids (KIP-1082)."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """One request; None is what has not changed since the last one."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: OwnedPartitions | None = None
    client_id: str = ""
    client_host: str = ""
    """As Kafka writes it: `/` and the address."""
    api_version: int = GENERATED_MEMBER_ID_VERSION

    @property
    def is_leaving(self) -> bool:
        """True if the member leaves, for good or for a while."""
        return self.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH)

    @property
    def is_joining(self) -> bool:
        """True if the member joins, or joins again."""
        return self.member_epoch == JOIN_GROUP_MEMBER_EPOCH

    @property
    def is_full(self) -> bool:
        """True if it says all, as after an error: then the answer says all too."""
        return (
            self.rebalance_timeout_ms is not None
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.owned is not None
        )


class HeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Answer without an error."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: PartitionsByTopic | None = None
    """Partitions that the member may use; None if they have not changed."""


def heartbeat_error(request: Heartbeat, assignors: tuple[str, ...]) -> ApiError | None:
    """INVALID_REQUEST or UNSUPPORTED_ASSIGNOR of a request that no group would take."""
    needs_member_id = (
        request.api_version >= GENERATED_MEMBER_ID_VERSION
        or request.member_epoch > 0
        or request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH
    )
    checks = (
        (needs_member_id and _is_blank(request.member_id), "MemberId can't be empty."),
        (_is_blank(request.group_id), "GroupId can't be empty."),
        (_is_blank(request.instance_id), "InstanceId can't be empty."),
        (_is_blank(request.rack_id), "RackId can't be empty."),
        *_epoch_checks(request),
    )
    for is_wrong, message in checks:
        if is_wrong:
            return ApiError(ErrorCode.invalid_request, message)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        return ApiError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )
    return None


def _epoch_checks(request: Heartbeat) -> tuple[tuple[bool, str], ...]:
    """Checks of what the member epoch asks for."""
    if request.is_joining:
        return (
            (
                request.rebalance_timeout_ms is None,
                "RebalanceTimeoutMs must be provided in first request.",
            ),
            (
                request.owned is None or bool(request.owned),
                "TopicPartitions must be empty when (re-)joining.",
            ),
            (
                request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
                (
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                    "(re-)joining."
                ),
            ),
        )
    if request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return ((request.instance_id is None, "InstanceId can't be null."),)
    return ((request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH, "MemberEpoch is invalid."),)


def _is_blank(text: str | None) -> bool:
    """True for a text of spaces and control characters only, as Java's `trim` leaves none."""
    return text is not None and all(character <= " " for character in text)
