"""The fast election: pre-votes as soon as there is evidence of leader failure. Not in Kafka.

Kafka's follower waits for `controller.quorum.fetch.timeout.ms` (2 s) before it suspects its leader.
A failed process can be detected sooner: its connection closes and a new one is refused, or the
leader itself reports its resignation. Such evidence shortens the wait, and nothing else: a voter
that campaigns on it asks for pre-votes (KIP-996) and for votes by the same rules as after a
time-out, so that wrong evidence costs a round of pre-votes and never the safety of an election.

1. Evidence is about one epoch. A higher epoch makes it void, except for the candidacy it led to.
2. A follower with evidence grants pre-votes even after a recent fetch (`has_fetched` is reset).
3. Voters wait by rank, 50 ms each, so that one of them starts first. The lost leader has no rank.
   After EndQuorumEpoch the rank is the position among the leader's preferred successors.
   Who rejects a pre-vote for its shorter log does not wait for its rank any more, as that one may
   not win: 4 ms for each voter before it, without the one that asked.
4. A lost round is repeated: after 4 to 8 ms, for a voter that rejected may be about to notice the
   failure, then after twice as long each time, up to 50 to 100 ms; thirteen rounds at most, and
   then only the ordinary time-outs apply. A voter that grants a pre-vote postpones its own round by
   50 to 100 ms.
5. The lost leader counts as a rejection at once, unless no majority is left without it.
6. A candidate with evidence waits 150 to 300 ms for its votes, not a whole election time-out.
7. The first election does not wait for a time-out either: a majority of voters without a known
   leader, this one included, is evidence.
"""

import msgspec

from raft.config import (
    EVIDENCE_CANDIDATE_MS,
    EVIDENCE_FIRST_RETRY_MS,
    EVIDENCE_RANK_MS,
    EVIDENCE_RETRY_MS,
    EVIDENCE_ROUNDS_MAX,
    RaftConfig,
)
from raft.fetching.epoch_cache import LogView
from raft.roles import Follower, Role
from wire.types import LeaderEpoch, NodeId, Rng


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that lets this voter campaign before its time-out, and the time of the next round.

    `leader_id` is the leader whose process is gone; None when it resigned (it is alive and votes)
    and when the quorum knows no leader at all (first election).
    """

    epoch: LeaderEpoch
    leader_id: NodeId | None
    due_ms: int
    rounds_left: int = EVIDENCE_ROUNDS_MAX


class FastElection:
    """The fast election of one replica; it holds at most one evidence.

    Args:
        config: `evidence` False disables it.
        log: asked for the voters, whose ranks are positions in the order of their ids; a node that
            is none of them has no fast election, for an observer never campaigns.
        rng: source of the random waits.
    """

    __slots__ = ("_config", "_key", "_leaderless", "_log", "_rng", "evidence")

    def __init__(self, config: RaftConfig, log: LogView, rng: Rng) -> None:
        self._config = config
        self._key = config.self_key
        self._log = log
        self._rng = rng
        self.evidence: Evidence | None = None
        self._leaderless: set[NodeId] | None = set()
        """Voters that reported no known leader; None once the first election is over."""

    @property
    def _is_on(self) -> bool:
        config = self._config
        return config.evidence and config.can_vote and self._log.voters.is_voter(self._key)

    # ---- adding evidence -----------------------------------------------------------------------

    def note(self, role: Role, leader_id: NodeId | None, delay_ms: int, now_ms: int) -> None:
        """Add evidence about the role's epoch, due after `delay_ms`, unless there is some."""
        if not self._is_on or self.is_valid(role.epoch):
            return
        assert delay_ms >= 0, f"{delay_ms=}"
        self.evidence = Evidence(epoch=role.epoch, leader_id=leader_id, due_ms=now_ms + delay_ms)
        if isinstance(role, Follower):
            role.has_fetched = False

    def note_lost(self, role: Role, leader_id: NodeId | None, now_ms: int) -> None:
        """Note that the leader's process is gone or no longer leads; voters wait by rank."""
        if self._is_on:
            self.note(role, leader_id, self._rank_delay_ms(leader_id), now_ms)

    def note_resigned(self, role: Role, place: int, now_ms: int) -> None:
        """Note that the leader resigned with this voter at `place` among its successors."""
        self.note(role, None, place * EVIDENCE_RANK_MS, now_ms)

    def note_leaderless(self, role: Role, voter_id: NodeId, now_ms: int) -> None:
        """Count a voter without a known leader; a majority of them is evidence, once."""
        if self._leaderless is None:
            return
        self._leaderless.add(voter_id)
        if len(self._leaderless) + 1 > len(self._log.voters) // 2:
            self._leaderless = None
            self.note_lost(role, None, now_ms)

    def _rank_delay_ms(self, lost_leader_id: NodeId | None) -> int:
        return self._log.voters.rank(self._config.node_id, lost_leader_id) * EVIDENCE_RANK_MS

    # ---- dropping evidence ---------------------------------------------------------------------

    def forget(self) -> None:
        """Drop the evidence: the leader responded, a vote was granted, or there is a new leader."""
        self.evidence = None

    def end_first_election(self) -> None:
        """Stop counting voters without a leader: from now on only a lost leader is evidence."""
        self._leaderless = None

    # ---- acting on evidence --------------------------------------------------------------------

    def is_valid(self, epoch: LeaderEpoch) -> bool:
        """True if there is evidence about `epoch`."""
        return self.evidence is not None and self.evidence.epoch == epoch

    def is_due(self, epoch: LeaderEpoch, now_ms: int) -> bool:
        """True if a round of pre-votes may begin."""
        evidence = self.evidence
        return evidence is not None and evidence.epoch == epoch and evidence.due_ms <= now_ms

    def due_ms(self, epoch: LeaderEpoch) -> int | None:
        """Return the earliest time of the next round of pre-votes; None without evidence."""
        evidence = self.evidence
        return evidence.due_ms if evidence is not None and evidence.epoch == epoch else None

    def lost_leader_id(self, epoch: LeaderEpoch) -> NodeId | None:
        """Return the lost leader, counted as a rejection; None if it resigned or is unknown."""
        evidence = self.evidence
        return evidence.leader_id if evidence is not None and evidence.epoch == epoch else None

    def overtake(self, asking_id: NodeId, now_ms: int) -> None:
        """Do not wait for the rank any longer: a voter with a shorter log asked for pre-votes.

        Of three voters that one cannot win without this one, which rejects it. Of more it may: then
        both can be candidates of one epoch, which still ends most elections sooner than the wait.
        Once this voter has asked itself its pauses are short, and stay as they are.
        """
        evidence = self.evidence
        if evidence is None or evidence.rounds_left < EVIDENCE_ROUNDS_MAX:
            return
        mine = self._config.node_id
        rank = self._log.voters.rank(mine, evidence.leader_id) - (asking_id < mine)
        due_ms = min(evidence.due_ms, now_ms + rank * EVIDENCE_FIRST_RETRY_MS)
        self.evidence = msgspec.structs.replace(evidence, due_ms=due_ms)

    def postpone(self, epoch: LeaderEpoch, now_ms: int) -> None:
        """Delay the next round by 50 to 100 ms, so that another voter's round can finish."""
        evidence = self.evidence
        if evidence is None or evidence.epoch != epoch:
            return
        self._delay(evidence, EVIDENCE_RETRY_MS, now_ms)

    def _delay(self, evidence: Evidence, pause_ms: int, now_ms: int) -> None:
        """Set the time of the next round, `pause_ms` to twice that away."""
        delay_ms = pause_ms + self._rng.randrange(pause_ms + 1)
        self.evidence = msgspec.structs.replace(evidence, due_ms=now_ms + delay_ms)

    def spend_round(self, epoch: LeaderEpoch, now_ms: int, *, is_lost: bool) -> None:
        """End a round of pre-votes and schedule the next one, if any, sooner after the first.

        An undecided round is the last: voters that did not respond in time will not soon.
        """
        evidence = self.evidence
        if evidence is None or evidence.epoch != epoch or not is_lost or evidence.rounds_left <= 1:
            self.evidence = None
            return
        lost = EVIDENCE_ROUNDS_MAX - evidence.rounds_left
        spent = msgspec.structs.replace(evidence, rounds_left=evidence.rounds_left - 1)
        self._delay(spent, min(EVIDENCE_FIRST_RETRY_MS << lost, EVIDENCE_RETRY_MS), now_ms)

    def candidate_wait_ms(self, epoch: LeaderEpoch, election_timeout_ms: int) -> int:
        """Return the vote wait of the next epoch's candidate; the evidence moves to that epoch.

        Args:
            epoch: epoch of the pre-votes that were won.
            election_timeout_ms: wait of a candidate without evidence.
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
