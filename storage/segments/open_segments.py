"""The segments of a log whose files are open beside that of the active one: the last used."""

from storage.segments.segment import Segment


class OpenSegments:
    """At most `maximum` open files; the one used longest ago is closed for another."""

    def __init__(self, maximum: int) -> None:
        assert maximum >= 0, f"{maximum=}"
        self._maximum = maximum
        self.used: list[Segment] = []
        """The last used one last."""

    def touch(self, segment: Segment) -> None:
        """Note that a segment is used, open or about to be."""
        self.forget(segment)
        self.used.append(segment)
        if len(self.used) > self._maximum:
            self.used.pop(0).close()
        assert len(self.used) <= self._maximum, f"{len(self.used)=}"

    def touch_opened(self, segments: list[Segment]) -> None:
        """Note those that a look-up has opened."""
        for segment in segments:
            if segment.is_open and segment not in self.used:
                self.touch(segment)

    def forget(self, segment: Segment) -> None:
        """Leave out a segment that is removed."""
        if segment in self.used:
            self.used.remove(segment)
