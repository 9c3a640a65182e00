"""Configuration of a raft core: identity, voters, time-outs and limits.

Defaults are Kafka's (`controller.quorum.*`, apache/kafka: raft/.../QuorumConfig.java).
"""

from typing import Final

import msgspec

from wire.types import DirectoryId, Endpoint, NodeId, ReplicaKey, Rng

FETCH_WAIT_MS_MAX: Final = 500
"""Kafka's long poll; shorter when the fetch time-out is short (see RaftConfig.fetch_wait_ms)."""

BOOTSTRAP_ID_MAX: Final = NodeId(-2)
"""Destination id of the first bootstrap controller, whose node id is not known; the next is -3."""

PARKED_FETCHES_MAX: Final = 10_000
"""Parked fetches of a leader; any further fetch is answered at once instead of parked."""

OBSERVERS_MAX: Final = 10_000
"""Observers whose progress a leader tracks; any further one is served but not listed."""

OBSERVER_EXPIRY_MS: Final = 300_000
"""An observer that has not fetched for this long is removed."""

ELECTION_TIMEOUT_MS_MIN: Final = 50
"""Election time-out used for any shorter setting, 0 included: no response could be sooner."""

FETCH_TIMEOUT_MS_MIN: Final = 50
"""Fetch time-out used for any shorter setting, 0 included: no follower could fetch sooner."""

REQUEST_TIMEOUT_MS_MIN: Final = 50
"""Request time-out used for any shorter setting, 0 included: no response could be sooner."""

RETRY_BACKOFF_MS_MIN: Final = 1
"""First retry back-off when the setting is 0, so that a retry is due later than its failure."""

EVIDENCE_RANK_MS: Final = 50
"""Pre-vote delay per rank after evidence, so that one voter starts first."""

EVIDENCE_FIRST_RETRY_MS: Final = 4
"""Minimum pause after the first lost evidence round, doubled after each further one.

A follower rejects while it has not noticed the failure itself, which beside load comes some
milliseconds later; a whole EVIDENCE_RETRY_MS would be most of the time without a leader.
"""

EVIDENCE_RETRY_MS: Final = 50
"""Longest minimum pause after a lost evidence round; a pause is uniform in [minimum, 2 * minimum].

As long as this one's minimum is the pause of a voter that grants another's pre-vote.
"""

EVIDENCE_ROUNDS_MAX: Final = 13
"""Lost rounds after which only the ordinary time-outs apply; about 700 ms."""

EVIDENCE_CANDIDATE_MS: Final = 150
"""Minimum wait of a candidate after evidence for its votes; uniform in [this, 2 * this)."""

SNAPSHOT_RETRY_MS: Final = 1_000
"""Pause before a snapshot that could not be stored is fetched again; F/2 if that is shorter."""

DISK_FULL_RETRY_MS: Final = 500
"""Pause before a replica whose disk is full fetches again; F/2 if that is shorter."""

CAUGHT_UP_MS_MAX: Final = 3_600_000
"""Age of the last fetch up to which an observer may be added as voter (KIP-853)."""

SHUTDOWN_MS_MAX: Final = 5_000
"""Longest wait of a resigned leader that shuts down for its successor."""

TRANSFER_LAG_MAX: Final = 10_000
"""Records that a voter may be behind when the leadership is to be transferred to it.

That many are one or two fetches. Proposals wait until it has them: one farther behind is refused.
"""

READS_MAX: Final = 10_000
"""Linearizable reads of a leader that are not confirmed; any further one is refused."""

READ_ROUND_MS: Final = 2
"""Shortest time from one round of reads to the next: 500 rounds a second cost enough."""

READ_TIMEOUT_MS: Final = 2_000
"""Time after which a read that is not confirmed is refused."""

READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes that one Fetch or FetchSnapshot may read on the thread of the step, whatever it requests.

Kafka's largest batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES), and no follower of Kafka requests
more; a larger batch is still served whole.
"""

BACKOFF_DOUBLINGS_MAX: Final = 3
"""Doublings of the retry back-off of one destination, at most (20 -> 160 ms)."""

assert FETCH_TIMEOUT_MS_MIN // 4 > 0, "a fetch waits for records, however little"
assert RETRY_BACKOFF_MS_MIN > 0, "no retry is due when its failure is"
assert 0 < EVIDENCE_FIRST_RETRY_MS <= EVIDENCE_RETRY_MS, "the pauses grow"
assert EVIDENCE_RANK_MS <= EVIDENCE_RETRY_MS, "the next rank asks before the first asks again"
assert EVIDENCE_RETRY_MS <= EVIDENCE_CANDIDATE_MS, "a candidate waits longer than a pre-vote"
assert EVIDENCE_CANDIDATE_MS <= SHUTDOWN_MS_MAX, "leadership is handed over before a stop"


class RaftConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one replica; `voters`, the static ones, count until a record names others."""

    node_id: NodeId
    directory_id: DirectoryId | None = None
    cluster_id: str | None = None
    voters: tuple[tuple[NodeId, Endpoint], ...]
    bootstrap: tuple[Endpoint, ...] = ()
    """Controllers to ask for the leader, beside the voters; none needs to be a voter."""
    listeners: tuple[Endpoint, ...] = ()
    """Advertised controller listeners of this node, which it names while it leads."""
    listener: str = ""
    """Name of the listener by which controllers are reached; empty: that of the first one."""
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    kraft_version_max: int = 0
    """Highest kraft.version that this node supports, as its VotersRecord entry says."""
    announces_voter: bool = False
    """Send UpdateRaftVoter to each new leader at kraft.version 0 too, as Kafka since 4.1."""
    joins: bool = False
    """Ask the leader to make this node a voter, if it is none (`auto.join.enable`)."""
    can_vote: bool = True
    """False on broker-only nodes: an observer even when the voters list names its id."""
    evidence: bool = True
    """Elections on evidence of failure; False gives Kafka's time-outs alone."""

    def __post_init__(self) -> None:
        """Assert the relations between the settings."""
        assert self.fetch_timeout_ms >= FETCH_TIMEOUT_MS_MIN, f"{self.fetch_timeout_ms=}"
        assert self.election_timeout_ms >= 0, f"{self.election_timeout_ms=}"
        assert self.request_timeout_ms >= REQUEST_TIMEOUT_MS_MIN, f"{self.request_timeout_ms=}"
        assert self.retry_backoff_ms >= 0, f"{self.retry_backoff_ms=}"
        assert self.kraft_version_max >= 0, f"{self.kraft_version_max=}"
        assert self.fetch_max_bytes > 0, f"{self.fetch_max_bytes=}"
        assert self.fetch_snapshot_max_bytes > 0, f"{self.fetch_snapshot_max_bytes=}"

    @property
    def default_listener(self) -> str:
        """Name of the listener by which controllers are reached."""
        return self.listener or (self.listeners[0].listener if self.listeners else "")

    @property
    def self_key(self) -> ReplicaKey:
        """The replica key of this node."""
        return ReplicaKey(self.node_id, self.directory_id)

    def draw_election_timeout_ms(self, rng: Rng) -> int:
        """Draw an election time-out, uniform in [E, 2 E)."""
        base_ms = max(self.election_timeout_ms, ELECTION_TIMEOUT_MS_MIN)
        return base_ms + rng.randrange(base_ms)

    @property
    def fetch_wait_ms(self) -> int:
        """Maximum wait of a Fetch: well below F/2, else healthy voters get BeginQuorumEpoch."""
        return min(FETCH_WAIT_MS_MAX, self.fetch_timeout_ms // 4)

    @property
    def check_quorum_ms(self) -> int:
        """Check-quorum time-out: a leader without fetches of a majority for this long resigns."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """Interval without a fetch after which a voter is sent BeginQuorumEpoch (F/2)."""
        return self.fetch_timeout_ms // 2
