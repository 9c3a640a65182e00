"""The fast election: pre-votes as soon as there is evidence that nobody leads. Not in Kafka.

Kafka's follower waits for `controller.quorum.fetch.timeout.ms` (2 s) before it doubts its leader.
A process that is gone shows itself sooner: its connection closes and a new one is refused, or the
leader itself says that it resigned. Such evidence shortens the wait, and nothing else: who
campaigns on it asks for pre-votes (KIP-996) and for votes by the same rules as after a time-out,
so that wrong evidence costs a round of pre-votes and never the safety of an election.

1. Evidence is about one epoch. A higher epoch makes it void, except for the candidate that it made.
2. A follower with evidence grants pre-votes though it fetched just now (`has_fetched` is reset).
3. Voters wait by rank, 50 ms each, so that one of them asks first. Ranks leave out who is gone.
   After EndQuorumEpoch the rank is the place among the leader's preferred successors.
4. A round that is lost is asked again after 50 to 100 ms, ten rounds at most; then the ordinary
   time-outs rule. Who granted another's pre-vote postpones its own round.
5. The leader that is gone counts as a refusal at once, unless no majority is left without it.
6. A candidate with evidence waits 150 to 300 ms for its votes, not a whole election time-out.
7. At the first start nobody waits for a time-out either: once a majority, this voter included, says
   that it knows no leader, that is evidence.
"""

import msgspec

from raft.config import (
    EVIDENCE_CANDIDATE_MS,
    EVIDENCE_RANK_MS,
    EVIDENCE_RETRY_MS,
    EVIDENCE_ROUNDS_MAX,
    RaftConfig,
)
from raft.roles import Follower, Role
from raft.voters import VoterSet
from wire.types import LeaderEpoch, NodeId, Rng


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Why this voter need not wait for its time-out, and when it asks next.

    `leader_id` is whose process is gone, None when it resigned by itself (it is there and votes)
    and when the quorum knows no leader at all (first election).
    """

    epoch: LeaderEpoch
    leader_id: NodeId | None
    due_ms: int
    rounds_left: int = EVIDENCE_ROUNDS_MAX


class FastElection:
    """What one replica knows that lets it campaign before its time-out; at most one evidence.

    Args:
        config: `evidence` False switches all of it off.
        voters: ranks are places among their ids.
        is_voter: an observer never campaigns.
        rng: chance of the waits.
    """

    __slots__ = ("_config", "_is_on", "_leaderless", "_rng", "_voters", "evidence")

    def __init__(self, config: RaftConfig, voters: VoterSet, rng: Rng, *, is_voter: bool) -> None:
        self._config = config
        self._voters = voters
        self._rng = rng
        self._is_on = config.evidence and is_voter
        self.evidence: Evidence | None = None
        self._leaderless: set[NodeId] | None = set() if is_voter else None
        """Voters that said they know no leader; None once the first election is over."""

    # ---- what is evidence ----------------------------------------------------------------------

    def note(self, role: Role, leader_id: NodeId | None, delay_ms: int, now_ms: int) -> None:
        """Take `leader_id` for gone: ask for pre-votes after `delay_ms`, unless that is known."""
        if not self._is_on or self.is_valid(role.epoch):
            return
        assert delay_ms >= 0, f"{delay_ms=}"
        self.evidence = Evidence(epoch=role.epoch, leader_id=leader_id, due_ms=now_ms + delay_ms)
        if isinstance(role, Follower):
            role.has_fetched = False

    def note_lost(self, role: Role, leader_id: NodeId | None, now_ms: int) -> None:
        """The process of the leader is gone, or refuses to lead: rank decides who asks first."""
        if self._is_on:
            self.note(role, leader_id, self._rank_delay_ms(leader_id), now_ms)

    def note_resigned(self, role: Role, place: int, now_ms: int) -> None:
        """The leader resigned and named its successors; it is alive, and votes."""
        self.note(role, None, place * EVIDENCE_RANK_MS, now_ms)

    def note_leaderless(self, role: Role, voter_id: NodeId, now_ms: int) -> None:
        """A voter knows no leader either; a majority of them is evidence, once."""
        if self._leaderless is None:
            return
        self._leaderless.add(voter_id)
        if len(self._leaderless) + 1 > len(self._voters.ids) // 2:
            self._leaderless = None
            self.note_lost(role, None, now_ms)

    def _rank_delay_ms(self, lost_leader_id: NodeId | None) -> int:
        return self._voters.rank(self._config.node_id, lost_leader_id) * EVIDENCE_RANK_MS

    # ---- what ends it --------------------------------------------------------------------------

    def forget(self) -> None:
        """The leader answers after all, a vote was given away, or somebody leads."""
        self.evidence = None

    def end_first_election(self) -> None:
        """There was a leader or an election: only the loss of a leader is evidence from now on."""
        self._leaderless = None

    # ---- what follows from it ------------------------------------------------------------------

    def is_valid(self, epoch: LeaderEpoch) -> bool:
        """Whether there is evidence about this epoch."""
        return self.evidence is not None and self.evidence.epoch == epoch

    def is_due(self, epoch: LeaderEpoch, now_ms: int) -> bool:
        """Whether a round of pre-votes may begin."""
        evidence = self.evidence
        return evidence is not None and evidence.epoch == epoch and evidence.due_ms <= now_ms

    def due_ms(self, epoch: LeaderEpoch) -> int | None:
        """When a round of pre-votes may begin; None without evidence."""
        evidence = self.evidence
        return evidence.due_ms if evidence is not None and evidence.epoch == epoch else None

    def lost_leader_id(self, epoch: LeaderEpoch) -> NodeId | None:
        """Whose refusal need not be waited for."""
        evidence = self.evidence
        return evidence.leader_id if evidence is not None and evidence.epoch == epoch else None

    def postpone(self, epoch: LeaderEpoch, now_ms: int) -> None:
        """Ask again after 50 to 100 ms: let the one whose pre-vote was granted finish."""
        evidence = self.evidence
        if evidence is None or evidence.epoch != epoch:
            return
        delay_ms = EVIDENCE_RETRY_MS + self._rng.randrange(EVIDENCE_RETRY_MS + 1)
        self.evidence = msgspec.structs.replace(evidence, due_ms=now_ms + delay_ms)

    def spend_round(self, epoch: LeaderEpoch, now_ms: int, *, is_lost: bool) -> None:
        """A round of pre-votes is over: the next one later, or none.

        One that nobody decided in time is the last: who does not answer now will not soon.
        """
        evidence = self.evidence
        if evidence is None or evidence.epoch != epoch or not is_lost or evidence.rounds_left <= 1:
            self.evidence = None
            return
        self.evidence = msgspec.structs.replace(evidence, rounds_left=evidence.rounds_left - 1)
        self.postpone(epoch, now_ms)

    def candidate_wait_ms(self, epoch: LeaderEpoch, election_timeout_ms: int) -> int:
        """How long the candidate of the next epoch waits for votes; takes the evidence there.

        Args:
            epoch: of the pre-votes that were won.
            election_timeout_ms: as drawn for a candidate without evidence.
        """
        evidence = self.evidence
        if evidence is None or evidence.epoch != epoch or evidence.rounds_left <= 0:
            self.evidence = None
            return election_timeout_ms
        self.evidence = msgspec.structs.replace(
            evidence, epoch=LeaderEpoch(epoch + 1), rounds_left=evidence.rounds_left - 1
        )
        wait_ms = EVIDENCE_CANDIDATE_MS + self._rng.randrange(EVIDENCE_CANDIDATE_MS)
        return min(election_timeout_ms, wait_ms)
