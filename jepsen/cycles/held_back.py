"""Reads that end inside of a committed transaction because another one is open there.

A consumer of what is committed is given all below the last stable offset of a partition: the first
record of the oldest transaction that is open. Where that stands between two records of a committed
transaction, the first is given and the second is not yet. It is open until its markers are written,
which is after its end was answered.
"""

from collections.abc import Sequence
from typing import Final

from jepsen.cycles.orders import Order
from jepsen.cycles.transactions import NS, Append, Read, Transaction

MARKERS_NS: Final = 10 * NS
"""Between the answer to the end of a transaction and its last marker, while nodes are killed."""


def may_be_held_back(
    transactions: Sequence[Transaction],
    order: Order,
    reader: Transaction,
    read: Read,
    writer: Transaction,
) -> bool:
    """True if another transaction may be why a read has a part of what `writer` appended.

    Args:
        transactions: all of the history.
        order: of the list.
        reader: who read.
        read: a beginning of the list, which ends between two values of `writer`.
        writer: of these values.
    """
    of_writer = (order.place.get(append.value, -1) for append in writer.appends)
    missing = min(place for place in of_writer if place >= len(read.values))
    return any(
        _may_be_open(other, reader) and any(
            append.key == order.key and _stands_between(order, append, len(read.values), missing)
            for append in other.appends
        )
        for other in transactions
        if other is not writer
    )  # fmt: skip


def _may_be_open(other: Transaction, reader: Transaction) -> bool:
    """True if a transaction may have been open at some instant of the reader's."""
    has_begun = reader.end is None or other.call <= reader.end
    return has_begun and (other.end is None or other.end + MARKERS_NS >= reader.call)


def _stands_between(order: Order, append: Append, length: int, missing: int) -> bool:
    """True if a value stands, or may, behind the first `length` and before the one at `missing`."""
    place = order.place.get(append.value)
    if place is not None:
        return length <= place < missing
    first, last = (_offset(order, at) for at in (length - 1, missing))
    if append.offset is None or first is None or last is None:
        return True  # it was aborted, at an offset that nobody was told
    return first < append.offset < last


def _offset(order: Order, place: int) -> int | None:
    """Offset of the value at a place, as its producer was told."""
    value = order.values[place]
    appends = order.writer[value].appends if value in order.writer else ()
    found = (each.offset for each in appends if (each.key, each.value) == (order.key, value))
    return next(found, None)
