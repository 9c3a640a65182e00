"""Offsets that a member has yet to commit: of all that it read, until its coordinator takes them.

A coordinator refuses a commit of the generation that has just ended (ILLEGAL_GENERATION), also of a
member that keeps its partitions: under cooperative-sticky, and under the new protocol. Where no
record follows, nobody but the member itself would commit them again.
"""

from collections.abc import Collection, Mapping


class Uncommitted:
    """Offsets by partition, of the partitions that the member has."""

    def __init__(self) -> None:
        """Have no partition."""
        self._owned: set[str] = set()
        self._offsets: dict[str, int] = {}

    @property
    def offsets(self) -> dict[str, int]:
        """Offsets to commit now."""
        return dict(self._offsets)

    def assign(self, partitions: Collection[str]) -> None:
        """Take partitions, beside those that it has."""
        self._owned.update(partitions)

    def give_up(self, partitions: Collection[str]) -> None:
        """Forget partitions: another member begins at what is committed."""
        self._owned.difference_update(partitions)
        for partition in partitions:
            self._offsets.pop(partition, None)

    def read(self, offsets: Mapping[str, int]) -> None:
        """Take the offsets behind what was read just now."""
        for partition, offset in offsets.items():
            if partition in self._owned:
                self._offsets[partition] = offset

    def commit(self, partitions: Collection[str]) -> None:
        """Take the coordinator's word that their offsets are committed."""
        for partition in partitions:
            del self._offsets[partition]
