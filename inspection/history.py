"""Past images for requests: built off the driver's thread, with a few kept."""

import asyncio
from collections import OrderedDict
from http import HTTPStatus
from typing import Final

from inspection.problem import Problem
from inspection.running_node import RunningNode
from metadata.image import EMPTY, Image
from metadata.loader import committed_batches, image_of
from metadata.snapshot import decode_snapshot
from metadata.time_travel import OffsetGoneError, Replay, starting_point
from storage.errors import OffsetOutOfRangeError
from wire.types import Offset, OffsetAndEpoch

READ_BYTES: Final = 1024 * 1024
IMAGES_KEPT: Final = 16
"""Images share structure: a kept one costs its difference from its neighbours."""


class History:
    """Past images of a node, built one at a time; concurrent requests wait."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._kept: OrderedDict[int, tuple[Image, bool]] = OrderedDict()
        """By offset: the image, and whether a replay may continue from it."""
        self._lock = asyncio.Lock()

    async def image_at(self, offset: int, parameter: str) -> Image:
        """Return the image of all records below the offset.

        Raises:
            Problem: 404 above the end of committed records, 410 when the offset is gone.
        """
        end = self._node.committed_end
        if offset > end:
            raise not_yet(self._node, parameter, offset)
        if offset == self._node.image.provenance.end_offset:
            return self._node.image
        async with self._lock:
            kept = self._kept.get(offset)
            if kept is None:
                try:
                    kept = await self._build(Offset(offset))
                except (OffsetGoneError, OffsetOutOfRangeError, FileNotFoundError) as error:
                    raise gone(self._node, parameter, offset) from error
            self._kept[offset] = kept
            self._kept.move_to_end(offset)
            while len(self._kept) > IMAGES_KEPT:
                self._kept.popitem(last=False)
            return kept[0]

    async def _build(self, offset: Offset) -> tuple[Image, bool]:
        snapshot_id = starting_point(offset, self._node.log_start_offset, self._node.snapshot_ids())
        base = self._nearest(offset, 0 if snapshot_id is None else snapshot_id.offset)
        if base is None:
            base = EMPTY if snapshot_id is None else await self._loaded(snapshot_id)
        replay = Replay(offset, base)
        while not replay.is_complete:
            content = self._node.read_log(replay.next_offset, READ_BYTES, self._node.committed_end)
            assert content, f"the log ends at {replay.next_offset} below {offset}"
            await asyncio.to_thread(lambda: replay.take(committed_batches(content)))  # noqa: B023
        return replay.image, replay.may_be_continued

    def _nearest(self, offset: Offset, at_least: int) -> Image | None:
        """Newest kept image that the log continues to the offset, if above the best snapshot."""
        ends = [
            end
            for end, (_, may_be_continued) in self._kept.items()
            if may_be_continued and max(at_least, self._node.log_start_offset) < end <= offset
        ]
        return self._kept[max(ends)][0] if ends else None

    async def _loaded(self, snapshot_id: OffsetAndEpoch) -> Image:
        def load() -> Image:
            content = decode_snapshot(self._node.read_snapshot(snapshot_id))
            return image_of(content.records, snapshot_id, content.last_contained_timestamp_ms)

        return await asyncio.to_thread(load)


def not_yet(node: RunningNode, parameter: str, offset: int) -> Problem:
    """404 for an offset above the end of committed records."""
    end = node.committed_end
    return Problem(
        HTTPStatus.NOT_FOUND,
        f"{parameter!r} is {offset}, but only records below {end} are committed here",
        parameter=parameter,
        value=str(offset),
        allowed=f"a whole number from {node.oldest_offset()} to {end}",
    )


def gone(node: RunningNode, parameter: str, offset: int) -> Problem:
    """410 for an offset below the oldest snapshot and the start of the log."""
    oldest = node.oldest_offset()
    return Problem(
        HTTPStatus.GONE,
        f"offset {offset} is gone: snapshots and log begin at {oldest}",
        parameter=parameter,
        value=str(offset),
        allowed=f"a whole number from {oldest} to {node.committed_end}",
    )
