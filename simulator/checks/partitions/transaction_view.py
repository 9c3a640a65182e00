"""The transactions of a log as a reader of all of it knows them, read from its bytes alone."""

from collections.abc import Sequence

import msgspec

from simulator.checks.partitions.record_logs import StoredBatch


class _Open(msgspec.Struct):
    """A transaction without a marker."""

    first_offset: int
    batches: list[StoredBatch]


class TransactionView(msgspec.Struct):
    """Transactions of a log."""

    visible: dict[int, bytes | None]
    """By offset: a value that is committed; None for a marker, and for what is not committed."""
    spans: list[tuple[int, int | None]]
    """First offset of each transaction, and offset of its marker; None while it is open."""
    wrong: str
    """The first mistake; empty if nothing is found."""

    @property
    def open(self) -> list[int]:
        """First offsets of the transactions without a marker."""
        return [first for first, marker in self.spans if marker is None]

    def stable_below(self, high_watermark: int) -> int:
        """The last stable offset of a replica with this high watermark."""
        unstable = (
            first for first, marker in self.spans if marker is None or marker >= high_watermark
        )
        return min([high_watermark, *unstable])


def view_of(batches: Sequence[StoredBatch]) -> TransactionView:
    """Follow the transactions of a log, from its beginning."""
    view = TransactionView({}, [], "")
    opened: dict[int, _Open] = {}
    epochs: dict[int, int] = {}
    for batch in batches:
        producer_id, epoch = batch.producer_id, batch.producer_epoch
        last = epochs.get(producer_id, -1)
        if producer_id >= 0 and epoch < last and not view.wrong:
            view.wrong = f"{batch.base_offset} is of epoch {epoch} of {producer_id} behind {last}"
        epochs[producer_id] = max(last, epoch)
        view.visible.update(dict.fromkeys(range(batch.base_offset, batch.end_offset)))
        if batch.marker is not None:
            _end(view, opened.pop(producer_id, None), batch)
        elif batch.is_transactional:
            known = opened.setdefault(producer_id, _Open(batch.base_offset, []))
            if known.batches and known.batches[0].producer_epoch != epoch and not view.wrong:
                view.wrong = f"{batch.base_offset} has another epoch than its transaction"
            known.batches.append(batch)
        else:
            _show(view, batch)
    view.spans += [(each.first_offset, None) for each in opened.values()]
    return view


def _end(view: TransactionView, opened: _Open | None, marker: StoredBatch) -> None:
    if opened is None:
        return
    view.spans.append((opened.first_offset, marker.base_offset))
    if marker.marker:
        for batch in opened.batches:
            _show(view, batch)


def _show(view: TransactionView, batch: StoredBatch) -> None:
    view.visible.update(enumerate(batch.values, batch.base_offset))
