"""Coverage marks: rare things that a long run has to have met, else it proves little.

The marks are set by the simulator from what it sees (`checks/core_tap.py`, the invariants, the
world); production code holds none. `kraftline sim --require-marks` fails when one never fired.
"""

from typing import Final

MARKS: Final = (
    # elections
    "leader_elected",
    "leader_deposed",
    "leader_resigned",
    "leader_resigned_by_check_quorum",
    "leader_resigned_by_stalled_flush",
    "two_candidates_in_one_epoch",
    "election_lost_and_retried",
    "follower_became_prospective",
    "prospective_went_back",
    "pre_vote_granted",
    "pre_vote_refused",
    "vote_refused",
    "vote_refused_for_shorter_log",
    "vote_withheld",
    "evidence",
    # replication
    "stale_response_ignored",
    "older_epoch_committed_by_own_entry",
    "log_truncated",
    "truncated_by_diverging_epoch",
    "uncommitted_tail_overwritten",
    "segment_rolled",
    "torn_tail_repaired",
    "snapshot_appeared",
    "snapshot_fetched",
    "snapshot_fetched_mid_load",
    "log_start_moved",
    # controller and brokers
    "controller_renounced",
    "controller_reverted_speculative_state",
    "broker_fenced",
    "request_forwarded",
    # buggify
    "election_timeout_extreme",
    "first_vote_response_lost",
    "minimal_quorum_asked",
    "flush_reported_late",
    "begin_epoch_late",
    "events_taken_together",
    "event_between_halves",
    "flushed_between_halves",
    "flushed_behind_a_turn",
    "apply_stalled",
    # faults with an effect
    "leader_cut_off",
    "leadership_transferred",
    "transfer_given_up",
    "leader_stopped",
    "disk_full",
    "bit_rot",
    "lost_write",
    "misdirected_write",
    "damage_refused",
    "damage_stopped_a_node",
    "node_stopped_by_sync_error",
    "node_stopped_by_read_error",
    "node_stopped_without_memory",
    "node_stopped_by_write_error",
    "swizzled",
    "request_lost",
    "response_lost",
    "full_link_reset",
    "full_link_told_one_side",
    "restart_storm",
    "crashed_during_start",
    "start_refused_by_read_error",
    "killed_between_disk_operations",
    "power_failed_on_a_faulty_disk",
    "client_connection_reset",
    "client_link_cut",
    "client_link_clogged",
    "links_uneven",
    "disk_replaced",
    "voter_wiped",
    "wiped_voter_proven",
    "crashed_between_disk_operations",
    "all_nodes_down",
    "majority_alone",
    "silent_broker_fenced",
    "progress_under_faults",
)
"""`majority_alone`: the liveness phase ran while nodes outside the core stayed faulty.
`silent_broker_fenced`: one of them was a broker, and its session had time to end.
`progress_under_faults`: writes went on with a slow disk and lost packets."""

SKIPS: Final = ("snapshot_not_compared",)
"""Checks that could not be made; no run has to meet one, so they are no marks.

`snapshot_not_compared`: a snapshot so old that the image at its offset is no longer kept."""


class Probes:
    """Counts of marks, and of skipped checks."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys((*MARKS, *SKIPS), 0)

    def hit(self, mark: str) -> None:
        """Count a mark."""
        assert mark in self.counts, f"unknown {mark=}"
        self.counts[mark] += 1

    @property
    def marks(self) -> dict[str, int]:
        """Counts of all marks, met or not."""
        return {name: self.counts[name] for name in MARKS}

    @property
    def skips(self) -> dict[str, int]:
        """Counts of the checks that were skipped."""
        return {name: self.counts[name] for name in SKIPS if self.counts[name]}
