"""Legal changes of role: the package's docstring and `transitions` say the same."""

import re

import pytest

import raft
from raft.roles import Follower, Role, Unattached
from raft.transitions import ALLOWED, transition
from wire.types import LeaderEpoch, NodeId, ReplicaKey


def test_the_table_of_roles_is_the_table_of_transitions():
    assert raft.__doc__ is not None
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in raft.__doc__.splitlines()
        if line.startswith("|")
    ]
    shown = {
        name: {word for row in rows for word in re.findall(r"\w+", row[column])}
        for column, name in enumerate(head)
        if column > 0
    }
    assert shown == {
        role.__name__: {after.__name__ for after in allowed} for role, allowed in ALLOWED.items()
    }


ONE, TWO = NodeId(1), NodeId(2)


def unattached(epoch: int = 5, leader: NodeId | None = None, voted: NodeId | None = None) -> Role:
    key = None if voted is None else ReplicaKey(voted)
    return Unattached(epoch=LeaderEpoch(epoch), leader_id=leader, voted_key=key)


def follower(epoch: int = 5, leader: NodeId = ONE, voted: NodeId | None = None) -> Role:
    key = None if voted is None else ReplicaKey(voted)
    return Follower(epoch=LeaderEpoch(epoch), leader_id=leader, voted_key=key, fetch_deadline_ms=0)


@pytest.mark.parametrize(
    ("old", "new", "invariant"),
    [
        (follower(leader=ONE), follower(leader=TWO), "INV-LEADER-1"),
        (follower(leader=ONE), unattached(), "INV-LEADER-1"),
        (unattached(leader=ONE), follower(leader=TWO), "INV-LEADER-1"),
        (unattached(voted=ONE), unattached(voted=TWO), "INV-VOTE-1"),
        (unattached(voted=ONE), unattached(), "INV-VOTE-1"),
        (unattached(voted=ONE), follower(leader=TWO), "INV-VOTE-1"),
        (follower(6), follower(5), "INV-EPOCH-1"),
    ],
)
def test_within_an_epoch_neither_leader_nor_vote_is_taken_back(
    old: Role, new: Role, invariant: str
) -> None:
    with pytest.raises(AssertionError, match=invariant):
        transition(old, new, is_voter=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (unattached(), unattached(voted=TWO)),
        (unattached(voted=ONE), follower(leader=TWO, voted=ONE)),
        (unattached(leader=ONE), follower(leader=ONE)),
        (unattached(leader=ONE, voted=ONE), unattached(6)),
        (follower(leader=ONE, voted=ONE), follower(6, TWO)),
    ],
)
def test_what_was_not_known_is_learned_and_the_next_epoch_forgets(old: Role, new: Role) -> None:
    assert transition(old, new, is_voter=True) is new
