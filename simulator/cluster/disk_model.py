"""Model of a disk at a power failure: files and directories with their unsynced changes.

A file is its durable bytes and the ordered list of changes since its last sync; a directory is its
durable entries and the changes of entries since its last sync. A crash decides, file by file and
directory by directory and from one rng, which of these changes are on the disk:

- none, all, a prefix, or any subset (a disk may reorder what no sync ordered);
- the last write that is kept may be torn: any subset of its 512-byte sectors, a whole sector being
  atomic;
- of a write that is not kept the length may be: zeros without the data (delayed allocation);
- behind a cut that is not kept only a prefix of the changes is: the blocks behind it are given back
  in a transaction of the journal, which those that the file gets later cannot be before; the one
  that is cut inside is written in place;
- a rename is one change of its directory: it happened or it did not, the file is never under both
  names or under none. Without `sync_directory` a new, renamed or removed name may be there or not.

No later sync makes durable what a failed sync covered. Of a file it is lost. Names of a directory
may be there or not until they are changed again and that change is synced, or until the process
ends: a new one can sync them (not the strictest: a disk may forget them for good).

Everything synced is kept exactly. The model is stricter than most file systems: a sync of a file
does not cover its name, and names are made in any order, where a journal keeps theirs. But with
delayed allocation a journal does not order a name behind the data of a file that was written
earlier: a segment may be short, or empty, and the next one be there. Code whose writes are safe
here is safe on ext4, xfs and the like.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from wire.types import Rng

SECTOR_BYTES: Final = 512


class Write(msgspec.Struct, frozen=True, gc=False):
    """Bytes that were written at a position and not synced."""

    position: int
    data: bytes


class Resize(msgspec.Struct, frozen=True, gc=False):
    """A change of length that was not synced."""

    size: int


FileChange = Write | Resize


class FileNode:
    """Content of a file as every call sees it, with its durable part."""

    __slots__ = ("_clean_bytes", "content", "durable", "is_locked", "modified_ms", "unsynced")

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.unsynced: list[FileChange] = []
        self.is_locked = False
        self.modified_ms = 0
        """Wall clock of the last change."""
        self._clean_bytes = len(content)  # what is below is equal in `content` and `durable`

    def write(self, position: int, data: bytes) -> None:
        """Write at a position; a gap before it becomes zeros."""
        if not data:
            return
        content = self.content
        if position == len(content):
            content += data
        else:
            _put(content, position, data)
        self.unsynced.append(Write(position, data))
        self._clean_bytes = min(self._clean_bytes, position)

    def resize(self, size: int) -> None:
        """Set the length; growth is zeros."""
        _set_length(self.content, size)
        self.unsynced.append(Resize(size))
        self._clean_bytes = min(self._clean_bytes, size)

    def sync(self) -> None:
        """Make the whole content durable."""
        content, clean = self.content, self._clean_bytes
        self.durable[clean:] = content[clean:]
        self._clean_bytes = len(content)
        self.unsynced.clear()

    def sync_failed(self) -> None:
        """Forget the changes as an operating system does: no later sync brings them to the disk."""
        _set_length(self.durable, len(self.content))
        self._clean_bytes = len(self.content)
        self.unsynced.clear()

    def after_crash(self, rng: Rng | None) -> bytearray:
        """Draw the content on the disk after a crash; without an rng what was durable."""
        content = bytearray(self.durable)
        kept = self._in_order(_choose(len(self.unsynced), rng))
        last_kept = max((n for n, is_kept in enumerate(kept) if is_kept), default=-1)
        for number, change in enumerate(self.unsynced):
            if isinstance(change, Resize):
                if kept[number]:
                    _set_length(content, change.size)
            elif not kept[number]:
                end = change.position + len(change.data)
                if rng is not None and end > len(content) and rng.randrange(4) == 0:
                    _set_length(content, end)
            elif rng is not None and number == last_kept and rng.randrange(2) == 0:
                _tear(content, change, rng)
            else:
                _put(content, change.position, change.data)
        return content

    def _in_order(self, kept: list[bool]) -> list[bool]:
        """Leave out what is behind a change that is left out, from the first such cut on."""
        length, is_ordered, is_out = len(self.durable), False, False
        ordered: list[bool] = []
        for change, is_kept in zip(self.unsynced, kept, strict=True):
            is_out = is_out or (is_ordered and not is_kept)
            ordered.append(is_kept and not is_out)
            if isinstance(change, Resize):
                is_ordered = is_ordered or (change.size < length and not is_kept)
                length = change.size
            else:
                length = max(length, change.position + len(change.data))
        return ordered


class EntryChange(msgspec.Struct, frozen=True, gc=False):
    """Change of a directory that was not synced; a rename removes one name and adds another."""

    removed: str | None
    added: str | None
    node: "Node | None"


class DirectoryNode:
    """Names in a directory as every call sees them, with the durable ones."""

    __slots__ = ("_forgotten", "_unsynced", "durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        """Names that the disk has for certain; not to be changed."""
        self._forgotten: list[EntryChange] = []  # of failed syncs
        self._unsynced: list[EntryChange] = []

    def link(self, name: str, node: "Node") -> None:
        """Add a name."""
        self._change(EntryChange(None, name, node))

    def unlink(self, name: str) -> None:
        """Remove a name."""
        self._change(EntryChange(name, None, None))

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name, atomically."""
        self._change(EntryChange(source, target, self.entries[source]))

    def sync(self) -> None:
        """Make all names durable, except those of failed syncs that nothing changed again."""
        if not self._forgotten:
            self.durable = dict(self.entries)
        else:
            for change in self._unsynced:
                _apply(self.durable, change)
            known = {name for change in self._unsynced for name in _names_of(change)}
            self._forgotten = [c for c in self._forgotten if known.isdisjoint(_names_of(c))]
        self._unsynced.clear()

    def sync_failed(self) -> None:
        """Forget the changes as an operating system does: no later sync brings them to the disk.

        As before, chance decides if they are there after a crash; every call still sees them.
        """
        self._forgotten += self._unsynced
        self._unsynced.clear()

    def remember(self) -> None:
        """Let the next process sync, here and below, what failed syncs had forgotten."""
        if self._forgotten:
            self._unsynced[:0] = self._forgotten
            self._forgotten.clear()
        for node in self.entries.values():
            if isinstance(node, DirectoryNode):
                node.remember()

    def after_crash(self, rng: Rng | None) -> "DirectoryNode":
        """Draw a copy of the tree as the disk may have it; all of the copy is durable."""
        found = dict(self.durable)
        changes = [*self._forgotten, *self._unsynced]
        kept = _choose(len(changes), rng)
        for change, is_kept in zip(changes, kept, strict=True):
            if is_kept:
                _apply(found, change)
        after = DirectoryNode()
        for name, node in found.items():
            if isinstance(node, FileNode):
                after.entries[name] = kept_file = FileNode(node.after_crash(rng))
                kept_file.modified_ms = node.modified_ms
            else:
                after.entries[name] = node.after_crash(rng)
        after.sync()
        return after

    def files(self) -> Iterator[FileNode]:
        """All files below, as every call sees them."""
        for node in self.entries.values():
            if isinstance(node, FileNode):
                yield node
            else:
                yield from node.files()

    def _change(self, change: EntryChange) -> None:
        _apply(self.entries, change)
        self._unsynced.append(change)


Node = FileNode | DirectoryNode


def _names_of(change: EntryChange) -> tuple[str, ...]:
    return tuple(name for name in (change.removed, change.added) if name is not None)


def _apply(entries: dict[str, Node], change: EntryChange) -> None:
    if change.removed is not None:
        entries.pop(change.removed, None)
    if change.added is not None:
        assert change.node is not None
        entries[change.added] = change.node


def _choose(count: int, rng: Rng | None) -> list[bool]:
    """Draw which of `count` unsynced changes are on the disk."""
    if rng is None or count == 0:
        return [False] * count
    match rng.randrange(4):
        case 0:
            return [False] * count
        case 1:
            return [True] * count
        case 2:
            prefix = rng.randrange(count + 1)
            return [number < prefix for number in range(count)]
        case _:
            return [rng.randrange(2) == 0 for _ in range(count)]


def _tear(content: bytearray, write: Write, rng: Rng) -> None:
    """Keep any subset of the sectors of a write."""
    position, end = write.position, write.position + len(write.data)
    while position < end:
        sector_end = min(end, (position // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if rng.randrange(2) == 0:
            start = position - write.position
            _put(content, position, write.data[start : sector_end - write.position])
        position = sector_end


def _put(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        _set_length(content, position)
    content[position : position + len(data)] = data


def _set_length(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
