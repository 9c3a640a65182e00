"""Coverage marks: rare things that a long run has to have met, else it proves little.

The marks are set by the simulator from what it sees; production code holds none.
"""

from typing import Final

MARKS: Final = (
    "leader_elected",
    "leader_resigned",
    "leader_deposed",
    "election_lost_and_retried",
    "follower_became_prospective",
    "prospective_went_back",
    "log_truncated",
    "torn_tail_cut",
    "uncommitted_tail_overwritten",
    "controller_renounced",
    "snapshot_appeared",
    "snapshot_fetched",
    "segment_rolled",
    "vote_refused",
    "evidence",
    "disk_full",
    "node_stopped_by_sync_error",
    "crashed_between_disk_operations",
    "broker_fenced",
    "request_forwarded",
    "all_nodes_down",
)


class Probes:
    """Counts per mark."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(MARKS, 0)

    def hit(self, mark: str) -> None:
        """It happened."""
        assert mark in self.counts, f"unknown {mark=}"
        self.counts[mark] += 1
