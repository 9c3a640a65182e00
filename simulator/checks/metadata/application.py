"""I8: a node applies every committed batch once, with as many records as were committed.

A record applied twice mostly gives the same image, so published images do not show it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from metadata.loader import CommittedBatch, Loader
from simulator.checks.metadata.ledger import Ledger
from simulator.cluster.instance_methods import replace_method


class LoaderWatch:
    """Watch of the batches that one process applies; it replaces the loader's bound `commit`.

    After a snapshot, or what a process computed as the leader, it goes on from the end of that.
    """

    def __init__(self, loader: Loader) -> None:
        commit = loader.commit
        self._broken: str | None = None
        self._taken: list[tuple[int, int]] = []
        """Base offset and number of records of the batches applied since the last look."""

        def watched(batches: Iterable[CommittedBatch]) -> Any:
            return commit(self._noted(batches, int(loader.end_offset)))

        replace_method(loader, "commit", watched)

    def _noted(self, batches: Iterable[CommittedBatch], end: int) -> Iterator[CommittedBatch]:
        for batch in batches:
            if batch.base_offset != end and self._broken is None:
                self._broken = f"it applies a batch at {batch.base_offset}, it had applied {end}"
            self._taken.append((batch.base_offset, len(batch.records)))
            end = batch.end_offset
            yield batch

    def broken(self, ledger: Ledger) -> str | None:
        """Describe a batch applied otherwise than it is committed, None if there is none."""
        taken, self._taken = self._taken, []
        for base_offset, count in taken:
            committed = ledger.record_counts.get(base_offset, count)
            if count != committed:
                return f"it applied {count} records of {committed} in the batch at {base_offset}"
        return self._broken
