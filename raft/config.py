"""What a raft core is told at start: identity, voters, time-outs and limits.

Defaults are Kafka's (`controller.quorum.*`, apache/kafka: raft/.../QuorumConfig.java).
"""

from typing import Final

import msgspec

from wire.types import DirectoryId, Endpoint, NodeId, ReplicaKey, Rng

FETCH_WAIT_MS_MAX: Final = 500
"""Kafka's long poll; shorter when the fetch time-out is short (see RaftConfig.fetch_wait_ms)."""

PARKED_FETCHES_MAX: Final = 10_000
"""Parked fetches of a leader; one more is answered at once instead of parked."""

OBSERVERS_MAX: Final = 10_000
"""Observers a leader remembers; one more is served but not listed."""

OBSERVER_EXPIRY_MS: Final = 300_000
"""An observer that has not fetched for so long is forgotten."""

EPOCH_MAX: Final = 2**31 - 1 - 2**16
"""A peer that names a higher epoch is refused: elections after it would not fit into 32 bits.

A request gets INVALID_REQUEST; an answer counts as failed and nothing in it is taken up.
"""

ELECTION_TIMEOUT_MS_MIN: Final = 50
"""The election time-out of a shorter setting (0 too): no answer could come within it."""

RETRY_BACKOFF_MS_MIN: Final = 1
"""The first retry back-off of a setting of 0, so that no retry is due when its failure is."""

EVIDENCE_RANK_MS: Final = 50
"""Pre-vote delay per rank after evidence, so that one node asks first."""

EVIDENCE_RETRY_MS: Final = 50
"""A lost evidence round is retried after this and up to as much again."""

EVIDENCE_ROUNDS_MAX: Final = 10
"""After so many lost rounds only the ordinary time-outs rule."""

EVIDENCE_CANDIDATE_MS: Final = 150
"""A candidate after evidence waits this and up to as much again before it asks anew."""

SNAPSHOT_RETRY_MS: Final = 1_000
"""A fetched snapshot that could not be kept is fetched again after this pause, or F/2."""

DISK_FULL_RETRY_MS: Final = 500
"""A replica whose disk is full fetches again after this pause, or F/2."""

SHUTDOWN_MS_MAX: Final = 5_000
"""A node that shuts down waits so long for its leadership to be in other hands."""

READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""What one Fetch or FetchSnapshot reads on the thread of the step, however much it asks for.

Kafka's largest batch (KafkaRaftClient.MAX_BATCH_SIZE_BYTES), and no follower of Kafka's asks for
more; a larger batch is still served whole.
"""

BACKOFF_DOUBLINGS_MAX: Final = 3
"""The retry back-off of one destination doubles at most so often (20 -> 160 ms)."""

assert EPOCH_MAX < 2**31 - 1, "elections after the highest epoch fit into 32 bits"
assert RETRY_BACKOFF_MS_MIN > 0, "no retry is due when its failure is"
assert EVIDENCE_RANK_MS <= EVIDENCE_RETRY_MS, "the next rank asks before the first asks again"
assert EVIDENCE_RETRY_MS <= EVIDENCE_CANDIDATE_MS, "a candidate waits longer than a pre-vote"
assert EVIDENCE_CANDIDATE_MS <= SHUTDOWN_MS_MAX, "leadership is handed over before a stop"


class RaftConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one replica; `voters` are the static voters (kraft.version 0)."""

    node_id: NodeId
    directory_id: DirectoryId | None = None
    cluster_id: str | None = None
    voters: tuple[tuple[NodeId, Endpoint], ...]
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    can_vote: bool = True
    """False on broker-only nodes: an observer even when the voters list names its id."""
    evidence: bool = True
    """Elections on evidence of failure; False gives Kafka's time-outs alone."""

    def __post_init__(self) -> None:
        """Assert the relations between the settings."""
        assert self.fetch_timeout_ms > 0, f"{self.fetch_timeout_ms=}"
        assert self.election_timeout_ms >= 0, f"{self.election_timeout_ms=}"
        assert self.request_timeout_ms > 0, f"{self.request_timeout_ms=}"
        assert self.retry_backoff_ms >= 0, f"{self.retry_backoff_ms=}"
        assert self.fetch_max_bytes > 0, f"{self.fetch_max_bytes=}"
        assert self.fetch_snapshot_max_bytes > 0, f"{self.fetch_snapshot_max_bytes=}"

    @property
    def self_key(self) -> ReplicaKey:
        """The replica key of this node."""
        return ReplicaKey(self.node_id, self.directory_id)

    def draw_election_timeout_ms(self, rng: Rng) -> int:
        """A fresh election time-out, uniform in [E, 2 E)."""
        base_ms = max(self.election_timeout_ms, ELECTION_TIMEOUT_MS_MIN)
        return base_ms + rng.randrange(base_ms)

    @property
    def fetch_wait_ms(self) -> int:
        """Long poll of a fetch: well below F/2, else healthy voters get BeginQuorumEpoch."""
        return min(FETCH_WAIT_MS_MAX, self.fetch_timeout_ms // 4)

    @property
    def check_quorum_ms(self) -> int:
        """A leader that heard no majority for so long resigns (1.5 F)."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """A voter that has not fetched for so long is told who leads (F/2)."""
        return self.fetch_timeout_ms // 2
