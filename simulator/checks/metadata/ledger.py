"""Everything committed in a world, and the one image that it leads to.

Kept by the simulator alone: a batch is entered the first time any high watermark passes it.
The oracle applies the committed bytes by itself; the image of every node has to equal its image.
"""

from typing import Final

from metadata.image import Broker, Image
from metadata.loader import Loader, committed_batches
from simulator.checks.operations.committed_writes import CommittedWrites
from simulator.checks.raft.log_mirror import Entry
from wire.batches.batch import CONTROL_BIT, iterate_batches
from wire.batches.control_records import ControlType, control_type
from wire.persistent_map import Map
from wire.types import NodeId

IMAGES_KEPT: Final = 400
ATTRIBUTES_LOW_AT: Final = 22


class Ledger:
    """Committed batches in order, and images at their ends."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._index: dict[int, int] = {}
        self._index_of_end: dict[int, int] = {}
        self._loader = Loader()
        self.writes = CommittedWrites()
        self.committed_in: dict[int, int] = {}
        """Base offset of a batch -> epoch in which it was committed."""
        self.record_counts: dict[int, int] = {}
        """Base offset of a batch -> its records of metadata, 0 for a control batch."""
        self.voter_changes: list[int] = []
        """Base offsets of control batches that would change the voters or their version."""
        self.fencings = 0
        """Number of times that a serving broker was fenced."""
        self.images: dict[int, Image] = {0: self._loader.image}
        self.batches: dict[tuple[int, int], tuple[Entry, Entry | None]] = {}
        """(epoch, base offset) -> the batch and the one before it, of every log so far."""

    def last_known_in(self, epoch: int) -> Entry | None:
        """Last batch that this or an earlier epoch committed; a later epoch may have more."""
        newest = reversed(self.entries)
        return next((e for e in newest if self.committed_in[e.base_offset] <= epoch), None)

    @property
    def end_offset(self) -> int:
        """End (exclusive) of what is committed."""
        return self.entries[-1].end_offset if self.entries else 0

    def entry_at(self, base_offset: int) -> Entry | None:
        """Committed batch that begins here, if any."""
        number = self._index.get(base_offset)
        return None if number is None else self.entries[number]

    def entry_ending_at(self, end_offset: int) -> Entry | None:
        """Committed batch whose end (exclusive) is here, if any."""
        number = self._index_of_end.get(end_offset)
        return None if number is None else self.entries[number]

    def largest_batch(self, offset: int) -> int:
        """Records of metadata in the largest batch from an offset on."""
        counts = [count for base, count in self.record_counts.items() if base >= offset]
        return max(counts, default=0)

    def commit(self, entry: Entry, content: bytes, epoch: int = 0) -> None:
        """Enter the next batch with its bytes, and the epoch whose leader committed it."""
        self.committed_in[entry.base_offset] = epoch
        assert entry.base_offset == self.end_offset, f"{entry=} {self.end_offset=}"
        self._index[entry.base_offset] = len(self.entries)
        self._index_of_end[entry.end_offset] = len(self.entries)
        self.entries.append(entry)
        if content[ATTRIBUTES_LOW_AT] & CONTROL_BIT:
            self._note_voter_changes(entry, content)
        brokers = self._loader.image.brokers
        batches = list(committed_batches(content))
        for batch in batches:
            self.record_counts[batch.base_offset] = len(batch.records)
        self._loader.commit(batches)
        self.writes.take(batches)
        if self._loader.image.brokers is not brokers:
            self._count_fencings(brokers)
        self.images[entry.end_offset] = self._loader.image
        while len(self.images) > IMAGES_KEPT:
            del self.images[next(iter(self.images))]

    def _note_voter_changes(self, entry: Entry, content: bytes) -> None:
        for batch in iterate_batches(content):
            kinds = {control_type(record.key) for record in batch.records()}
            if kinds & {ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS}:
                self.voter_changes.append(entry.base_offset)

    def _count_fencings(self, before: Map[NodeId, Broker]) -> None:
        for number, broker in self._loader.image.brokers.items():
            known = before.get(number)
            if broker.fenced and known is not None and not known.fenced:
                self.fencings += 1

    @property
    def image(self) -> Image:
        """The newest committed image, outside any open transaction."""
        return self._loader.image

    @property
    def is_in_transaction(self) -> bool:
        """True if a metadata transaction is open at the end."""
        return self._loader.transaction_start is not None
