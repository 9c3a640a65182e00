"""Blocks of ids: `alloc` answers `[start length]`. No search is needed, only sorting.

Every id is given once, so the blocks `[start, start + length)` of the answers are disjoint.
A lost allocation may have used any block and proves nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jepsen.linearizability.history import OK, History, HistoryError, Operation
from jepsen.linearizability.model import is_pair


class Overlap(NamedTuple):
    """Two operations, by index in the history, that got the same id."""

    first: int
    second: int
    shared_id: int


def overlap_in(history: History) -> Overlap | None:
    """Overlap with the lowest id, None if every id was given once.

    Raises:
        HistoryError: An operation that is no `alloc`, or an answer that is no block.
    """
    blocks = sorted(_blocks(history, history.operations))
    reached, holder = 0, -1  # end (exclusive) of the blocks so far and its holder
    for start, length, index in blocks:
        if holder >= 0 and start < reached:
            return Overlap(holder, index, start)
        reached, holder = start + length, index
    return None


def _blocks(history: History, operations: Sequence[Operation]) -> list[tuple[int, int, int]]:
    found = []
    for index, operation in enumerate(operations):
        place = history.place(operation.position)
        if operation.f != "alloc":
            raise HistoryError(f"{place}: operation '{operation.f}' is not alloc")
        if operation.type != OK:
            continue
        if not is_pair(operation.output) or not all(
            type(number) is int and number >= 0 for number in operation.output
        ):
            raise HistoryError(f"{place}: alloc gave {operation.output!r}, not [start length]")
        start, length = operation.output
        if length:
            found.append((start, length, index))
    return found
