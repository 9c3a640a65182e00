"""Mutants of the transfer of the leadership."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.quorum.replica import Replica
from raft.elections import transfer
from raft.roles import Leader, Transfer
from raft.state import RaftState
from simulator.mutants.registry import SHORT, Mutant, Patches

Original = Callable[..., Any]

ASKED: Final = replace(SHORT, faults=("transfer", "lost_messages", "full_link"))
"""Seeds with transfers, some of which are given up."""


def _without_waiting(patches: Patches) -> None:
    """The leader hands over to a target that lacks records."""

    def has_committed(state: RaftState, _: Leader) -> bool:
        return state.is_handing_over and state.high_watermark == state.log.end_offset

    patches.function(transfer, "has_successor", lambda _: has_committed)


def _uncommitted(patches: Patches) -> None:
    """The leader hands over as soon as the target has its log."""

    def is_fetched(state: RaftState, role: Leader) -> bool:
        asked = state.transfer
        if asked is None or not state.is_handing_over:
            return False
        return role.progress[asked.target].end_offset == state.log.end_offset

    patches.function(transfer, "has_successor", lambda _: is_fetched)


def _never_given_up(patches: Patches) -> None:
    """A leader waits for its target beyond the time."""

    def make(original: Original) -> Original:
        def settle(state: RaftState, asked: Transfer) -> None:
            if not state.is_handing_over or asked.deadline_ms > state.now_ms:
                original(state, asked)

        return settle

    patches.function(transfer, "settle_transfer", make)


def _not_held_back(patches: Patches) -> None:
    """Proposals are made also while the leader is to hand over."""
    patches.method(Replica, "_has_proposals", lambda _: lambda self: bool(self._proposals))


def _kept_for_ever(patches: Patches) -> None:
    """Proposals that were held back once are never made."""

    def make(original: Original) -> Original:
        held: list[Replica] = []

        def has_proposals(self: Replica) -> bool:
            if self._core.is_handing_over and self._proposals:
                held.append(self)
            return not any(each is self for each in held) and original(self)

        return has_proposals

    patches.method(Replica, "_has_proposals", make)


TRANSFERS: Final = (
    Mutant(
        number=76,
        name="hands-over-without-waiting",
        text="a leader hands over to a voter that lacks records",
        expected=("I16",),
        seeds_max=50,
        patch=_without_waiting,
        options=ASKED,
    ),
    Mutant(
        number=77,
        name="hands-over-uncommitted",
        text="a leader hands over before all of its log is committed",
        expected=("I16",),
        seeds_max=50,
        patch=_uncommitted,
        options=ASKED,
    ),
    Mutant(
        number=78,
        name="never-gives-up",
        text="a leader whose target does not come to its log end waits for ever",
        expected=("I20",),
        seeds_max=50,
        patch=_never_given_up,
        options=ASKED,
    ),
    Mutant(
        number=79,
        name="proposals-not-held-back",
        text="a leader that is to hand over goes on appending",
        expected=("I20",),
        seeds_max=50,
        patch=_not_held_back,
        options=ASKED,
    ),
    Mutant(
        number=80,
        name="proposals-not-released",
        text="proposals held back during a transfer that is given up are never made",
        expected=("I19", "liveness"),
        seeds_max=50,
        patch=_kept_for_ever,
        options=ASKED,
    ),
)
