"""The order in which the values of a list stand."""

from collections.abc import Hashable, Mapping

import msgspec

from jepsen.cycles.transactions import Read, Transaction


class Order(msgspec.Struct, frozen=True):
    """Version order of one list."""

    key: str
    values: tuple[Hashable, ...]
    place: Mapping[Hashable, int]
    """First place of each value."""
    writer: Mapping[Hashable, Transaction]
    """Of each value that anybody appended to this list, in it or not."""
    final: Read | None
    """The first final read; None: nobody read it at the end."""

    def is_known(self, read: Read) -> bool:
        """True of a read that is a beginning of it."""
        return self.values[: len(read.values)] == read.values
