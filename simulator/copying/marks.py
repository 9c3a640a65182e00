"""Coverage marks of runs with transactions and groups."""

from typing import Final

COPY_MARKS: Final = (
    "copied",
    "copied_with_offsets_added",
    "copy_rewound",
    "copy_stalled",
    "copy_refused_by_group",
    "offset_unstable",
)
"""`copied_with_offsets_added`: by an older client, which adds the partition of offsets itself.
`copy_refused_by_group`: the coordinator of the group took no offsets of a transaction.
`offset_unstable`: a member waited for the end of another one's transaction."""
