"""All classic groups of a shard: finds the group of a request, and loads, ends and forgets groups.

A group is one that the image has: a record of it, or offsets that were committed to it. Its soft
state is made of the record at its first use, or at its first record, and goes when the image has
the group no more: its tombstone was decided, or the append of its first record failed.

apache/kafka: GroupMetadataManager.java (classicGroupJoin, classicGroupSync, classicGroupHeartbeat,
classicGroupLeave, onLoaded, onUnloaded), GroupCoordinatorService.java
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coordinator.group.classic import responses
from coordinator.group.classic.change import NO_CHANGE, Change, append_error
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.heartbeats import heartbeat
from coordinator.group.classic.joining import Joining
from coordinator.group.classic.leaving import Leaving
from coordinator.group.classic.rebalance import Rebalance, Wait
from coordinator.group.classic.record import loaded_group, new_group_record
from coordinator.group.classic.replies import Reply
from coordinator.group.classic.requests import Join
from coordinator.group.classic.settings import TEXT_BYTES_MAX, ClassicSettings
from coordinator.group.classic.states import DEAD, PREPARING_REBALANCE, STABLE
from coordinator.group.classic.syncing import Syncing
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.tombstones import group_tombstones
from coordinator.group.counts import GroupCounts
from coordinator.group.deadlines import Deadlines
from coordinator.group.image import Group, SimpleGroup
from coordinator.records.group import GroupMetadataValue
from coordinator.records.schema import CoordinatorRecord
from network.clock import Now
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest


Known = Group | None
"""Entry of a group in an image; None: there is none."""


class ClassicGroups:
    """Soft state of the classic groups of one shard.

    Each request is given what the image has of its group. A change that is returned is to be
    appended at once, and its fate told.
    """

    def __init__(self, settings: ClassicSettings, counts: GroupCounts | None = None) -> None:
        self._settings = settings
        self._groups: dict[str, ClassicGroup] = {}
        self._deadlines: Deadlines[Wait] = Deadlines()
        counts = GroupCounts() if counts is None else counts
        self._rebalance = Rebalance(settings, self._deadlines, counts)
        self._joining = Joining(settings, self._rebalance)
        self._syncing = Syncing(self._rebalance)
        self._leaving = Leaving(self._rebalance)

    def find(self, group_id: str, known: Known) -> ClassicGroup | None:
        """The group of the latest image; None if it has no classic one."""
        group = self.view(group_id, known)
        if group is None:
            self.forget(group_id)
        else:
            self._groups[group_id] = group
        return group

    def view(self, group_id: str, known: Known) -> ClassicGroup | None:
        """The group of any image, to be read only; None if it has no classic one."""
        match known:
            case GroupMetadataValue():
                return self._groups.get(group_id) or loaded_group(group_id, known)
            case SimpleGroup():
                return self._groups.get(group_id) or ClassicGroup(group_id, timestamp_ms=None)
            case _:
                return None

    # Requests

    def join(self, request: Join, known: Known, uuid: str, now: Now, reply: Reply[Any]) -> Change:
        """JoinGroup; makes the group of a client that has no member id yet.

        It takes the place of a consumer group without members; one with members is not joined here:
        INCONSISTENT_GROUP_PROTOCOL.
        """
        group = self.find(request.group_id, known)
        if group is not None:
            return self._joining.join(group, request, uuid, now, reply)
        is_left = isinstance(known, ConsumerGroup) and not known.members
        if known is not None and not is_left:
            reply(responses.join_error(ErrorCode.inconsistent_group_protocol))
            return NO_CHANGE
        if request.member_id != responses.NO_MEMBER_ID:
            reply(responses.join_error(ErrorCode.unknown_member_id, request.member_id))
            return NO_CHANGE
        before: tuple[CoordinatorRecord, ...] = ()
        if isinstance(known, ConsumerGroup):
            before = group_tombstones(known)
        group = ClassicGroup(request.group_id, timestamp_ms=now.wall_ms)
        self._groups[request.group_id] = group
        change = self._joining.join(group, request, uuid, now, reply)
        assert change is NO_CHANGE, "the first rebalance of a group waits"

        def failed(code: ErrorCode, _now: Now) -> None:
            if self._groups.get(group.group_id) is group:
                self._end(group, append_error(code))

        record = new_group_record(group.group_id, now.wall_ms)
        return Change(records=(*before, record), failed=failed)

    def sync(self, request: "SyncGroupRequest", known: Known, reply: Reply[Any]) -> Change:
        """SyncGroup."""
        group = self.find(request.group_id, known)
        if group is None:
            reply(responses.sync_error(ErrorCode.unknown_member_id))
            return NO_CHANGE
        return self._syncing.sync(group, request, reply)

    def heartbeat(self, request: "HeartbeatRequest", known: Known, now: Now) -> ErrorCode:
        """Heartbeat."""
        group = self.find(request.group_id, known)
        if group is None:
            return ErrorCode.unknown_member_id
        return heartbeat(group, request, self._rebalance, now)

    def leave(self, request: "LeaveGroupRequest", known: Known, now: Now) -> tuple[Change, Any]:
        """LeaveGroup: the change, and the answer, which waits for its records."""
        group = self.find(request.group_id, known)
        if group is not None:
            return self._leaving.leave(group, request, now)
        code = ErrorCode.unknown_member_id
        return NO_CHANGE, responses.left(
            tuple((member.member_id, member.group_instance_id, code) for member in request.members)
        )

    # The shard

    def load(self, groups: Iterable[tuple[str, Group]], now: Now) -> None:
        """Take over groups: each member has a whole session from now.

        A group above `group.max.size`, which may have been lowered, rebalances.
        """
        for group_id, value in groups:
            if not isinstance(value, GroupMetadataValue) or not value.members:
                continue
            group = self.find(group_id, value)
            assert group is not None
            for member_id in group.members:
                self._rebalance.await_heartbeat(group, member_id, now)
            if len(group.members) > self._settings.group_max_size:
                change = self._rebalance.prepare(group, now)
                assert change is NO_CHANGE, "its members have not joined"

    def resign(self) -> None:
        """This broker is no longer the coordinator: all who wait are told."""
        for group in list(self._groups.values()):
            self._end(group, ErrorCode.not_coordinator)

    def forget(self, group_id: str) -> None:
        """A group is deleted: it was Empty; ids that were handed out are unknown from now on."""
        group = self._groups.get(group_id)
        if group is not None:
            self._end(group, ErrorCode.unknown_member_id)

    def upgrade(self, group_id: str) -> None:
        """A group is a consumer group from now on: who waits is to join again."""
        group = self._groups.get(group_id)
        if group is not None:
            self._end(group, ErrorCode.rebalance_in_progress)

    def adopt(self, group_id: str, known: Known, now: Now, *, rebalances: bool) -> None:
        """Take over the members of a consumer group, each with a whole session."""
        self.forget(group_id)
        group = self.find(group_id, known)
        assert group is not None, f"{group_id=} is no classic group"
        for member_id in group.members:
            self._rebalance.await_heartbeat(group, member_id, now)
        if rebalances:
            change = self._rebalance.prepare(group, now)
            assert change is NO_CHANGE, "its members have not joined"

    def first_deadline_ms(self) -> int | None:
        """Monotonic time of the first deadline of any group; None without any."""
        return self._deadlines.first_ms()

    def take_due(self, now_ms: int) -> Wait | None:
        """A deadline that has come, for `expire`; None when there is no more."""
        return self._deadlines.take_due(now_ms)

    def defer(self, wait: Wait, at_ms: int) -> None:
        """Let a deadline that was taken come again."""
        self._deadlines.set(wait, at_ms)

    def keep_session(self, group: ClassicGroup, member_id: str, now: Now) -> None:
        """An offset commit of a member is as good as its heartbeat."""
        if group.state in (STABLE, PREPARING_REBALANCE):
            self._rebalance.await_heartbeat(group, member_id, now)

    def expire(self, wait: Wait, known: Known, now: Now) -> Change:
        """Do what a deadline that has come asks for."""
        group = self.find(wait.group_id, known)
        return NO_CHANGE if group is None else self._rebalance.expire(group, wait, now)

    def _end(self, group: ClassicGroup, code: ErrorCode) -> None:
        self._rebalance.forget(group)
        group.answer_all(
            lambda member_id: responses.join_error(code, member_id),
            lambda: responses.sync_error(code),
        )
        group.state = DEAD
        del self._groups[group.group_id]


def refusal(settings: ClassicSettings, request: Join) -> ErrorCode | None:
    """Error of a JoinGroup that any broker refuses, None of others.

    INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT; UNKNOWN_SERVER_ERROR of a text that no record can
    hold, with which Kafka fails later.
    """
    if not request.group_id:
        return ErrorCode.invalid_group_id
    timeout_ms = request.session_timeout_ms
    if not settings.session_timeout_ms_min <= timeout_ms <= settings.session_timeout_ms_max:
        return ErrorCode.invalid_session_timeout
    texts = (
        request.group_id,
        request.client_id,
        request.group_instance_id or "",
        request.protocol_type,
        *(protocol.name for protocol in request.protocols),
    )
    is_too_long = any(len(text.encode()) > TEXT_BYTES_MAX for text in texts)
    return ErrorCode.unknown_server_error if is_too_long else None
