"""Coverage marks of runs with records: things that a long run has to have met."""

from typing import Final

RECORDS_MARKS: Final = (
    # what is kept, and what was lost
    "isr_lost_power",
    "leader_changed_with_records",
    "producer_lost_its_state",
    "not_enough_replicas",
    # clients
    "sent_with_acks_0",
    "kept_with_acks_1",
    "codec_none",
    "codec_gzip",
    "codec_snappy",
    "codec_lz4",
    "codec_zstd",
    "read_from_follower",
    "looked_up_by_time",
    # administrators
    "replicas_reassigned",
    "topic_recreated",
    "topic_altered",
    "records_deleted",
    "preferred_leader_elected",
    "log_start_rose_by_asked",
    "log_start_rose_by_size",
    "log_start_rose_by_time",
    # nodes
    "log_cleaned",
    "directory_failed",
    "replica_moved",
    "stopped_by_a_directory",
    "stopped_cleanly",
)
"""`isr_lost_power`: all replicas in sync of a partition lost their power since they joined.
`kept_with_acks_1`: the leader that answered still led when the answer came."""

GROUPS_MARKS: Final = (
    "offset_committed",
    "offset_refused",
    "offset_fetched",
    "read_from_committed",
    "static_member_fenced",
)
"""Of runs with groups too."""
