"""The tables of legal role transitions, and the function that checks them.

INV-EPOCH-1: the epoch of a node never decreases.
INV-LEADER-1: a leader is known at most once per epoch and never changes within it.
INV-VOTE-1: within an epoch a vote, once granted, is kept (a node votes once).
Source: apache/kafka: raft/.../QuorumState.java, KIP-996.
"""

from collections.abc import Mapping
from typing import Final

from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached

ALLOWED: Final[Mapping[type[Role], frozenset[type[Role]]]] = {
    Unattached: frozenset({Unattached, Prospective, Follower}),
    Prospective: frozenset({Unattached, Prospective, Candidate, Follower}),
    Candidate: frozenset({Unattached, Prospective, Leader, Follower}),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Follower: frozenset({Unattached, Prospective, Follower}),
    Resigned: frozenset({Unattached, Prospective, Follower}),
}
"""Legal transitions of a voter."""

ALLOWED_OBSERVER: Final[Mapping[type[Role], frozenset[type[Role]]]] = {
    Unattached: frozenset({Unattached, Follower}),
    Prospective: frozenset(),
    Candidate: frozenset(),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Follower: frozenset({Unattached, Follower}),
    Resigned: frozenset({Unattached, Follower}),
}
"""Legal transitions of an observer: never to Prospective, Candidate or Leader.

A Leader is one that wrote the record of its own removal (KIP-853)."""


def transition(old: Role, new: Role, *, is_voter: bool) -> Role:
    """Check a role transition and return the new role; an illegal one is a programmer error."""
    table = ALLOWED if is_voter else ALLOWED_OBSERVER
    assert type(new) in table[type(old)], f"{is_voter=} {old=} {new=}"
    assert new.epoch >= old.epoch, f"INV-EPOCH-1 {old=} {new=}"
    if isinstance(new, Candidate):
        assert new.epoch == old.epoch + 1, f"{old=} {new=}"
        assert isinstance(old, Prospective), f"{old=} {new=}"
    if isinstance(new, Leader):
        assert new.epoch == old.epoch, f"{old=} {new=}"
    if isinstance(old, Leader) and not isinstance(new, Resigned):
        assert new.epoch > old.epoch, f"a leader leaves its epoch only by resigning {new=}"
    if isinstance(old, Resigned) and not isinstance(new, Prospective):
        assert new.epoch > old.epoch, f"a resigned leader leaves its epoch {new=}"
    if new.epoch == old.epoch:
        _check_same_epoch(old, new)
    return new


def _check_same_epoch(old: Role, new: Role) -> None:
    """Assert that within an epoch neither the leader nor the vote changes once set."""
    if old.leader_id is not None:
        assert new.leader_id == old.leader_id, f"INV-LEADER-1 {old=} {new=}"
    if old.voted_key is not None and not isinstance(new, Leader):
        assert new.voted_key == old.voted_key, f"INV-VOTE-1 {old=} {new=}"
