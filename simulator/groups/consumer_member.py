"""A member of the protocol of KIP-848 as a machine: one heartbeat after the other.

What it is given replaces what it had; it gives up what is gone, with a commit, before it says so
and uses what is new. After an error or no answer it says all again. (apache/kafka: clients/.../
internals/ConsumerHeartbeatRequestManager.java, AbstractMembershipManager.java)
"""

from typing import Any, Final
from uuid import UUID

from simulator.groups import bodies
from simulator.groups.bodies import UNCHANGED, Committer, Membership, Request
from simulator.groups.next_step import UNAVAILABLE, Next, unexpected
from wire.errors import ErrorCode

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
_NONE: Final[frozenset[int]] = frozenset()


class ConsumerMember:
    """One member, from its first heartbeat on.

    Args:
        membership: its group, topic and times.
        topic_id: of the topic.
        member_id: which it chose.
    """

    def __init__(self, membership: Membership, topic_id: UUID, member_id: str) -> None:
        self._of = membership
        self._topic_id = topic_id
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned = _NONE
        self.revoking = _NONE
        """To be given up, with a commit, before the next request."""
        self.assigned = _NONE
        """Partitions that the coordinator gave it last."""
        self._is_full = True
        self._reported: frozenset[int] | None = None

    @property
    def is_stable(self) -> bool:
        """True if it is a member, and owns what it was given."""
        return self.epoch > JOIN_EPOCH and self.owned == self.assigned

    @property
    def granted(self) -> frozenset[int] | None:
        """Partitions that it was given in its epoch; None while it is no member."""
        return self.assigned if self.epoch > JOIN_EPOCH else None

    @property
    def committer(self) -> Committer:
        """As whom it commits."""
        of = self._of
        return Committer(of.group_id, self.member_id, self.epoch, of.instance_id)

    @property
    def fetcher(self) -> Committer:
        """As whom it fetches offsets."""
        return self.committer

    def request(self) -> Request:
        """The heartbeat that its coordinator gets now."""
        assert not self.revoking, f"{self.revoking=}"
        is_full = self._is_full or self.epoch == JOIN_EPOCH
        says = is_full or self.owned != self._reported
        self._reported = self.owned
        return bodies.consumer_heartbeat(
            self._of,
            self.member_id,
            self.epoch,
            is_full=is_full,
            owned=self._named() if says else UNCHANGED,
        )

    def _named(self) -> dict[UUID, frozenset[int]]:
        return {self._topic_id: self.owned} if self.owned else {}

    def leave_request(self) -> Request:
        """Heartbeat that leaves; a static member comes back."""
        epoch = LEAVE_EPOCH if self._of.instance_id is None else STATIC_LEAVE_EPOCH
        return bodies.consumer_heartbeat(self._of, self.member_id, epoch, is_full=False)

    def revoked(self) -> None:
        """Note that what was to be given up is; what is new may be used."""
        self.owned, self.revoking = self.assigned, _NONE

    def answered(self, response: Any) -> Next:
        """Take the answer to the last request; None for none."""
        if response is None:
            self._is_full = True
            return Next.FIND
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.none:
            return self._refused(code)
        self._is_full = False
        self.epoch = int(response.member_epoch)
        if response.assignment is None:
            return Next.REST
        rows = response.assignment.topic_partitions
        self.assigned = frozenset(
            number for row in rows if row.topic_id == self._topic_id for number in row.partitions
        )
        self.revoking = self.owned - self.assigned
        if self.revoking:
            return Next.GO_ON
        has_news = self.owned != self.assigned
        self.owned = self.assigned
        return Next.GO_ON if has_news else Next.REST

    def _refused(self, code: ErrorCode) -> Next:
        self._is_full = True
        if code in UNAVAILABLE:
            return Next.FIND
        match code:
            case ErrorCode.coordinator_load_in_progress:
                return Next.RETRY
            case ErrorCode.fenced_instance_id:
                self._lose()
                return Next.DEAD
            case (
                ErrorCode.unsupported_version  # the feature is not known there yet
                | ErrorCode.unreleased_instance_id
                | ErrorCode.unknown_server_error  # a group cannot be converted now
                | ErrorCode.group_id_not_found
                | ErrorCode.unknown_member_id
                | ErrorCode.fenced_member_epoch
            ):
                self._lose()
                return Next.RETRY
            case _:
                raise unexpected(self._of.group_id, self.member_id, code)

    def _lose(self) -> None:
        self.owned = self.revoking = self.assigned = _NONE
        self.epoch = JOIN_EPOCH
