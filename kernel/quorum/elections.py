"""Elections of the metadata quorum that this node saw, each with its cause.

Observations of one process, gone with it: raft notes the first sign that a leader is lost
(raft/elections/leader_loss.py), and the election is over here when another one is known. Only the
former leader knows why it resigned; other nodes keep what they saw.
"""

from collections import Counter, deque
from typing import Final

import msgspec

from kernel.effects import Log, LogLevel
from network.clock import Clock
from raft.effects import LeaderChanged, VoteWithheld
from raft.elections.leader_loss import Cause, LeaderLoss
from wire.types import LeaderEpoch, NodeId

ELECTIONS_MAX: Final = 50
"""Elections that a node keeps, the newest ones."""


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """A new leader as this node learned of it, with what it saw before."""

    epoch: LeaderEpoch
    leader_id: NodeId
    cause: Cause
    evidence: str
    """The first sign of the loss, in words."""
    role: str
    """Role of this node when it noticed the loss."""
    lost_epoch: LeaderEpoch
    lost_leader_id: NodeId | None
    known_ms: int
    """Wall clock of this node when it knew the new leader."""
    leaderless_ms: int | None
    """Time from the noticed loss to the new leader; None if nothing was noticed before."""


class Elections:
    """The newest elections of a node, and counts of all since its start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.newest: deque[Election] = deque(maxlen=ELECTIONS_MAX)
        """Oldest first."""
        self.counts: Counter[Cause] = Counter()
        self.leaderless_ms: Counter[Cause] = Counter()
        """Time without a leader, summed up by cause."""

    def on_leader_changed(self, effect: LeaderChanged) -> None:
        """Keep an election that is over; a leader that was known at the start is none."""
        leader, loss = effect.leader, effect.loss
        if leader.leader_id is None or loss is None:
            return
        election = Election(
            epoch=leader.epoch,
            leader_id=leader.leader_id,
            cause=loss.cause,
            evidence=loss.evidence,
            role=loss.role,
            lost_epoch=loss.lost_epoch,
            lost_leader_id=loss.lost_leader_id,
            known_ms=self._clock.wall_ms,
            leaderless_ms=effect.leaderless_ms,
        )
        self.newest.append(election)
        self.counts[loss.cause] += 1
        self.leaderless_ms[loss.cause] += effect.leaderless_ms or 0


def log_fields(effect: LeaderChanged) -> dict[str, object]:
    """Return the fields of the log line: leader and epoch, and the cause if there is one."""
    fields: dict[str, object] = {
        "leader_id": effect.leader.leader_id,
        "epoch": effect.leader.epoch,
    }
    return fields if effect.loss is None else fields | _of_loss(effect.loss, effect.leaderless_ms)


def withheld(effect: VoteWithheld) -> Log:
    """Return the log line of an unproven voter that refused a candidate with records."""
    fields = {
        "candidate_id": effect.candidate_id,
        "epoch": effect.epoch,
        "reason": "this voter may have lost an earlier disk (.unproven): it votes for empty logs "
        "only until it has caught up with a leader",
        "if_no_leader_is_elected": "start the other voters; if a majority of the voters lost their "
        "disks: kraftline recover",
    }
    return Log(LogLevel.WARN, "vote_withheld", fields)


def _of_loss(loss: LeaderLoss, leaderless_ms: int | None) -> dict[str, object]:
    known = {} if leaderless_ms is None else {"leaderless_ms": leaderless_ms}
    return {"cause": loss.cause, "evidence": loss.evidence, "seen_as": loss.role, **known}
