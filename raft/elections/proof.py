"""Unproven voters: an empty disk has forgotten what its voter acknowledged and voted for.

At kraft.version 0 a voter is known by its id alone, so that one with a new disk is still a voter.
Kafka lets it vote at once: its vote can elect a log without acknowledged records. Here the driver
marks a folder that never held a quorum-state, and a core that starts with the mark is unproven.

INV-PROOF-1: while unproven, a voter grants votes, pre-votes and its own among them, to empty logs
only, which is all that the first election of a quorum needs; to none once a voter with records has
asked it, for then the quorum is not new.
INV-PROOF-2: a voter is proven once its durable log has all that it can have acknowledged:
1. the log reaches the high watermark of the leader of its epoch, and a record of that epoch. A
   leader that knows no high watermark yet has committed nothing of its own, and its log has all
   that was committed before: a record of its epoch is enough then.
2. Or the voter itself has elected the leader of its epoch. That log was empty, so there was nothing
   to acknowledge before this epoch, and in it the voter acknowledges from this disk. Without this
   rule the first leader of a quorum could not be elected again after a crash at its first record.

So what was acknowledged stays while the voters that are unproven or whose log is empty are a
minority; of a majority without disks nothing can be proved (docs/raft.md, "Lost disks").
"""

from raft.effects import VoteWithheld
from raft.roles import Follower
from raft.state import RaftState
from wire.types import NodeId


def may_vote_for(state: RaftState, candidate_id: NodeId, end_offset: int) -> bool:
    """True if this voter may grant a vote to a log with this end (INV-PROOF-1)."""
    assert end_offset >= 0, f"{candidate_id=} {end_offset=}"
    if not state.is_unproven:
        return True
    if end_offset > 0 and not state.has_withheld:
        state.has_withheld = True
        withheld = VoteWithheld(candidate_id=candidate_id, epoch=state.epoch)
        state.effects.notify.append(withheld)
    return not state.has_withheld


def note_fetched(state: RaftState, high_watermark: int) -> None:
    """Note the high watermark of an answered fetch, -1 if unknown, once its records are written."""
    log = state.log
    assert isinstance(state.role, Follower), f"{state.role=}"
    if log.last_epoch == state.epoch and log.end_offset >= high_watermark:
        state.proof_end_offset = log.end_offset
        prove_flushed(state)


def prove_flushed(state: RaftState) -> None:
    """Become proven if what proves it is durable: a crash must not take it from a proven voter."""
    end_offset = state.proof_end_offset
    if end_offset is not None and state.log.flushed_end_offset >= end_offset:
        assert end_offset > 0, f"INV-PROOF-2 {state.log.describe()}"
        state.prove()
