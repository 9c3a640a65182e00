"""A member of the classic protocol as a machine: JoinGroup, SyncGroup, Heartbeat, again.

It rebalances eagerly: all partitions are given up before it joins. The leader deals partitions to
the members in the order of their ids. (apache/kafka: clients/.../AbstractCoordinator.java,
ConsumerCoordinator.java)
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from coordinator.group.consumer.client_protocol import assignment_bytes, assignment_of
from simulator.groups import bodies
from simulator.groups.bodies import Committer, Membership, Request
from simulator.groups.next_step import UNAVAILABLE, Next, unexpected
from wire.errors import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""
_NONE: Final[frozenset[int]] = frozenset()


class Phase(Enum):
    """Next request of a member."""

    JOIN = "join"
    SYNC = "sync"
    STABLE = "stable"


class ClassicMember:
    """One member, from its first JoinGroup on.

    Args:
        membership: its group, topic and times.
        partition_count: of the topic.
    """

    def __init__(self, membership: Membership, partition_count: int) -> None:
        self._of = membership
        self._partition_count = partition_count
        self.member_id = NO_MEMBER_ID
        self.epoch = NO_GENERATION
        """Generation in which it owns partitions or is about to."""
        self.owned = _NONE
        self.revoking = _NONE
        """To be given up, with a commit, before the next request."""
        self._phase = Phase.JOIN
        self._assignments: Mapping[str, bytes] = {}

    @property
    def is_stable(self) -> bool:
        """True if it has its assignment, and keeps it by heartbeats."""
        return self._phase is Phase.STABLE

    @property
    def granted(self) -> frozenset[int] | None:
        """Partitions that it was given in its epoch; None while it waits for them."""
        return self.owned if self.is_stable else None

    @property
    def committer(self) -> Committer:
        """As whom it commits."""
        of = self._of
        return Committer(of.group_id, self.member_id, self.epoch, of.instance_id)

    @property
    def fetcher(self) -> str:
        """As whom it fetches offsets: anybody."""
        return self._of.group_id

    def request(self) -> Request:
        """The request that its coordinator gets now."""
        assert not self.revoking, f"{self.revoking=}"
        match self._phase:
            case Phase.JOIN:
                return bodies.join_group(self._of, self.member_id)
            case Phase.SYNC:
                return bodies.sync_group(self._of, self.member_id, self.epoch, self._assignments)
            case Phase.STABLE:
                return bodies.heartbeat(self._of, self.member_id, self.epoch)

    def leave_request(self) -> Request:
        """LeaveGroup."""
        return bodies.leave_group(self._of, self.member_id)

    def revoked(self) -> None:
        """Note that what was to be given up is."""
        self.owned -= self.revoking
        self.revoking = _NONE

    def answered(self, response: Any) -> Next:
        """Take the answer to the last request; None for none."""
        if response is None:
            return self._unanswered()
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.none:
            return self._refused(code, response)
        match self._phase:
            case Phase.JOIN:
                return self._joined(response)
            case Phase.SYNC:
                self.owned = _partitions(self._of.topic, response.assignment)
                self._phase = Phase.STABLE
                return Next.REST
            case Phase.STABLE:
                return Next.REST

    def _unanswered(self) -> Next:
        if self._phase is Phase.SYNC:
            self._phase = Phase.JOIN
        return Next.FIND

    def _joined(self, response: Any) -> Next:
        self.member_id, self.epoch = str(response.member_id), int(response.generation_id)
        self._assignments = {}
        if response.leader == self.member_id and not response.skip_assignment:
            self._assignments = self._dealt(sorted(row.member_id for row in response.members))
        self._phase = Phase.SYNC
        return Next.GO_ON

    def _dealt(self, member_ids: list[str]) -> Mapping[str, bytes]:
        count = len(member_ids)
        return {
            each: assignment_bytes(
                {self._of.topic: tuple(range(number, self._partition_count, count))}, 0
            )
            for number, each in enumerate(member_ids)
        }

    def _refused(self, code: ErrorCode, response: Any) -> Next:
        if code in UNAVAILABLE:
            return Next.FIND
        match code:
            case ErrorCode.coordinator_load_in_progress:
                return Next.RETRY
            case ErrorCode.fenced_instance_id:
                self.owned = self.revoking = _NONE
                return Next.DEAD
            case ErrorCode.member_id_required:
                self.member_id = str(response.member_id)
                return Next.GO_ON
            case ErrorCode.rebalance_in_progress:
                is_told = self._phase is Phase.STABLE
                self._phase, self.revoking = Phase.JOIN, self.owned
                return Next.GO_ON if is_told else Next.RETRY
            case ErrorCode.unknown_member_id:
                self.member_id = NO_MEMBER_ID
            case ErrorCode.illegal_generation | ErrorCode.unknown_server_error:
                # The second: the group is converted while this member joins it.
                pass
            case ErrorCode.inconsistent_group_protocol | ErrorCode.group_id_not_found:
                # The other protocol has the group, or its members cannot be converted now.
                self.member_id = NO_MEMBER_ID
            case _:
                raise unexpected(self._of.group_id, self.member_id, code)
        self.owned = self.revoking = _NONE
        self.epoch = NO_GENERATION
        self._phase = Phase.JOIN
        return Next.RETRY


def _partitions(topic: str, assignment: bytes) -> frozenset[int]:
    partitions, _ = assignment_of(bytes(assignment))
    return frozenset(partitions.get(topic, ()))
