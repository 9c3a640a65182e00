"""A member of a classic group: JoinGroup 9, SyncGroup 5, Heartbeat 4."""

import struct
from typing import Any, Final

from benchmarks.coordinators.session import (
    RefusedError,
    Session,
    answered,
    framed,
    milliseconds,
    schema,
    until_served,
)
from wire.api_keys import HEARTBEAT, JOIN_GROUP, SYNC_GROUP

SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000
PROTOCOL: Final = "range"
MEMBER_ID_REQUIRED: Final = 79


def subscription(topics: tuple[str, ...], user_data: bytes = b"") -> bytes:
    """A subscription as consumers send it (ConsumerProtocolSubscription 0)."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    head = struct.pack(">hi", 0, len(topics))
    return head + names + struct.pack(">i", len(user_data)) + user_data


def assignment(topic: str, partition: int) -> bytes:
    """One partition as the leader gives it away (ConsumerProtocolAssignment 0)."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    return struct.pack(">hi", 0, 1) + name + struct.pack(">iii", 1, partition, -1)


class ClassicMember:
    """One member on a connection of its own."""

    def __init__(self, session: Session, group_id: str, topic: str) -> None:
        self.session = session
        self.group_id = group_id
        self.topic = topic
        self.member_id = ""
        self.generation = -1

    async def enter(self, metadata: bytes) -> Any:
        """Join as one that has no id yet; returns the answer, once all have joined."""
        answer = await until_served(
            self.session, JOIN_GROUP, self._join(metadata), lambda found: _served(found.error_code)
        )
        if answer.error_code.value == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self.join(metadata)
        return self._joined(answer)

    async def join(self, metadata: bytes) -> Any:
        """Join with what is subscribed to; returns the answer, once all have joined."""
        return self._joined(await self.session.ask(JOIN_GROUP, self._join(metadata)))

    def join_frame(self, metadata: bytes) -> bytes:
        """The request of `join`, encoded before it is measured."""
        return framed(JOIN_GROUP, self._join(metadata))

    async def join_and_sync(self, join_frame: bytes) -> None:
        """A whole rebalance of one member; the leader gives each one partition."""
        found = self._joined(answered(JOIN_GROUP, await self.session.ask_raw(join_frame)))
        await self.sync([member.member_id for member in found.members])

    async def sync(self, member_ids: list[str]) -> None:
        """Take a partition, as the leader, of whom there are ids, has given it away."""
        new = schema(SYNC_GROUP)
        request = new.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=tuple(
                new.SyncGroupRequestAssignment(
                    member_id=member_id, assignment=assignment(self.topic, number)
                )
                for number, member_id in enumerate(member_ids)
            ),
        )
        answer = await self.session.ask(SYNC_GROUP, request)
        if answer.error_code.value:
            raise RefusedError(f"SyncGroup: {answer.error_code.name}")
        assert answer.assignment, f"{self.member_id} has no partition"

    def heartbeat_frame(self) -> bytes:
        """A heartbeat of this generation."""
        return framed(
            HEARTBEAT,
            schema(HEARTBEAT).HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
            ),
        )

    def _join(self, metadata: bytes) -> Any:
        new = schema(JOIN_GROUP)
        return new.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout=milliseconds(SESSION_MS),
            rebalance_timeout=milliseconds(REBALANCE_MS),
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(new.JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata),),
            reason=None,
        )

    def _joined(self, answer: Any) -> Any:
        if answer.error_code.value:
            raise RefusedError(f"JoinGroup: {answer.error_code.name}")
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer


class _Served:
    """An error code that is an answer."""

    value = 0
    name = "NONE"


def _served(code: Any) -> Any:
    return _Served if code.value == MEMBER_ID_REQUIRED else code
