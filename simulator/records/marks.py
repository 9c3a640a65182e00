"""Coverage marks of runs with records: things that a long run has to have met."""

from typing import Final

RECORDS_MARKS: Final = (
    "isr_lost_power",
    "leader_changed_with_records",
    "slice_truncated",
)
"""`isr_lost_power`: all replicas in sync of a partition lost their power since they joined.
`slice_truncated`: bytes that an answer announced were truncated before they were sent."""
