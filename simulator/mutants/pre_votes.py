"""Mutants of pre-votes (KIP-996)."""

from collections.abc import Callable
from typing import Any, Final

from raft.elections import vote
from raft.roles import Leader
from raft.state import RaftState
from simulator.mutants.registry import QUARREL, Mutant, Patches

Original = Callable[..., Any]


def _grants_pre_votes_to_all(patches: Patches) -> None:
    """Every replica but the leader grants every pre-vote."""

    def make(_: Original) -> Original:
        def grant(state: RaftState, *, is_up_to_date: bool) -> bool:
            del is_up_to_date
            return not isinstance(state.role, Leader)

        return grant

    patches.function(vote, "_grant_pre_vote", make)


def _grants_pre_votes_to_any_log(patches: Patches) -> None:
    """A pre-vote is granted whatever the log of the replica that asks."""

    def make(original: Original) -> Original:
        def grant(state: RaftState, *, is_up_to_date: bool) -> bool:
            del is_up_to_date
            granted: bool = original(state, is_up_to_date=True)
            return granted

        return grant

    patches.function(vote, "_grant_pre_vote", make)


def _grants_pre_votes_while_led(patches: Patches) -> None:
    """A follower in contact with its leader grants pre-votes as if it were not."""

    def make(_: Original) -> Original:
        def grant(state: RaftState, *, is_up_to_date: bool) -> bool:
            return is_up_to_date and not isinstance(state.role, Leader)

        return grant

    patches.function(vote, "_grant_pre_vote", make)


PRE_VOTES: Final = (
    Mutant(
        number=57,
        name="grants-pre-votes-to-all",
        text="a node that does not lead grants every pre-vote",
        expected=("I4",),
        seeds_max=50,
        patch=_grants_pre_votes_to_all,
    ),
    Mutant(
        number=58,
        name="grants-pre-votes-to-any-log",
        text="a pre-vote is granted without a look at the candidate's log",
        expected=("I4",),
        seeds_max=100,
        patch=_grants_pre_votes_to_any_log,
        options=QUARREL,
    ),
    Mutant(
        number=59,
        name="grants-pre-votes-while-led",
        text="a follower in contact with its leader grants pre-votes",
        expected=("I4",),
        seeds_max=100,
        patch=_grants_pre_votes_while_led,
        options=QUARREL,
    ),
)
