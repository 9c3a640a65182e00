"""Partitions of a history for independent searches, without operations that prove nothing.

Splitting by key is exact when every operation touches one key. Operations on several keys join
their keys: one search for each connected component. A model that `projects` (lists of topics) is
first checked key by key, which can only refute, and then joined when it is small enough.
"""

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from jepsen.linearizability.history import Operation
from jepsen.linearizability.model import UNKNOWN, Model, Part

JOINED_OPERATIONS_MAX: Final = 2000
"""Histories of a projecting model up to this size are searched with all keys joined as well."""


class Standing(Enum):
    """Weight of a verdict on a partition."""

    EXACT = "exact"
    NECESSARY = "necessary"  # a projection: only refutes, for its keys are searched joined as well
    PROJECTED = "projected"  # a projection that stands for a joined search that is too large


class Item(NamedTuple):
    """An operation as one partition sees it: `operation` is its index in the history."""

    operation: int
    call: int
    end: int | None
    parts: tuple[Part, ...]


class Partition(NamedTuple):
    """Operations of one search; `dropped` ones were left out because they prove nothing."""

    keys: tuple[Hashable, ...]
    items: tuple[Item, ...]
    dropped: int = 0
    standing: Standing = Standing.EXACT

    @property
    def width(self) -> int:
        """Most operations open at one time."""
        marks = sorted(
            [(item.call, 0) for item in self.items]
            + [(item.end, 1) for item in self.items if item.end is not None]
        )
        width = open_count = 0
        for _, is_return in marks:
            open_count += -1 if is_return else 1
            width = max(width, open_count)
        return width


def partitions_of(
    operations: Sequence[Operation], model: Model, *, split: bool = True, reduce: bool = True
) -> list[Partition]:
    """Split a history into partitions, in order of their first operation.

    Args:
        operations: The history.
        model: Gives the parts of each operation.
        split: False: everything in one partition (to compare with).
        reduce: Leave out what cannot change the verdict.
    """
    prepared = model.prepare(operations)
    assert len(prepared) == len(operations)
    items = [
        Item(index, operation.call, operation.end, parts)
        for index, (operation, parts) in enumerate(zip(operations, prepared, strict=True))
        if parts
    ]
    if not split:
        return [_partition(model, items, reduce=reduce)] if items else []
    joined = [_partition(model, group, reduce=reduce) for group in _components(items)]
    if not model.projects or all(len(partition.keys) == 1 for partition in joined):
        return joined
    small = [each for each in joined if len(each.items) <= JOINED_OPERATIONS_MAX]
    covered = {key for partition in small for key in partition.keys}
    projected = [_partition(model, group, reduce=reduce) for group in _by_key(items)]
    marked = [
        each._replace(
            standing=Standing.NECESSARY if each.keys[0] in covered else Standing.PROJECTED
        )
        for each in projected
    ]
    return marked + small


def _by_key(items: Sequence[Item]) -> list[list[Item]]:
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        for part in item.parts:
            groups.setdefault(part.key, []).append(item._replace(parts=(part,)))
    return list(groups.values())


def _components(items: Sequence[Item]) -> list[list[Item]]:
    """Group operations whose keys are connected, by union of sets."""
    leader: dict[Hashable, Hashable] = {}

    def find(key: Hashable) -> Hashable:
        while leader.setdefault(key, key) != key:
            leader[key] = key = leader[leader[key]]
        return key

    for item in items:
        first = find(item.parts[0].key)
        for part in item.parts[1:]:
            leader[find(part.key)] = first
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(find(item.parts[0].key), []).append(item)
    return list(groups.values())


def _partition(model: Model, items: Sequence[Item], *, reduce: bool) -> Partition:
    keys = tuple(dict.fromkeys(part.key for item in items for part in item.parts))
    if not reduce:
        return Partition(keys, tuple(items))
    kept = [item for item in items if not _is_meaningless(model, item)]
    if len(keys) == 1:
        gone = model.droppable([(item.parts[0], item.end is None) for item in kept])
        kept = [item for number, item in enumerate(kept) if number not in gone]
    return Partition(keys, tuple(kept), dropped=len(items) - len(kept))


def _is_meaningless(model: Model, item: Item) -> bool:
    """True for an unknown answer to an operation that changes nothing."""
    return all(
        part.output is UNKNOWN and model.observes(part.input, part.output) for part in item.parts
    )
