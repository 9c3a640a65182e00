"""Unproven voters: an empty disk has forgotten what its voter acknowledged and voted for.

At kraft.version 0 a voter is known by its id alone, so that one with a new disk is still a voter.
Kafka lets it vote at once: its vote can elect a log without acknowledged records. Here the driver
marks a folder that never held a quorum-state, and a core that starts with the mark is unproven.

INV-PROOF-1: while unproven, a voter grants votes, pre-votes and its own among them, to empty logs
only, which is all that the first election of a quorum needs; to none once a voter with records has
asked it, for then the quorum is not new. And it acknowledges nothing: its fetches name no replica.
It may have voted in a later epoch than that of the leader which it finds: with its acknowledgements
such a leader would commit what the leader of that epoch never had. Of two static voters neither
holds: the other one has all that is committed, for each record needed both, and nobody was elected
without it. So it gets the vote with its records; else the quorum would be at its end.
Nor does a dynamic voter whose emptied log does not say yet that it votes: its directory id is the
voter's, and its Fetch would confirm reads (fetching/read_index.py).

INV-PROOF-2: a voter is proven
1. when its durable log has a committed record that the leader of its epoch appended after it had
   caught up once. The majority without it that acknowledged this record follows that leader still:
   there was no later epoch in which this voter can have acknowledged or elected anything, and
   whatever was committed before is in this log. (Of two voters the other one alone shows that.)
2. Or when it has itself elected the leader of its epoch. That log was empty, so there was nothing
   to acknowledge before this epoch (or it is that of the other of two), and in it the voter
   acknowledges from this disk. Without this rule no quorum could begin: nobody would acknowledge.

Of three voters it may also vote for a log whose last records are of an epoch in which it voted for
another, as far as it knows: that vote, to an empty log, elected its leader, who may have ended
before this voter heard of it; else a new quorum of which no disk is lost might be at its end.

So what was acknowledged stays while the voters that are unproven or whose log is empty are a
minority; of a majority without disks nothing can be proved (docs/raft.md, "Lost disks").
"""

from typing import Final

from raft.effects import VoteWithheld
from raft.roles import Follower
from raft.state import RaftState
from wire.types import NodeId, Offset, OffsetAndEpoch

VOTERS_ELECTED: Final = 3
"""Largest quorum in which a vote for another voter elects it, with its own."""
VOTERS_COUNTED: Final = 2
"""Size of a quorum in which an unproven voter acknowledges: the leader is all the others."""


def note_vote(state: RaftState) -> None:
    """Note the vote of the role, given now or found at start: it is remembered on this disk."""
    voted_key = state.role.voted_key
    if voted_key is not None and voted_key.id != state.config.node_id:
        state.voted_epoch = state.role.epoch


def may_vote_for(state: RaftState, candidate_id: NodeId, last: OffsetAndEpoch) -> bool:
    """True if this voter may grant a vote to a log with this end and last epoch (INV-PROOF-1)."""
    end_offset = last.offset
    assert end_offset >= 0, f"{candidate_id=} {end_offset=}"
    if not state.is_unproven:
        return True
    voters = state.voters.by_id
    if last.epoch == state.voted_epoch and len(voters) <= VOTERS_ELECTED:
        return True
    if len(voters) == VOTERS_COUNTED and candidate_id in voters and state.log.kraft_version == 0:
        return True
    if end_offset > 0 and not state.has_withheld:
        state.has_withheld = True
        withheld = VoteWithheld(candidate_id=candidate_id, epoch=state.epoch)
        state.effects.notify.append(withheld)
    return not state.has_withheld


def is_counted(state: RaftState) -> bool:
    """True if the leader may count what this replica fetches, as acknowledged and as of its epoch.

    Whether it is a voter, and of how many, a dynamic one knows from the leader's log alone.
    """
    if not state.is_unproven:
        return True
    if state.is_dynamic and state.caught_up_offset is None:
        return False
    return not state.is_voter or len(state.voters) == VOTERS_COUNTED


def note_fetched(state: RaftState, high_watermark: int) -> None:
    """Note the high watermark of an answered fetch, -1 if unknown, once its records are written."""
    assert isinstance(state.role, Follower), f"{state.role=}"
    caught_up, log = state.caught_up_offset, state.log
    if caught_up is None or log.last_epoch != state.epoch:
        return
    if caught_up < high_watermark:
        state.proof_end_offset = Offset(high_watermark)
        prove_flushed(state)


def note_caught_up(state: RaftState) -> None:
    """Note that the leader had no more records when it answered a fetch, the first time."""
    assert isinstance(state.role, Follower), f"{state.role=}"
    if state.caught_up_offset is None:
        state.caught_up_offset = state.log.end_offset


def prove_flushed(state: RaftState) -> None:
    """Become proven if what proves it is durable: a crash must not take it from a proven voter."""
    end_offset = state.proof_end_offset
    if end_offset is not None and state.log.flushed_end_offset >= end_offset:
        assert end_offset > 0, f"INV-PROOF-2 {state.log.describe()}"
        state.prove()
