"""The role table in raft/__init__.py cell by cell, and the legal changes of role."""

import re
from typing import get_args

import pytest

import raft
from raft.events import Event, TimeAdvanced
from raft.messages import RaftRequest, RaftResponse
from raft.roles import Follower, Role, Unattached
from raft.transitions import ALLOWED, transition
from tests.raft.role_events import CORES, ONLY_VOTERS, OTHERS, ROWS, Row, driven_cores
from wire.types import LeaderEpoch, NodeId, ReplicaKey

Cells = dict[str, set[str]]
"""The roles that a row leads to, by the role before."""


def shown() -> dict[str, Cells]:
    """The table of the docstring by row."""
    assert raft.__doc__ is not None
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in raft.__doc__.splitlines()
        if line.startswith("|")
    ]
    return {
        name: {
            role: set(re.findall(r"\w+", cell)) for role, cell in zip(head[1:], cells, strict=True)
        }
        for name, *cells in rows
    }


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every change of role, as it happens."""
    made: list[tuple[str, str]] = []

    def recorded(old: Role, new: Role, *, is_voter: bool) -> Role:
        made.append((type(old).__name__, type(new).__name__))
        return transition(old, new, is_voter=is_voter)

    monkeypatch.setattr("raft.state.transition", recorded)
    return made


def observed(row: Row, changes: list[tuple[str, str]]) -> Cells:
    """The first change of each core by each event of the row."""
    cells: Cells = {role.__name__: set() for role in CORES}
    for role in CORES:
        for driven, event in driven_cores(role, row):
            changes.clear()
            event(driven)
            for old, new in changes[:1]:
                assert old == role.__name__
                cells[old].add(new)
    return cells


def test_the_table_has_a_row_for_every_event() -> None:
    assert shown().keys() == ROWS.keys() | {"only voter"}


@pytest.mark.parametrize("name", ROWS)
def test_a_cell_has_the_roles_that_a_core_goes_to(
    name: str, changes: list[tuple[str, str]]
) -> None:
    assert shown()[name] == observed(ROWS[name], changes)


def test_the_cells_of_an_only_voter_are_its_way_to_leadership(
    changes: list[tuple[str, str]],
) -> None:
    for make in ONLY_VOTERS:
        make().step(TimeAdvanced())
    cells: Cells = {role.__name__: set() for role in CORES}
    for old, new in changes:
        cells[old].add(new)
    assert shown()["only voter"] == cells


def test_no_other_event_changes_a_role(changes: list[tuple[str, str]]) -> None:
    assert not any(observed(OTHERS, changes).values())


def test_the_rows_hold_every_event_and_every_message() -> None:
    seen: set[type] = set()
    cases = [
        case
        for role in CORES
        for row in (*ROWS.values(), OTHERS)
        for case in driven_cores(role, row)
    ]
    for driven, event in cases:
        event(driven)
        seen |= driven.seen
    answered_only = {"DescribeQuorumResponse", "AddVoterResponse", "RemoveVoterResponse"}
    answered_only |= {"TransferLeadershipResponse"}
    sent_only = {"ApiVersionsRequest"}
    wanted = {kind for kinds in (Event, RaftRequest, RaftResponse) for kind in get_args(kinds)}
    assert {kind.__name__ for kind in wanted - seen} == answered_only | sent_only


def test_the_rows_unite_to_the_table_of_transitions() -> None:
    united = {role.__name__: set[str]() for role in ALLOWED}
    for cells in shown().values():
        for role, after in cells.items():
            united[role] |= after
    assert united == {
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
