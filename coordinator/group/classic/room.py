"""Classic groups of one shard: requests and deadlines become writes of it.

A JoinGroup or SyncGroup is answered when its group goes on, which may be before its record is
committed (a new id) or long after (a parked one). Heartbeat and LeaveGroup are answered when what
they saw is committed.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coordinator.group.classic import responses, views
from coordinator.group.classic.change import Change
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.groups import ClassicGroups, Known
from coordinator.group.classic.rebalance import Wait
from coordinator.group.classic.replies import Reply
from coordinator.group.classic.requests import Join
from coordinator.group.classic.rules import ClassicRules
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.classic.states import EMPTY, ClassicGroupState
from coordinator.group.counts import GroupCounts
from coordinator.group.image import GroupsImage
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import Write
from network.clock import Clock, Now
from wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

EXPIRED_PER_TICK: Final = 20
"""Deadlines that come in one turn; one takes some 20 us, and more for each member that is told."""
RETRY_MS: Final = 500
"""Time until a deadline comes again whose write the shard refused.

(apache/kafka: CoordinatorRuntime.CoordinatorTimerImpl)
"""

OnCommitted = Callable[[Now], None] | None


class ClassicRoom:
    """A room of a `GroupMachine`.

    Args:
        clock: of the broker.
        settings: by Kafka's configs.
        counts: raised here; None for counts of its own.
    """

    def __init__(
        self, clock: Clock, settings: ClassicSettings, counts: GroupCounts | None = None
    ) -> None:
        self._clock = clock
        self._groups = ClassicGroups(settings, counts)
        self._shard: Shard[GroupsImage] | None = None
        self.rules = ClassicRules(self._groups, clock)
        """For decisions about offsets."""

    # The shard

    def activated(self, shard: Shard[GroupsImage]) -> None:
        """Give every member of the loaded groups a whole session."""
        self._shard = shard
        groups = shard.image.groups
        self._groups.load(((each, groups[each]) for each in sorted(groups)), self._now())

    def resigned(self) -> None:
        """Answer all who wait."""
        self._shard = None
        self._groups.resign()

    def next_ms(self) -> int | None:
        """Instant of the first deadline of a group, None without any."""
        return self._groups.first_deadline_ms()

    def tick(self) -> None:
        """Do what some deadlines that have come ask for."""
        for _ in range(EXPIRED_PER_TICK):
            wait = self._groups.take_due(self._clock.now_ms)
            if wait is None:
                return
            self._expire(wait)

    # Requests

    def join(self, request: Join, uuid: str, answer: Callable[[Any], None]) -> None:
        """JoinGroup, answered once; `uuid` is random."""
        reply = Reply[Any](answer)
        self._write(
            request.group_id,
            lambda known: self._groups.join(request, known, uuid, self._now(), reply),
            lambda code: reply(responses.join_error(code)),
        )

    def sync(self, request: "SyncGroupRequest", answer: Callable[[Any], None]) -> None:
        """SyncGroup, answered once."""
        reply = Reply[Any](answer)
        self._write(
            request.group_id,
            lambda known: self._groups.sync(request, known, reply),
            lambda code: reply(responses.sync_error(code)),
        )

    def heartbeat(self, request: "HeartbeatRequest", answer: Callable[[Any], None]) -> None:
        """Heartbeat, answered once."""

        def decide(image: GroupsImage) -> Write[ErrorCode]:
            known = image.groups.get(request.group_id)
            return Write(response=self._groups.heartbeat(request, known, self._now()))

        self._active().write(decide, lambda found: answer(responses.heartbeat(_code_of(found))))

    def leave(self, request: "LeaveGroupRequest", answer: Callable[[Any], None]) -> None:
        """LeaveGroup, answered once."""

        def decide(image: GroupsImage) -> Write[Any]:
            known = image.groups.get(request.group_id)
            change, response = self._groups.leave(request, known, self._now())
            assert change.committed is None, "nobody waits for a group without members"
            assert change.failed is None, "nor is it taken back"
            return Write(response=response, records=change.records)

        def settle(found: Any) -> None:
            refused = isinstance(found, ApiError)
            answer(responses.leave_error(found.code) if refused else found)

        self._active().write(decide, settle)

    # Conversions

    def group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of the latest image, to be read only."""
        return self._groups.find(group_id, self._active().image.groups.get(group_id))

    def upgraded(self, group_id: str) -> None:
        """Let all who wait join again, and forget the group: it is a consumer group."""
        self._groups.upgrade(group_id)

    def downgraded(self, group_id: str, *, rebalances: bool) -> None:
        """Take over a group of the latest image, and begin a rebalance if it is to."""
        known = self._active().image.groups.get(group_id)
        self._groups.adopt(group_id, known, self._now(), rebalances=rebalances)

    # What others see

    def is_empty(self, group_id: str) -> bool:
        """True if the group of the latest image has no members, and nobody joins it."""
        group = self.group(group_id)
        return group is None or group.state is EMPTY

    def state(self, group_id: str, known: Known) -> ClassicGroupState | None:
        """State of a group that an image has; None if it is no classic one."""
        group = self._groups.view(group_id, known)
        return None if group is None else group.state

    def described(self, group_id: str) -> Any:
        """A committed group for DescribeGroups; None if there is no classic one."""
        group = self._committed(group_id)
        return None if group is None else views.described(group)

    def listed(self, group_id: str) -> Any:
        """A committed group for ListGroups; None if there is no classic one."""
        group = self._committed(group_id)
        return None if group is None else views.listed(group)

    # Inside

    def _committed(self, group_id: str) -> ClassicGroup | None:
        return self._groups.view(group_id, self._active().committed.groups.get(group_id))

    def _expire(self, wait: Wait) -> None:
        is_decided = False

        def decide(known: Any) -> Change:
            nonlocal is_decided
            is_decided = True
            return self._groups.expire(wait, known, self._now())

        self._write(wait.group_id, decide, _ignore)
        if not is_decided:
            self._groups.defer(wait, self._clock.now_ms + RETRY_MS)

    def _write(
        self,
        group_id: str,
        decide: Callable[[Any], Change],
        refused: Callable[[ErrorCode], None],
    ) -> None:
        def write(image: GroupsImage) -> Write[OnCommitted]:
            change = decide(image.groups.get(group_id))
            return Write(
                response=change.committed,
                records=change.records,
                on_failure=None if change.failed is None else partial(self._fail, change.failed),
            )

        def settle(found: OnCommitted | ApiError) -> None:
            if isinstance(found, ApiError):
                refused(found.code)
            elif found is not None:
                found(self._now())

        self._active().write(write, settle)

    def _fail(self, failed: Callable[[ErrorCode, Now], None], code: ErrorCode) -> None:
        failed(code, self._now())

    def _active(self) -> Shard[GroupsImage]:
        assert self._shard is not None, "only an active shard takes requests"
        return self._shard

    def _now(self) -> Now:
        return Now(self._clock.now_ms, self._clock.wall_ms)


def _code_of(found: ErrorCode | ApiError) -> ErrorCode:
    return found.code if isinstance(found, ApiError) else found


def _ignore(_code: ErrorCode) -> None:
    """A deadline has nobody to answer."""
