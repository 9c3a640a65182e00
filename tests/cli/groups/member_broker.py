"""A broker in memory that takes members into groups at once: for tests of the consumer's side.

What others do is told beforehand: `others` are in every generation, `errors` are answered instead.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from tests.cli.groups.group_broker import GroupBroker, entity
from wire.api_table import SCHEMAS

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 11, 12, 13, 14, 68
INTERVAL_MS = 5_000


class MemberBroker(GroupBroker):
    """A broker with groups that our members join."""

    def __init__(self, **partitions: Any) -> None:
        super().__init__([], **partitions)
        self.answers |= MEMBER_ANSWERS
        self.versions |= {key: SCHEMAS[key].newest_version for key in MEMBER_ANSWERS}
        self.committers = set()
        self.generation = 0
        self.others: dict[str, bytes] = {}
        """Member -> its subscription."""
        self.assigned: dict[str, tuple[int, ...]] | None = None
        """By topic, to the member of the consumer protocol; None: everything, at its first beat."""
        self.left: list[Any] = []
        """Members that left, or their last epochs."""

    def asked_for(self, api_key: int) -> list[Any]:
        return [body for key, body in self.asked if key == api_key]


def _join(broker: MemberBroker, request: Any) -> Any:
    code = broker.error_of(JOIN_GROUP) or (0 if request.member_id else 79)
    if code:
        return entity(JOIN_GROUP, "JoinGroupResponse", error_code=ErrorCode(code), generation_id=-1,
                      member_id=request.member_id or "me")  # fmt: skip
    broker.generation += 1
    broker.committers = {(request.member_id, broker.generation)}
    metadata = {request.member_id: request.protocols[0].metadata, **broker.others}
    members = tuple(
        entity(JOIN_GROUP, "JoinGroupResponseMember", member_id=member, metadata=content)
        for member, content in metadata.items()
    )
    return entity(
        JOIN_GROUP, "JoinGroupResponse", generation_id=broker.generation, members=members,
        member_id=request.member_id, leader=request.member_id, protocol_type="consumer",
        protocol_name=request.protocols[0].name,
    )  # fmt: skip


def _sync(broker: MemberBroker, request: Any) -> Any:
    code = broker.error_of(SYNC_GROUP)
    assignment = {row.member_id: row.assignment for row in request.assignments}
    return entity(SYNC_GROUP, "SyncGroupResponse", error_code=ErrorCode(code),
                  assignment=b"" if code else assignment[request.member_id])  # fmt: skip


def _heartbeat(broker: MemberBroker, request: Any) -> Any:
    code = broker.error_of(HEARTBEAT)
    return entity(HEARTBEAT, "HeartbeatResponse", error_code=ErrorCode(code))


def _leave(broker: MemberBroker, request: Any) -> Any:
    broker.left += [member.member_id for member in request.members]
    return entity(LEAVE_GROUP, "LeaveGroupResponse")


def _beat(broker: MemberBroker, request: Any) -> Any:
    code = broker.error_of(CONSUMER_GROUP_HEARTBEAT)
    if code or request.member_epoch < 0:
        broker.left += [request.member_epoch] if request.member_epoch < 0 else []
        return entity(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeatResponse",
                      error_code=ErrorCode(code), error_message=None)  # fmt: skip
    assigned = broker.assigned
    if request.member_epoch == 0:
        broker.generation += 1
        assigned = assigned or {
            name: tuple(range(len(broker.topics[name].logs)))
            for name in request.subscribed_topic_names
        }
    broker.assigned = None
    epoch = broker.generation
    broker.committers = {(request.member_id, epoch)}
    rows = tuple(
        entity(CONSUMER_GROUP_HEARTBEAT, "TopicPartitions", topic_id=broker.topics[name].id,
               partitions=numbers)
        for name, numbers in (assigned or {}).items()
    )  # fmt: skip
    return entity(
        CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeatResponse", member_id=request.member_id,
        member_epoch=epoch, heartbeat_interval=timedelta(milliseconds=INTERVAL_MS),
        assignment=None if assigned is None
        else entity(CONSUMER_GROUP_HEARTBEAT, "Assignment", topic_partitions=rows),
    )  # fmt: skip


MEMBER_ANSWERS: dict[int, Callable[[Any, Any], Any]] = {
    JOIN_GROUP: _join,
    SYNC_GROUP: _sync,
    HEARTBEAT: _heartbeat,
    LEAVE_GROUP: _leave,
    CONSUMER_GROUP_HEARTBEAT: _beat,
}
