"""Deadlines of members: of sessions, of revocations, of waits for JoinGroup and SyncGroup.

A member whose deadline comes is removed. The last two are of members of the classic protocol, which
are told to join again, or have joined and not yet asked for their assignment.
(apache/kafka: GroupMetadataManager.scheduleConsumerGroup{Session,Rebalance,Join,Sync}Timeout)
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from coordinator.group.consumer.heartbeat import revocation_of
from coordinator.group.consumer.member import Member
from coordinator.group.deadlines import Deadlines
from network.clock import Clock

RETRY_MS: Final = 500
"""Time until a removal is tried again whose records could not be appended.

(apache/kafka: CoordinatorRuntime.CoordinatorTimerImpl)
"""

MemberKey = tuple[str, str]
"""Group id and member id."""


class Wait(Enum):
    """Kinds of deadlines of a member."""

    SESSION = "session"
    REVOCATION = "revocation"
    JOIN = "join"
    SYNC = "sync"


class Due(msgspec.Struct, frozen=True):
    """A deadline that has come; `epoch`: only if the member is still in it."""

    key: MemberKey
    wait: Wait
    epoch: int | None


class MemberDeadlines:
    """Deadlines of all members of a shard, by the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_wait: dict[Wait, Deadlines[MemberKey]] = {wait: Deadlines() for wait in Wait}
        self._revocation_epochs: dict[MemberKey, int] = {}

    def set(self, key: MemberKey, wait: Wait, timeout_ms: int) -> None:
        """Begin a wait, or begin it anew."""
        assert wait is not Wait.REVOCATION, "it has an epoch: watch_revocation"
        self._by_wait[wait].set(key, self._clock.now_ms + timeout_ms)

    def set_if_absent(self, key: MemberKey, wait: Wait, timeout_ms: int) -> None:
        """Begin a wait, if it has not begun."""
        if self._by_wait[wait].at_ms(key) is None:
            self.set(key, wait, timeout_ms)

    def end(self, key: MemberKey, wait: Wait) -> None:
        """End a wait."""
        self._by_wait[wait].cancel(key)

    def watch_revocation(self, group_id: str, member: Member) -> None:
        """Give a member that has to revoke partitions its time for it; end that of others."""
        key = (group_id, member.member_id)
        revocation = revocation_of(member)
        if revocation is None:
            self.end(key, Wait.REVOCATION)
            self._revocation_epochs.pop(key, None)
        else:
            due_ms = self._clock.now_ms + revocation.timeout_ms
            self._by_wait[Wait.REVOCATION].set(key, due_ms)
            self._revocation_epochs[key] = revocation.member_epoch

    def cancel(self, group_id: str, member_ids: Iterable[str]) -> None:
        """End all waits of members."""
        for member_id in member_ids:
            key = (group_id, member_id)
            for deadlines in self._by_wait.values():
                deadlines.cancel(key)
            self._revocation_epochs.pop(key, None)

    def clear(self) -> None:
        """End all waits of all members."""
        self._by_wait = {wait: Deadlines() for wait in Wait}
        self._revocation_epochs.clear()

    def next_ms(self) -> int | None:
        """The first deadline, None without any."""
        first_ms: int | None = None
        for deadlines in self._by_wait.values():
            due_ms = deadlines.first_ms()
            if due_ms is not None and (first_ms is None or due_ms < first_ms):
                first_ms = due_ms
        return first_ms

    def take_due(self) -> Due | None:
        """Remove and return a deadline that has come, None without one."""
        for wait, deadlines in self._by_wait.items():
            key = deadlines.take_due(self._clock.now_ms)
            if key is not None:
                is_revocation = wait is Wait.REVOCATION
                epoch = self._revocation_epochs.pop(key) if is_revocation else None
                return Due(key, wait, epoch)
        return None

    def retry(self, due: Due) -> None:
        """Let a deadline come again soon."""
        self._by_wait[due.wait].set(due.key, self._clock.now_ms + RETRY_MS)
        if due.epoch is not None:
            self._revocation_epochs[due.key] = due.epoch
