"""The next member to give a partition to, and the next to take one from.

Of members sorted by load two ranges of equal load are kept: the least loaded, which grows to the
right as its members get partitions, and the most loaded, which grows to the left. They are balanced
when their loads differ by one at most, not when they meet.

             least           most
             [...->     ] ## [##<-  ] ##     those on the right have nothing to give up
    members  0 1 2 ...

(apache/kafka: UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer)
"""

from collections.abc import Sequence


class Balancer:
    """Walks the subscribers of a topic; `loads` is kept current by the caller."""

    __slots__ = (
        "_least_end",
        "_least_load",
        "_loads",
        "_members",
        "_most_end",
        "_most_load",
        "_most_start",
        "_next_least",
        "_next_most",
    )

    def __init__(self, loads: Sequence[int], members: Sequence[int]) -> None:
        assert members, "a topic without subscribers is not balanced"
        self._loads = loads
        self._members = sorted(members, key=lambda member: (loads[member], member))
        self._least_end = 0
        self._least_load = loads[self._members[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._members)
        self._most_load = loads[self._members[-1]] + 1
        self._next_most = len(self._members) - 1

    @property
    def imbalance(self) -> int:
        """Difference of the highest and the lowest load, before any change."""
        return self._loads[self._members[-1]] - self._loads[self._members[0]]

    @property
    def is_balanced(self) -> bool:
        """True if the loads of the two ranges differ by one at most."""
        return self._most_load - self._least_load <= 1

    def next_least_loaded(self) -> int:
        """The member to give a partition to; counts it as given."""
        members, loads = self._members, self._loads
        if self._next_least >= self._least_end:
            self._least_load += 1
            while (
                self._least_end < len(members)
                and loads[members[self._least_end]] == self._least_load
            ):
                self._least_end += 1
            self._next_least = 0
        member = members[self._next_least]
        self._next_least += 1
        return member

    def next_most_loaded(self) -> int | None:
        """The member to take a partition from, None without one; counts it as taken."""
        members, loads = self._members, self._loads
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All of the range were excluded: it must grow, whatever the next load is.
                self._most_load = loads[members[self._most_start - 1]]
            else:
                self._most_load -= 1
            while self._most_start > 0 and loads[members[self._most_start - 1]] == self._most_load:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        member = members[self._next_most]
        self._next_most -= 1
        return member

    def exclude_most_loaded(self) -> None:
        """Leave out the member that `next_most_loaded` gave: it has nothing to give up."""
        members = self._members
        position, last = self._next_most + 1, self._most_end - 1
        members[position], members[last] = members[last], members[position]
        self._most_end = last
