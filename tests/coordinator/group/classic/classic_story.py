"""A shard with classic groups, clients that speak to it, and a log whose commits can be held."""

from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.group.classic.change import Change
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups, Known
from coordinator.group.classic.member import MemberProtocol
from coordinator.group.classic.replies import Reply
from coordinator.group.classic.requests import Join
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.classic.states import ClassicGroupState
from coordinator.records.group import GroupMetadataKey, GroupMetadataValue
from coordinator.records.schema import CoordinatorRecord
from network.clock import Now
from wire.api_keys import HEARTBEAT, LEAVE_GROUP, SYNC_GROUP
from wire.errors import ErrorCode
from wire.messages import codec

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
WALL_MS = 1_700_000_000_000
"""Wall clock when the monotonic one is 0."""
RANGE = (MemberProtocol("range", b"r"),)
BOTH = (MemberProtocol("range", b"r"), MemberProtocol("roundrobin", b"rr"))


class Asked:
    """A request: its answer when it is given."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.reply = Reply[Any](self.answers.append)

    @property
    def answer(self) -> Any:
        (answer,) = self.answers
        return answer

    @property
    def code(self) -> ErrorCode:
        return ErrorCode(self.answer.error_code)

    @property
    def is_parked(self) -> bool:
        return not self.answers


class Story:
    """One group on one shard."""

    def __init__(self, **settings: int) -> None:
        settings.setdefault("initial_rebalance_delay_ms", DELAY_MS)
        self.settings = ClassicSettings(**settings)
        self.groups = ClassicGroups(self.settings)
        self.image: dict[str, Known] = {}
        self.records: list[CoordinatorRecord] = []
        self.pending: list[tuple[Change, dict[str, Known]]] = []
        self.is_held = False
        self.now_ms = 0
        self.uuid_count = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.find(GROUP, self.known)
        assert group is not None
        return group

    def is_in(self, state: ClassicGroupState) -> bool:
        return self.group.state is state

    @property
    def known(self) -> Known:
        return self.image.get(GROUP)

    @property
    def values(self) -> list[GroupMetadataValue]:
        """Of all records that were appended, lost ones too."""
        return [
            record.value for record in self.records if isinstance(record.value, GroupMetadataValue)
        ]

    # Requests

    def join(self, member_id: str = "", **properties: Any) -> Asked:
        asked = Asked()
        request = msgspec.structs.replace(
            Join(
                group_id=GROUP,
                member_id=member_id,
                client_id="c",
                client_host="/127.0.0.1",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=RANGE,
            ),
            **properties,
        )
        self.uuid_count += 1
        uuid = f"u{self.uuid_count}"
        self.append(self.groups.join(request, self.known, uuid, self.now, asked.reply))
        return asked

    def sync(self, member_id: str, generation_id: int = 1, *names: str, **properties: Any) -> Asked:
        """A SyncGroup; `names` are members for whom the sender has assignments, as their ids."""
        asked = Asked()
        assignments = {name: name.encode() for name in names}
        request = self.sync_request(member_id, generation_id, assignments, **properties)
        self.append(self.groups.sync(request, self.known, asked.reply))
        return asked

    def sync_request(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, bytes],
        **properties: Any,
    ) -> Any:
        new = codec.newest(SYNC_GROUP, "request")
        properties.setdefault("group_instance_id", None)
        properties.setdefault("protocol_type", "consumer")
        properties.setdefault("protocol_name", None)
        return new.SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            assignments=tuple(
                new.SyncGroupRequestAssignment(member_id=name, assignment=assignment)
                for name, assignment in assignments.items()
            ),
            **properties,
        )

    def heartbeat(
        self, member_id: str, generation_id: int = 1, group_instance_id: str | None = None
    ) -> ErrorCode:
        request: Any = codec.newest(HEARTBEAT, "request").HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
        )
        return self.groups.heartbeat(request, self.known, self.now)

    def leave(self, *members: str | tuple[str, str]) -> list[ErrorCode]:
        """A LeaveGroup of member ids, or of pairs with instance ids; the code of each."""
        new = codec.newest(LEAVE_GROUP, "request")
        identities: tuple[Any, ...] = tuple(
            new.MemberIdentity(
                member_id=member if isinstance(member, str) else member[0],
                group_instance_id=None if isinstance(member, str) else member[1],
                reason=None,
            )
            for member in members
        )
        request: Any = new.LeaveGroupRequest(group_id=GROUP, members=identities)
        change, answer = self.groups.leave(request, self.known, self.now)
        self.append(change)
        assert [row.member_id for row in answer.members] == [row.member_id for row in identities]
        return [ErrorCode(row.error_code) for row in answer.members]

    # Time, the log

    def advance(self, ms: int) -> None:
        """Let time pass; deadlines come at their instants."""
        end_ms = self.now_ms + ms
        while (first_ms := self.groups.first_deadline_ms()) is not None and first_ms <= end_ms:
            self.now_ms = max(self.now_ms, first_ms)
            wait = self.groups.take_due(self.now_ms)
            assert wait is not None
            self.append(self.groups.expire(wait, self.known, self.now))
        self.now_ms = end_ms

    def append(self, change: Change) -> None:
        if not change.records:
            assert change.committed is None
            assert change.failed is None
            return
        self.pending.append((change, dict(self.image)))
        for record in change.records:
            self.records.append(record)
            assert isinstance(record.key, GroupMetadataKey)
            if record.value is None:
                del self.image[record.key.group]
            else:
                assert isinstance(record.value, GroupMetadataValue)
                self.image[record.key.group] = record.value
        if not self.is_held:
            self.commit()

    def commit(self) -> None:
        """Commit what was appended."""
        pending, self.pending = self.pending, []
        for change, _ in pending:
            if change.committed is not None:
                change.committed(self.now)

    def fail(self, code: ErrorCode = ErrorCode.request_timed_out) -> None:
        """Lose what was appended."""
        pending, self.pending = self.pending, []
        self.image = pending[0][1]
        for change, _ in pending:
            if change.failed is not None:
                change.failed(code, self.now)

    # Usual beginnings

    def new_member(self, **properties: Any) -> tuple[str, Asked]:
        """A dynamic member that was told its id and joins with it."""
        told = self.join(**properties)
        assert told.code is ErrorCode.member_id_required
        member_id = told.answer.member_id
        return member_id, self.join(member_id, **properties)

    def stable(self, *instances: str | None) -> list[str]:
        """A Stable group of generation 1 with a member for each instance, None for a dynamic one.

        Each has its own id for its assignment; the first leads.
        """
        asked = []
        for instance in instances:
            if instance is None:
                asked.append(self.new_member()[1])
            else:
                asked.append(self.join(group_instance_id=instance))
        while asked[0].is_parked:
            self.advance(DELAY_MS)
        members = [one.answer.member_id for one in asked]
        for member_id in reversed(members):
            assert self.sync(member_id, 1, *members).is_parked == (member_id != members[0])
        return members
