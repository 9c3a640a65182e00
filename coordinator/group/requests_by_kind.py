"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, by the kind of the group.

A consumer group with members takes those of the classic protocol too; all others are classic.
(apache/kafka: GroupMetadataManager.classicGroup{Join,Sync,Heartbeat,Leave})
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator.group.classic.requests import Join
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.consumer.classic_requests import ClassicRequests

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

Answer = Callable[[Any], None]


class RequestsByKind:
    """The requests of one shard; answers are kio's newest bodies."""

    def __init__(self, classic: ClassicRoom, consumer: ClassicRequests) -> None:
        self._classic = classic
        self._consumer = consumer

    def join(self, request: Join, uuid: str, answer: Answer) -> None:
        """JoinGroup, answered once; `uuid` is random."""
        self._of(request.group_id).join(request, uuid, answer)

    def sync(self, request: "SyncGroupRequest", answer: Answer) -> None:
        """SyncGroup, answered once."""
        self._of(request.group_id).sync(request, answer)

    def heartbeat(self, request: "HeartbeatRequest", answer: Answer) -> None:
        """Heartbeat, answered once."""
        self._of(request.group_id).heartbeat(request, answer)

    def leave(self, request: "LeaveGroupRequest", answer: Answer) -> None:
        """LeaveGroup, answered once."""
        self._of(request.group_id).leave(request, answer)

    def _of(self, group_id: str) -> ClassicRoom | ClassicRequests:
        return self._consumer if self._consumer.takes(group_id) else self._classic
