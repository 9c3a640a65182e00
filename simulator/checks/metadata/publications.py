"""I17: publishers get a sound image, and a delta that names every id in which the two differ."""

from typing import Final

from metadata.delta import MetadataDelta, delta_between
from metadata.image import Image
from metadata.invariants import violations

COMPARED_EVERY: Final = 4
"""Publications of a process for one comparison, the first one included: it scans both images."""
_EXACT: Final = ("topics_created", "topics_deleted")


class PublicationWatch:
    """Publisher of one process, after the others. `broken`: describes the first error, if any.

    Every image has to satisfy metadata/invariants.py; after a sound one only changes are checked. A
    delta may name an id whose value ended up equal, but no topic that came and went.
    """

    def __init__(self) -> None:
        self.broken: str | None = None
        self._count = 0
        self._sound: Image | None = None
        """Last published image; None: nothing yet, so the next image is checked whole."""

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Check one publication."""
        if self.broken is not None:
            return
        found = violations(after, self._sound)
        if found:
            self.broken = f"the image of {after.provenance.end_offset} breaks {found[0]}"
        elif self._count % COMPARED_EVERY == 0:
            self.broken = why_delta_is_wrong(before, after, delta)
        self._sound = after
        self._count += 1


def why_delta_is_wrong(before: Image, after: Image, delta: MetadataDelta) -> str | None:
    """Describe the first field of a delta that lacks what differs, None if none does."""
    exact = delta_between(before, after)
    if delta == exact:
        return None
    for name in MetadataDelta.__struct_fields__:
        named, differing = getattr(delta, name), getattr(exact, name)
        if isinstance(named, bool):
            is_wrong = differing and not named
        elif name in _EXACT:
            is_wrong = named != differing
        else:
            is_wrong = not differing <= named
        if is_wrong:
            ends = f"{before.provenance.end_offset} to {after.provenance.end_offset}"
            return f"the delta from {ends} has {name} {named}, the images differ in {differing}"
    return None
