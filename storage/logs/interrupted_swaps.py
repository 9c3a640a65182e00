"""Replacement of segments by a cleaned one that a crash interrupted: finished or undone at start.

    .cleaned --renamed, synced--> .swap; old segments --renamed, synced--> .deleted;
    .swap --renamed, synced--> in place

A `.cleaned` file says that not all were renamed `.swap`: it goes, and so do those. A `.swap` one
alone is whole, and the segments in its range of offsets are superseded by it. Kafka starts on what
is left by a crash of this node, and the other way round.

apache/kafka: storage/.../log/LogLoader.java (`load`, `removeTempFilesAndCollectSwapFiles`)
"""

from collections.abc import Iterable
from typing import Final, Protocol

from storage.segments.segment import DELETED_SUFFIX, LOG_SUFFIX, Segment
from storage.vfs import Vfs, join

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_SNAPSHOT_DELETED: Final = ".checkpoint.deleted"
_DIGITS: Final = 20
_NO_BASE: Final = 10**_DIGITS


class SwapUnderWay(Protocol):
    """A replacement of segments by a cleaned one (`storage.cleaner.segment_swap`)."""

    def end_now(self) -> None:
        """Finish or undo it, durably; then it is not that of the log any more."""
        ...


def settle_swaps(vfs: Vfs, directory: str) -> None:
    """Remove what was being deleted or cleaned, and finish replacements, durably.

    Raises:
        CorruptLogError: the segment of a `.swap` file is damaged.
    """
    names = vfs.list(directory)
    deleted = [name for name in names if name.endswith(DELETED_SUFFIX)]
    _remove(vfs, directory, (each for each in deleted if not each.endswith(_SNAPSHOT_DELETED)))
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = _by_base(names, SWAP_SUFFIX)
    if cleaned:
        first_cleaned = min((base for base, _ in _by_base(cleaned, "")), default=_NO_BASE)
        undone = [each for each in swaps if each[0] >= first_cleaned]
        if undone:
            _remove(vfs, directory, (name for _, name in undone))
            vfs.sync_directory(directory)  # a `.swap` file without `.cleaned` ones would be whole
        _remove(vfs, directory, cleaned)
        swaps = [each for each in swaps if each[0] < first_cleaned]
    if swaps:
        _finish(vfs, directory, swaps)


def _finish(vfs: Vfs, directory: str, swaps: list[tuple[int, str]]) -> None:
    """Remove the segments that `.swap` files take the place of, and rename those."""
    logs = [base for base, name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        start = min(logs)
        end = max(_end_offset(vfs, directory, base) for base in logs)
        assert start <= end, f"{start=} {end=}"
        superseded = [
            name
            for base, name in _by_base(vfs.list(directory), "")
            if start <= base < end and not name.endswith(SWAP_SUFFIX)
        ]
        _remove(vfs, directory, superseded)
        vfs.sync_directory(directory)  # beside the new one in its place they would be damage
    for _, name in sorted(swaps, key=lambda each: LOG_SUFFIX not in each[1]):
        vfs.rename(join(directory, name), join(directory, name.removesuffix(SWAP_SUFFIX)))
    vfs.sync_directory(directory)


def _end_offset(vfs: Vfs, directory: str, base_offset: int) -> int:
    """End of the last batch of a `.swap` segment; its base offset if it is empty."""
    segment = Segment(vfs, directory, base_offset, 0, suffix=SWAP_SUFFIX)
    try:
        return segment.indexes.end_offset
    finally:
        segment.close()


def _by_base(names: Iterable[str], suffix: str) -> list[tuple[int, str]]:
    """Base offset and name of the files of segments that end so."""
    return [
        (int(name[:_DIGITS]), name)
        for name in names
        if name.endswith(suffix) and name[:_DIGITS].isascii() and name[:_DIGITS].isdigit()
        and len(name) > _DIGITS and name[_DIGITS] == "."
    ]  # fmt: skip


def _remove(vfs: Vfs, directory: str, names: Iterable[str]) -> None:
    for name in names:
        vfs.unlink(join(directory, name))
