"""I17: the delta that publishers get names every id in which the two images differ."""

from typing import Final

from metadata.delta import MetadataDelta, delta_between
from metadata.image import Image

COMPARED_EVERY: Final = 4
"""Publications of a process, the first one included: a comparison passes over both images."""
_EXACT: Final = ("topics_created", "topics_deleted")


class DeltaWatch:
    """A publisher of one process, behind the others. `broken`: how a delta was wrong, once one was.

    A delta may name an id whose value ended up equal; what came and went, it may not.
    """

    def __init__(self) -> None:
        self.broken: str | None = None
        self._count = 0

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Look at one publication."""
        if self._count % COMPARED_EVERY == 0 and self.broken is None:
            self.broken = why_delta_is_wrong(before, after, delta)
        self._count += 1


def why_delta_is_wrong(before: Image, after: Image, delta: MetadataDelta) -> str | None:
    """The first field of a delta that lacks what differs, None if none does."""
    exact = delta_between(before, after)
    if delta == exact:
        return None
    for name in MetadataDelta.__struct_fields__:
        told, differing = getattr(delta, name), getattr(exact, name)
        if isinstance(told, bool):
            is_wrong = differing and not told
        elif name in _EXACT:
            is_wrong = told != differing
        else:
            is_wrong = not differing <= told
        if is_wrong:
            ends = f"{before.provenance.end_offset} to {after.provenance.end_offset}"
            return f"the delta from {ends} has {name} {told}, the images differ in {differing}"
    return None
