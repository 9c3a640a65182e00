"""The costs of what a fetcher does, in units of the budget of a turn."""

from typing import Final

ROW_UNITS: Final = 50
"""Cost of a slice, or of a row without records."""
BATCH_UNITS: Final = 6
"""Cost of a batch in a slice: its header is checked, indexed and noted."""
BYTES_PER_UNIT: Final = 512
"""Bytes of a slice that cost a unit: they are checked and written."""
DELAY_UNITS: Final = 1
"""Cost of a partition that is delayed because its request has no usable response."""
END_UNITS: Final = 3
"""Cost of the end of a delay."""
ENDS_MIN: Final = 16
"""Delays that a step ends also where others have spent the budget."""
CUT_UNITS: Final = 200
"""Cost of a truncation inside a segment: lengths of three files, a look at some headers."""
CUT_SEGMENT_UNITS: Final = 600
"""Cost of each segment that goes, with a sync of the directory."""
REPLAY_BYTES: Final = 8 * 1024
"""Bytes of a piece of the replay of producers; at least a batch is one."""
REPLAY_UNITS: Final = 50
"""Cost of a piece of the replay: the batch where it begins is looked for."""


def replay_units(batch_count: int, size_bytes: int) -> int:
    """Cost of a piece of the replay with so many batches and bytes."""
    return REPLAY_UNITS + batch_count * BATCH_UNITS + size_bytes // BYTES_PER_UNIT
