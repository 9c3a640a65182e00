"""What a pre-vote may do: I3, that it leaves no trace, and I4, to whom it is granted.

I3: pre-votes neither persist anything nor begin an epoch, for the one who asks and for the one who
answers. I4: one is granted only for a log at least as good, never by a leader, and not by a
follower that has fetched from its leader and has had no reason since to think that it is gone.
Source: KIP-996; apache/kafka: raft/.../{EpochElection,FollowerState,LeaderState}.java.
"""

from typing import Final

from raft.effects import Effects, PersistElection
from raft.error_codes import NONE, NOT_LEADER_OR_FOLLOWER
from raft.events import (
    Event,
    LeaderUnreachable,
    RequestReceived,
    ResponseReceived,
)
from raft.messages import (
    EndQuorumEpochRequest,
    FetchResponse,
    FetchSnapshotResponse,
    VoteRequest,
)
from raft.roles import Follower, Leader, Resigned, Role

Broken = tuple[str, str]
"""An invariant and how it was broken."""

_OF_FETCHES: Final = (FetchResponse, FetchSnapshotResponse)


class HeardLeader:
    """Whether a follower hears its leader, by the answers that it gets; one per core."""

    def __init__(self) -> None:
        self._follower: Role | None = None
        """The role in which it does: another one has heard nobody yet."""

    def is_heard_by(self, role: Role) -> bool:
        """Whether this very role fetched, and was told nothing else since."""
        return self._follower is role

    def on_response(self, event: ResponseReceived, before_ms: int | None, role: Role) -> None:
        """After an answer; it was taken up if it moved the time-out of the fetches.

        Args:
            event: the answer.
            before_ms: the time-out of the fetches before it, None of who was no follower.
            role: the role after it.
        """
        response = event.response
        if type(response) not in _OF_FETCHES or type(role) is not Follower or before_ms is None:
            return
        if response.error_code == NOT_LEADER_OR_FOLLOWER:
            self._follower = None
            return
        is_answer = type(response) is FetchResponse and response.error_code == NONE
        is_leader = event.destination_id == role.leader_id
        if is_answer and is_leader and role.fetch_deadline_ms > before_ms:
            self._follower = role

    def on_other(self, event: Event) -> None:
        """After any other event: it may say that the leader is gone, or about to go."""
        if type(event) is LeaderUnreachable or (
            type(event) is RequestReceived and type(event.request) is EndQuorumEpochRequest
        ):
            self._follower = None


def wrong_grant(
    request: VoteRequest, before: Role, position: tuple[int, int], *, is_led: bool
) -> Broken | None:
    """Why this pre-vote should not have been granted, None if it may.

    Args:
        request: whose epoch, if it is a later one, is taken up before the answer.
        before: the role when it came.
        position: epoch of the last record and end offset of the log that answers.
        is_led: whether the role follows a leader that it hears.
    """
    theirs = (int(request.last_epoch), int(request.last_end_offset))
    told = f"it grants a pre-vote to {request.replica_id}"
    if theirs < position:
        return "I4", f"{told}, which has {theirs}, with {position}"
    if request.replica_epoch > before.epoch:
        return None
    if type(before) is Leader:
        return "I4", f"{told} and leads epoch {before.epoch}"
    if is_led:
        return "I4", f"{told} and fetches from {before.leader_id} in epoch {before.epoch}"
    return None


def wrong_answer(
    request: VoteRequest, before: Role, after: Role, effects: Effects
) -> Broken | None:
    """What a pre-vote that was answered left; a later epoch is taken up, as of all requests."""
    if request.replica_epoch <= before.epoch:
        return _changed(before, after, effects, "it answered a pre-vote")
    if after.voted_key is not None or after.epoch not in (before.epoch, request.replica_epoch):
        return "I3", f"it answered {request} and is {after}"
    return None


def wrong_question(before: Role, after: Role, effects: Effects) -> Broken | None:
    """What asking for pre-votes left.

    Who led the epoch leaves it with the time-out of its resignation, and asks then.
    """
    if type(before) is Resigned:
        return None
    return _changed(before, after, effects, "it asks for pre-votes")


def _changed(before: Role, after: Role, effects: Effects, what: str) -> Broken | None:
    is_same = (before.epoch, before.voted_key) == (after.epoch, after.voted_key)
    if not is_same:
        return "I3", f"{what}: it was {before} and is {after}"
    if any(type(effect) is PersistElection for effect in effects.persist):
        return "I3", f"{what} and persists {effects.persist}"
    return None
