"""All disks that a power failure may leave, where they can be counted; a second `disk_model`.

Written from the rules at the head of `simulator.cluster.disk_model`, without its code, so that each
checks the other: every disk that `crash(rng)` draws is among these.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from simulator.cluster.disk_model import (
    SECTOR_BYTES,
    DirectoryNode,
    FileNode,
    Resize,
    Write,
)
from simulator.cluster.memory_vfs import MemoryVfs

Image = tuple[tuple[str, "bytes | Image"], ...]
"""The names of a directory in order, each with a content or a directory."""
CHANGES_MAX = 10
"""Unsynced changes of one file or directory; with more the disks are not counted."""


@dataclass(frozen=True)
class Many:
    """Up to `counted_max` disks are all looked at; if there are more, `drawn` of them."""

    counted_max: int
    drawn: int


FEW = Many(counted_max=20, drawn=2)
MOST = Many(counted_max=600, drawn=12)


class TooManyDisksError(Exception):
    """More than were asked for."""


def every_image(vfs: MemoryVfs, count_max: int) -> set[Image]:
    """All that a power failure may leave now.

    Raises:
        TooManyDisksError: more than `count_max`.
    """
    return _trees(vfs._root, count_max)


def image_of(vfs: MemoryVfs) -> Image:
    """Content that every call sees."""
    return _seen(vfs._root)


def disk_of(image: Image) -> MemoryVfs:
    """A disk with that on it, all of it durable."""
    return MemoryVfs(_directory(image))


def disks(vfs: MemoryVfs, label: str, many: Many) -> Iterator[MemoryVfs]:
    """Disks that a power failure may leave: all, or one with nothing unsynced and drawn ones."""
    try:
        images = every_image(vfs, many.counted_max)
    except TooManyDisksError:
        yield vfs.crash()
        for seed in range(many.drawn):
            yield vfs.crash(random.Random(f"{label} {seed}"))
    else:
        yield from map(disk_of, sorted(images))


def _seen(node: DirectoryNode) -> Image:
    return tuple(
        (name, bytes(found.content) if isinstance(found, FileNode) else _seen(found))
        for name, found in sorted(node.entries.items())
    )


def _directory(image: Image) -> DirectoryNode:
    node = DirectoryNode()
    for name, found in image:
        node.link(name, FileNode(found) if isinstance(found, bytes) else _directory(found))
    node.sync()
    return node


def _trees(node: DirectoryNode, count_max: int) -> set[Image]:
    found: set[Image] = set()
    changes = [*node._forgotten, *node._unsynced]
    known: dict[int, set[bytes] | set[Image]] = {}
    for kept in _choices(len(changes)):
        entries = dict(node.durable)
        for change, is_kept in zip(changes, kept, strict=True):
            if is_kept and change.removed is not None:
                entries.pop(change.removed, None)
            if is_kept and change.added is not None and change.node is not None:
                entries[change.added] = change.node
        names = sorted(entries)
        below = [entries[name] for name in names]
        for child in below:
            if id(child) not in known:
                is_file = isinstance(child, FileNode)
                known[id(child)] = (
                    _contents(child, count_max) if is_file else _trees(child, count_max)
                )
        for combination in product(*(known[id(child)] for child in below)):
            found.add(tuple(zip(names, combination, strict=True)))
            if len(found) > count_max:
                raise TooManyDisksError
    return found


def _contents(node: FileNode, count_max: int) -> set[bytes]:
    found: set[bytes] = set()
    for kept in _choices(len(node.unsynced)):
        if not _is_in_order(node, kept):
            continue
        last = max((number for number, is_kept in enumerate(kept) if is_kept), default=-1)
        states = {bytes(node.durable)}
        for number, change in enumerate(node.unsynced):
            after: set[bytes] = set()
            for content in states:
                if isinstance(change, Resize):
                    after.add(_resized(content, change.size) if kept[number] else content)
                elif not kept[number]:  # nothing of it, or the length alone
                    end = change.position + len(change.data)
                    after |= {content, _resized(content, max(end, len(content)))}
                else:
                    after |= set(_written(content, change, is_torn=number == last))
            states = after
        found |= states
        if len(found) > count_max:
            raise TooManyDisksError
    return found


def _is_in_order(node: FileNode, kept: tuple[bool, ...]) -> bool:
    """False if something is kept behind a gap that is behind a cut that is not kept."""
    lengths = [len(node.durable)]
    for change in node.unsynced:
        if isinstance(change, Resize):
            lengths.append(change.size)
        else:
            lengths.append(max(lengths[-1], change.position + len(change.data)))
    cuts = [number for number, (old, new) in enumerate(pairwise(lengths)) if new < old]
    lost = [number for number in cuts if not kept[number]]
    behind = kept[lost[0] + 1 :] if lost else ()
    return list(behind) == sorted(behind, reverse=True)


def _choices(count: int) -> Iterator[tuple[bool, ...]]:
    if count > CHANGES_MAX:
        raise TooManyDisksError
    return product((False, True), repeat=count)


def _resized(content: bytes, size: int) -> bytes:
    return content[:size].ljust(size, b"\0")


def _written(content: bytes, change: Write, *, is_torn: bool) -> Iterator[bytes]:
    """With all of a write; with any of its sectors if it can be torn."""
    start, end = change.position, change.position + len(change.data)
    cuts = [start, *range((start // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES), end]
    sectors = list(pairwise(cuts))
    for kept in _choices(len(sectors)) if is_torn else ((True,) * len(sectors),):
        after = content
        for (begin, stop), is_kept in zip(sectors, kept, strict=True):
            if is_kept:
                piece = change.data[begin - start : stop - start]
                after = _resized(after, max(begin, len(after)))
                after = after[:begin] + piece + after[stop:]
        yield after
