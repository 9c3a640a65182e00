"""Rebalance of a classic group: from the first change of its members to the next generation.

    Empty, first member             wait `group.initial.rebalance.delay.ms`, longer while more come
    any change of members           until all rejoined, at most the longest rebalance timeout
    all joined                      joins are answered, the leader's with everybody's metadata
    the leader's assignment         (`syncing`) recorded, then syncs are answered
    no sync within the rebalance timeout: the member is removed, the group rebalances

A member whose session ends is removed, unless it waits for an answer: its client need not send
heartbeats then.

apache/kafka: GroupMetadataManager.java (prepareRebalance, completeClassicGroupJoin,
tryCompleteInitialRebalanceElseSchedule, expireClassicGroupMemberHeartbeat, expirePendingSync)
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from coordinator.group.classic import responses
from coordinator.group.classic.change import NO_CHANGE, Change
from coordinator.group.classic.group import ClassicGroup, InitialDelay
from coordinator.group.classic.member import NO_ASSIGNMENT
from coordinator.group.classic.record import group_record
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    can_rebalance,
)
from coordinator.group.counts import GroupCounts
from coordinator.group.deadlines import Deadlines
from network.clock import Now
from wire.errors import ErrorCode

JOIN: Final = "join"
"""End of the wait for members to join."""
SYNC: Final = "sync"
"""End of the wait for members to send SyncGroup."""
SESSION: Final = "session"
"""End of the session of a member, or of an id that was handed out."""


class Wait(NamedTuple):
    """Key of a deadline; `member_id` for sessions."""

    kind: str
    group_id: str
    member_id: str = ""


class Rebalance:
    """The steps of a rebalance, for all groups of a shard.

    Args:
        settings: by Kafka's configs.
        deadlines: of all groups.
        counts: raised here.
    """

    def __init__(
        self, settings: ClassicSettings, deadlines: Deadlines[Wait], counts: GroupCounts
    ) -> None:
        self._settings = settings
        self._counts = counts
        self._deadlines = deadlines

    # Changes of members

    def prepare_or_complete(self, group: ClassicGroup, now: Now) -> Change:
        """Begin a rebalance; if one runs, end its join phase if all have joined.

        The first rebalance of a group ends by its delay only.
        """
        if can_rebalance(group.state):
            return self.prepare(group, now)
        if group.previous_state is not EMPTY:
            return self.complete_if_all_joined(group, now)
        return NO_CHANGE

    def prepare(self, group: ClassicGroup, now: Now) -> Change:
        """Begin a rebalance: who waits for an assignment is told, all are to join."""
        if group.state is COMPLETING_REBALANCE:
            self.abandon_assignment(group, ErrorCode.rebalance_in_progress, now)
        group.pending_syncs.clear()
        self._deadlines.cancel(Wait(SYNC, group.group_id))
        if group.state is EMPTY:
            delay_ms = self._settings.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.initial_delay = InitialDelay(delay_ms, remaining_ms)
            self._await_joins(group, delay_ms, now)
            group.transition(PREPARING_REBALANCE, now.wall_ms)
            return NO_CHANGE
        group.transition(PREPARING_REBALANCE, now.wall_ms)
        if group.has_all_members_joined:
            return self._complete(group, now)
        self._await_joins(group, group.rebalance_timeout_ms, now)
        return NO_CHANGE

    def complete_if_all_joined(self, group: ClassicGroup, now: Now) -> Change:
        """End the join phase if nobody is missing."""
        if group.state is PREPARING_REBALANCE and group.has_all_members_joined:
            return self._complete(group, now)
        return NO_CHANGE

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member, or an id that was handed out; what it waits for is UNKNOWN_MEMBER_ID.

        Kafka leaves the parked SyncGroup of a member that an admin client removes unanswered.
        """
        self.end_session(group, member_id)
        group.answer_join(member_id, responses.join_error(ErrorCode.unknown_member_id))
        group.answer_sync(member_id, responses.sync_error(ErrorCode.unknown_member_id))
        group.remove(member_id)

    # Deadlines

    def await_heartbeat(
        self, group: ClassicGroup, member_id: str, now: Now, timeout_ms: int | None = None
    ) -> None:
        """Begin a session of a member, or of this length."""
        if timeout_ms is None:
            timeout_ms = group.members[member_id].session_timeout_ms
        wait = Wait(SESSION, group.group_id, member_id)
        self._deadlines.set(wait, now.monotonic_ms + timeout_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """End the session of a member id that is given up."""
        self._deadlines.cancel(Wait(SESSION, group.group_id, member_id))

    def expire(self, group: ClassicGroup, wait: Wait, now: Now) -> Change:
        """Do what a deadline of a group asks for."""
        if group.state is DEAD:
            return NO_CHANGE
        if wait.kind is JOIN:
            return self._end_join_wait(group, now)
        if wait.kind is SYNC:
            return self._end_sync_wait(group, now)
        return self._end_session(group, wait.member_id, now)

    def forget(self, group: ClassicGroup) -> None:
        """Cancel all deadlines of a group."""
        self._deadlines.cancel(Wait(JOIN, group.group_id))
        self._deadlines.cancel(Wait(SYNC, group.group_id))
        for member_id in (*group.members, *group.pending_joins):
            self._deadlines.cancel(Wait(SESSION, group.group_id, member_id))

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """Note the SyncGroup of a member: when all have sent theirs, the wait is over."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._deadlines.cancel(Wait(SYNC, group.group_id))

    # Assignments

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes], now: Now) -> None:
        """Give members their assignments, those that are not named an empty one: it is Stable."""
        assert group.state is COMPLETING_REBALANCE, f"{group.state=}"
        for member_id, member in list(group.members.items()):
            assignment = assignments.get(member_id, NO_ASSIGNMENT)
            group.members[member_id] = msgspec.structs.replace(member, assignment=assignment)
            if group.answer_sync(member_id, responses.synced(group, member_id)):
                self.await_heartbeat(group, member_id, now)
        group.transition(STABLE, now.wall_ms)
        self._counts.completed_rebalances += 1

    def abandon_assignment(self, group: ClassicGroup, code: ErrorCode, now: Now) -> None:
        """Answer everyone that waits for its assignment with an error."""
        assert group.state is COMPLETING_REBALANCE, f"{group.state=}"
        for member_id, member in list(group.members.items()):
            group.members[member_id] = msgspec.structs.replace(member, assignment=NO_ASSIGNMENT)
            if group.answer_sync(member_id, responses.sync_error(code)):
                self.await_heartbeat(group, member_id, now)

    def _await_joins(self, group: ClassicGroup, timeout_ms: int, now: Now) -> None:
        self._deadlines.set(Wait(JOIN, group.group_id), now.monotonic_ms + timeout_ms)

    def _end_join_wait(self, group: ClassicGroup, now: Now) -> Change:
        if group.state is not PREPARING_REBALANCE:
            return NO_CHANGE
        if not group.has_new_member:
            return self._complete(group, now)
        delay, group.has_new_member = group.initial_delay, False
        assert delay is not None, "only then new members are noted"
        delay_ms = min(self._settings.initial_rebalance_delay_ms, delay.remaining_ms)
        remaining_ms = max(delay.remaining_ms - delay.delay_ms, 0)
        group.initial_delay = InitialDelay(delay_ms, remaining_ms)
        self._await_joins(group, delay_ms, now)
        return NO_CHANGE

    def _end_sync_wait(self, group: ClassicGroup, now: Now) -> Change:
        """Remove those that did not send SyncGroup for this generation, and rebalance."""
        if not group.pending_syncs:
            return NO_CHANGE
        for member_id in sorted(group.pending_syncs):
            self.remove_member(group, member_id)
        return self.prepare(group, now)

    def _end_session(self, group: ClassicGroup, member_id: str, now: Now) -> Change:
        if member_id in group.pending_joins:
            group.remove(member_id)
            return self.complete_if_all_joined(group, now)
        if member_id not in group.members:
            return NO_CHANGE
        is_waiting = member_id in group.joins or member_id in group.syncs
        if is_waiting and member_id not in group.new_members:
            return NO_CHANGE
        self.remove_member(group, member_id)
        if group.state is PREPARING_REBALANCE:
            return self.complete_if_all_joined(group, now)
        return self.prepare_or_complete(group, now)

    def _complete(self, group: ClassicGroup, now: Now) -> Change:
        """End the join phase without the dynamic members that did not join; the next generation.

        If none joined, static members among the missing are waited for until their sessions end.
        """
        assert group.state is PREPARING_REBALANCE, f"{group.state=}"
        self._deadlines.cancel(Wait(JOIN, group.group_id))
        for member_id, member in list(group.members.items()):
            if member_id not in group.joins and not member.is_static:
                self.remove_member(group, member_id)
        if group.members and not group.elect_joined_leader():
            self._await_joins(group, group.rebalance_timeout_ms, now)
            return NO_CHANGE
        group.next_generation(now.wall_ms)
        if not group.members:
            # Lost, the generation before is the one that a next coordinator loads: its members
            # end with their sessions, so nothing has to be taken back.
            return Change(records=(group_record(group),))
        for member_id in group.members:
            is_leader = member_id == group.leader_id
            response = responses.joined(group, member_id, with_members=is_leader)
            group.answer_join(member_id, response)
            self.await_heartbeat(group, member_id, now)
        group.new_members.clear()
        group.pending_syncs.update(group.members)
        timeout_ms = group.rebalance_timeout_ms
        self._deadlines.set(Wait(SYNC, group.group_id), now.monotonic_ms + timeout_ms)
        return NO_CHANGE
