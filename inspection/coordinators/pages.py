"""Pages of the ids in the images of some partitions."""

import heapq
from collections.abc import Callable, Iterable, Mapping

from coordinator.runtime.machine import ImageT


def page(
    images: Mapping[int, ImageT],
    ids_of: Callable[[ImageT], Iterable[str]],
    after: str | None,
    limit: int,
) -> tuple[list[tuple[str, int]], str | None]:
    """At most `limit` ids behind `after`, with their partitions, and the mark of the next page."""
    behind = (
        (name, number)
        for number, image in images.items()
        for name in ids_of(image)
        if after is None or name > after
    )
    found = heapq.nsmallest(limit + 1, behind)
    shown = found[:limit]
    return shown, shown[-1][0] if len(found) > limit else None
