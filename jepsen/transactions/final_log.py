"""Committed records of a partition, by the markers in it: no word of a broker is needed.

A record of a transaction belongs to the next marker of its producer behind it.
"""

from typing import Final

from jepsen.records.brokers import Row
from wire.batches.batch import Batch, iterate_batches
from wire.batches.control_records import ControlType, control_type
from wire.errors import CorruptBatchError


class DamageError(Exception):
    """No log was fetched; the text is for people."""


class Resolving:
    """Takes the batches of a partition from its start on, and sorts their records."""

    def __init__(self) -> None:
        """Begin at offset 0."""
        self.position = 0
        """Offset behind the last batch that was taken."""
        self.committed: Final[list[Row]] = []
        """By offset once `rows` sorted them."""
        self.aborted: Final[list[Row]] = []
        self._open: Final[dict[int, list[Row]]] = {}

    @property
    def open_producers(self) -> list[int]:
        """Ids of producers whose last transaction has no marker."""
        return sorted(self._open)

    def rows(self) -> list[Row]:
        """Committed records, by offset."""
        return sorted(self.committed)

    def take(self, content: bytes) -> None:
        """Take what a fetch from `position` gave.

        Raises:
            DamageError: a batch is damaged, or a control record none of a transaction's.
        """
        try:
            for batch in iterate_batches(content):
                if batch.header.end_offset <= self.position:
                    continue
                if not batch.crc_is_valid:
                    raise DamageError(f"wrong checksum at offset {batch.header.base_offset}")
                self._take(batch)
                self.position = int(batch.header.end_offset)
        except CorruptBatchError as error:
            raise DamageError(str(error)) from error

    def _take(self, batch: Batch) -> None:
        header, producer_id = batch.header, int(batch.header.producer_id)
        if header.is_control:
            (marker,) = batch.records()
            kind = control_type(marker.key)
            if kind not in (ControlType.ABORT, ControlType.COMMIT):
                raise DamageError(f"control record of type {kind} at offset {header.base_offset}")
            target = self.committed if kind is ControlType.COMMIT else self.aborted
            target += self._open.pop(producer_id, [])
            return
        rows = [
            Row(int(record.offset), int(header.leader_epoch), record.value or b"")
            for record in batch.records()
        ]
        if header.is_transactional:
            self._open.setdefault(producer_id, []).extend(rows)
        else:
            self.committed.extend(rows)
