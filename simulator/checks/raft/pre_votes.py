"""Rules of pre-votes: I3, they leave no trace, and I4, the conditions for granting one.

I3: a pre-vote persists nothing and begins no epoch, neither at the replica that asks nor at the one
that answers. I4: it is granted only for a log at least as good, never by a leader, and not by a
follower that has fetched from its leader and has had no reason since to take it for gone.
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
"""Invariant, and how it was broken."""

_OF_FETCHES: Final = (FetchResponse, FetchSnapshotResponse)


class LeaderContact:
    """Contact of a follower with its leader, by the responses that it gets; one per core."""

    def __init__(self) -> None:
        self._follower: Role | None = None
        """Role that is in contact; another one has not fetched yet."""

    def is_held_by(self, role: Role) -> bool:
        """True if this very role fetched, and no event since ended the contact."""
        return self._follower is role

    def on_response(self, event: ResponseReceived, before_ms: int | None, role: Role) -> None:
        """Take a response; it counts if it moved the fetch deadline.

        Args:
            event: the response.
            before_ms: the fetch deadline before it, None unless the role was follower.
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
        """Take any other event: a lost leader, or its EndQuorumEpoch, ends the contact."""
        if type(event) is LeaderUnreachable or (
            type(event) is RequestReceived and type(event.request) is EndQuorumEpochRequest
        ):
            self._follower = None


def wrong_grant(
    request: VoteRequest, before: Role, position: tuple[int, int], *, is_led: bool
) -> Broken | None:
    """Describe why a pre-vote should not have been granted, None if it may.

    Args:
        request: its epoch is adopted before the answer if it is later.
        before: the role when the request came.
        position: epoch of the last record and end offset of the log that answers.
        is_led: the role follows a leader that it is in contact with.
    """
    theirs = (int(request.last_epoch), int(request.last_end_offset))
    grant = f"it grants a pre-vote to {request.replica_id}"
    if theirs < position:
        return "I4", f"{grant}, which has {theirs}, with {position}"
    if request.replica_epoch > before.epoch:
        return None
    if type(before) is Leader:
        return "I4", f"{grant} and leads epoch {before.epoch}"
    if is_led:
        return "I4", f"{grant} and fetches from {before.leader_id} in epoch {before.epoch}"
    return None


def wrong_answer(
    request: VoteRequest, before: Role, after: Role, effects: Effects
) -> Broken | None:
    """Describe what an answered pre-vote left; a later epoch is adopted as from all requests."""
    if request.replica_epoch <= before.epoch:
        return _changed(before, after, effects, "it answered a pre-vote")
    if after.voted_key is not None or after.epoch not in (before.epoch, request.replica_epoch):
        return "I3", f"it answered {request} and is {after}"
    return None


def wrong_question(before: Role, after: Role, effects: Effects) -> Broken | None:
    """Describe what asking for pre-votes left.

    A resigned leader leaves its epoch at its time-out, and asks then.
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
