"""The rows of a Fetch response, which a follower takes in slices that end between batches.

A response has megabytes and thousands of batches: more than one turn has room for.
"""

import struct
from collections import deque
from collections.abc import Iterable
from typing import Final

from replication.follower.costs import BATCH_UNITS, BYTES_PER_UNIT, ROW_UNITS
from wire.batches.batch import LOG_OVERHEAD_BYTES
from wire.messages.replica_fetch import ReplicaFetchedPartition

_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8


class FetchedRow:
    """A row of a response, of which a part may have been taken."""

    def __init__(self, fetched: ReplicaFetchedPartition) -> None:
        self.fetched = fetched
        self.next_offset: int | None = None
        """The end of the log behind the slices that were taken; None before the first."""
        self._position = 0

    @property
    def is_taken(self) -> bool:
        """True behind the last slice."""
        return self._position >= len(self.fetched.records)

    def next_slice(self, units_max: int) -> tuple[memoryview, int]:
        """Whole batches that cost up to the units, at least one, and what they cost.

        A cut or impossible batch behind others is left out: it is fetched again. One that is the
        first of a row is a slice, for the log to refuse.
        """
        records, start = self.fetched.records, self._position
        end, units = start, ROW_UNITS
        while (size_bytes := _batch_bytes(records, end)) is not None:
            batch_units = BATCH_UNITS + size_bytes // BYTES_PER_UNIT
            if end > start and units + batch_units > units_max:
                self._position = end
                return records[start:end], units
            end += size_bytes
            units += batch_units
        self._position = len(records)
        if end == 0:
            return records, units + len(records) // BYTES_PER_UNIT
        return records[start:end], units


class FetchedRows:
    """The rows of a response in their order."""

    def __init__(self, partitions: Iterable[ReplicaFetchedPartition] = ()) -> None:
        self._rows = deque(map(FetchedRow, partitions))

    def __len__(self) -> int:
        """Return the number of rows that are not taken, or only in part."""
        return len(self._rows)

    @property
    def first(self) -> FetchedRow:
        """The row that is taken next."""
        return self._rows[0]

    def leave_first(self) -> None:
        """Take nothing more of that row."""
        self._rows.popleft()


def _batch_bytes(records: memoryview, position: int) -> int | None:
    """Bytes of the whole batch at the position; None if none is there, or with another length."""
    if len(records) - position < LOG_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_POSITION)
    size_bytes = LOG_OVERHEAD_BYTES + int(length)
    is_whole = length > 0 and position + size_bytes <= len(records)
    return size_bytes if is_whole else None
