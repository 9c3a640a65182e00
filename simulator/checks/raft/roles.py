"""I16: the allowed changes of role, written from the protocol and not from the code under test.

One step of a raft core may change the role several times, so the tables hold every role that it can
end in. A sole voter goes from any role to leader of the next epoch in one step.
Source: apache/kafka: raft/.../QuorumState.java, KIP-996.
"""

from typing import Final

from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from simulator.campaign.probes import Probes
from simulator.checks.node_past import Past

WITHIN_EPOCH: Final[dict[type, tuple[type, ...]]] = {
    Unattached: (Unattached, Prospective, Follower),
    Prospective: (Unattached, Prospective, Follower),
    Candidate: (Unattached, Prospective, Follower, Candidate, Leader),
    Leader: (Leader, Resigned),
    Follower: (Unattached, Prospective, Follower),
    Resigned: (Resigned,),
}
"""Role -> roles that it may end in within its epoch."""

IN_NEWER_EPOCH: Final = (Unattached, Prospective, Follower)
"""Roles that any role may end in at a newer epoch; a candidate begins its own."""


def wrong_change(before: Role, after: Role, *, is_sole: bool) -> str | None:
    """Describe how a change of role in one step breaks the tables, None if it does not.

    Args:
        before: role, epoch, leader and vote before the step.
        after: those after it.
        is_sole: the node is the only voter.
    """
    change = f"it was {_named(before)} and is {_named(after)}"
    if after.epoch < before.epoch:
        return change
    if after.epoch == before.epoch:
        return _wrong_within_epoch(before, after, change)
    if type(after) in IN_NEWER_EPOCH or (is_sole and after.epoch == before.epoch + 1):
        return None
    is_candidacy = type(before) is Prospective and type(after) is Candidate
    return None if is_candidacy and after.epoch == before.epoch + 1 else change


def _wrong_within_epoch(before: Role, after: Role, change: str) -> str | None:
    if type(after) not in WITHIN_EPOCH[type(before)]:
        return change
    if before.leader_id is not None and after.leader_id != before.leader_id:
        return f"{change}: it knew the leader {before.leader_id}, now {after.leader_id}"
    leads = type(after) in (Leader, Resigned)
    if before.voted_key is not None and not leads and after.voted_key != before.voted_key:
        return f"{change}: it voted for {before.voted_key.id}, now for {after.voted_key}"
    return None


def _named(role: Role) -> str:
    return f"{type(role).__name__} in epoch {role.epoch}"


def probe_role(probes: Probes, role: Role, past: Past, epoch: int) -> None:
    """Set the marks of a role, by what was seen of the node before."""
    if type(role) is Resigned:
        probes.hit("leader_resigned")
    if type(role) is Prospective and past.role is Candidate and epoch == past.epoch:
        probes.hit("election_lost_and_retried")
    if type(role) is Prospective and past.role is Follower:
        probes.hit("follower_became_prospective")
    if type(role) is Follower and past.role is Prospective and epoch == past.epoch:
        probes.hit("prospective_went_back")
    if type(role) is Follower and past.role is Leader:
        probes.hit("leader_deposed")
