"""Mutants of voters that lost their disk (raft/elections/proof.py).

That an unproven voter acknowledges nothing, and what proves it, is broken in scenarios
(tests/scenarios/raft/lost_disk_and_an_old_leader.txt, unproven_*.txt): no seed of 220 met it.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.quorum import unproven_voters
from raft.elections import proof
from raft.state import RaftState
from simulator.mutants.registry import SHORT, Mutant, Patches
from wire.types import NodeId

Original = Callable[..., Any]

WIPED: Final = replace(
    SHORT, node_count=3, faults=("wiped_voter", "depose_leader", "restart_storm", "lost_messages")
)
"""Seeds in which voters lose disks while others are behind, and leaders end."""


def _unproven_voters_vote(patches: Patches) -> None:
    """An unproven voter votes as any other, for itself too."""

    def make(_: Original) -> Original:
        def may_vote_for(_state: RaftState, _candidate: NodeId, _end_offset: int) -> bool:
            return True

        return may_vote_for

    patches.function(proof, "may_vote_for", make)


def _new_folders_unmarked(patches: Patches) -> None:
    """A folder without quorum-state is used as it is."""
    patches.function(unproven_voters, "mark_new_folder", lambda _: lambda _vfs, _log_dir: None)


LOST_DISKS: Final = (
    Mutant(
        number=91,
        name="unproven-voters-vote",
        text="a voter that lost its disk votes for logs with records at once",
        expected=("I4", "I7", "I8", "I11"),
        seeds_max=300,
        patch=_unproven_voters_vote,
        options=WIPED,
    ),
    Mutant(
        number=92,
        name="new-folders-unmarked",
        text="the empty folder of a voter is not marked before it is used",
        expected=("I7", "I8", "I11", "I20"),
        seeds_max=300,
        patch=_new_folders_unmarked,
        options=WIPED,
    ),
)
