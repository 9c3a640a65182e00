"""Mutants of linearizable reads; clients find stale ones."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from raft.effects import ReadIndexConfirmed
from raft.events import ReadIndexRequested
from raft.fetching import read_index
from raft.fetching.reads import Reads
from raft.roles import Leader
from raft.state import RaftState
from simulator.mutants.registry import SHORT, Mutant, Patches
from wire.types import Offset, ReplicaKey

Original = Callable[..., Any]
READING: Final = replace(SHORT, has_linearizable_reads=True, write_count=300)
"""Seeds whose clients look up by linearizable reads."""
STOPPED: Final = replace(READING, node_count=3, faults=("stop_leader",))
"""Seeds in which leaders are stopped, and others elected."""


def _unchecked(patches: Patches) -> None:
    """A node that takes itself for the leader answers from its image."""

    def make(original: Original) -> Original:
        def on_read_requested(state: RaftState, event: ReadIndexRequested) -> None:
            if type(state.role) is Leader and state.high_watermark is not None:
                confirmed = ReadIndexConfirmed(tokens=(event.token,), offset=state.high_watermark)
                state.effects.notify.append(confirmed)
            else:
                original(state, event)

        return on_read_requested

    patches.function(read_index, "on_read_requested", make)


def _counts_received(patches: Patches) -> None:
    """A Fetch that is received after the read began confirms it, whenever it was sent."""

    def make(_: Original) -> Original:
        def note_fetch(self: Reads, voter: ReplicaKey, connection_id: int | None) -> None:
            del connection_id
            if self.round is not None:
                self.round.confirmed.add(voter)

        return note_fetch

    patches.method(Reads, "note_fetch", make)


def _before_a_commit(patches: Patches) -> None:
    """A new leader takes the high watermark that it knew as a follower."""

    def make(original: Original) -> Original:
        def poll_reads(state: RaftState, role: Leader) -> None:
            if not role.is_claimed and role.reads.waiting:
                tokens = tuple([read.token for read in role.reads.waiting])
                role.reads.waiting.clear()
                offset = Offset(state.high_watermark_highest or 0)
                state.effects.notify.append(ReadIndexConfirmed(tokens=tokens, offset=offset))
            original(state, role)

        return poll_reads

    patches.function(read_index, "poll_reads", make)


READS: Final = (
    Mutant(
        number=33,
        name="reads-unchecked",
        text="a linearizable read skips the check of the leadership",
        expected=("linearizability",),
        seeds_max=300,
        patch=_unchecked,
        options=STOPPED,
    ),
    Mutant(
        number=81,
        name="counts-received-fetches",
        text="a leader counts a Fetch for a read that was sent before it and received after it",
        expected=("linearizability",),
        seeds_max=300,
        patch=_counts_received,
        options=STOPPED,
    ),
    Mutant(
        number=82,
        name="reads-before-a-commit",
        text="a leader answers reads before a record of its epoch is committed",
        expected=("linearizability",),
        seeds_max=300,
        patch=_before_a_commit,
        options=READING,
    ),
)
