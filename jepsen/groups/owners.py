"""Members that have one partition at a time, as far as members can tell.

A member that the coordinator expired does not know it, so that two times between `assigned` and
`revoked` may overlap without a fault of the coordinator's. They may not
- in one generation of a classic group;
- where the first owner was allowed to commit the partition after the second had it;
- in a classic group, less than a session after such a commit, which begins the session anew
  (apache/kafka: OffsetMetadataManager.validateOffsetCommit), so that it was not expired.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from jepsen.groups import names
from jepsen.groups.told import ENDING, Told

SESSION_NS: Final = names.SESSION_MS * 1_000_000
NS: Final = 1e9


class Owning(msgspec.Struct, frozen=True):
    """A partition with a member, in [start, end) of the history's clock."""

    member: str
    start: int
    end: int | None
    """None: it had it to the end of the history."""
    generation: int | None

    def has_ended_by(self, at: int) -> bool:
        """True if the member had given it up."""
        return self.end is not None and self.end <= at


def ownings(rows: Sequence[Told]) -> dict[str, list[Owning]]:
    """Times at which members had partitions, by partition and start."""
    opened: dict[tuple[str, str], Told] = {}
    found: dict[str, list[Owning]] = {}

    def close(given_up: Sequence[tuple[str, str]], end: int | None) -> None:
        for member, partition in given_up:
            start = opened.pop((member, partition), None)
            if start is not None:
                owning = Owning(member, start.at, end, start.generation)
                found.setdefault(partition, []).append(owning)

    for row in rows:
        named = [(row.member, partition) for partition in row.partitions]
        if row.f == names.ASSIGNED:
            for each in named:
                opened.setdefault(each, row)
        elif row.f in (names.REVOKED, names.LOST):
            close(named, row.at)
        elif row.f in ENDING:
            close([each for each in opened if each[0] == row.member], row.at)
    close(list(opened), None)
    return {key: sorted(found[key], key=lambda owning: owning.start) for key in sorted(found)}


def two_owners(group: str, rows: Sequence[Told]) -> Iterator[tuple[str, str]]:
    """Kind and text of every finding about a group."""
    is_classic = names.PROTOCOLS.get(group) != names.CONSUMER
    commits: dict[tuple[str, str], list[int]] = {}  # when they began, of those that were allowed
    for row in rows:
        for partition in row.offsets if row.f == names.COMMITTED else ():
            commits.setdefault((row.member, partition), []).append(row.began)
    for partition, owned in ownings(rows).items():
        for place, first in enumerate(owned):
            allowed = commits.get((first.member, partition), [])
            for second in owned[place + 1 :]:
                if second.member != first.member:
                    reason = _conflict(first, second, allowed, is_classic=is_classic)
                    if reason is not None:
                        text = f"{partition} is {first.member}'s and {second.member}'s"
                        yield "two owners", f"{text}: {reason}"


def _conflict(
    first: Owning, second: Owning, allowed: Sequence[int], *, is_classic: bool
) -> str | None:
    """Reason for which not both may have had it; None: they may.

    Args:
        first: Who had it first.
        second: Who had it then.
        allowed: Times at which commits of the first began that were acknowledged.
        is_classic: The group is one.
    """
    if is_classic and first.generation is not None and first.generation == second.generation:
        return f"both in generation {first.generation}"
    if first.has_ended_by(second.start):
        return None
    until = min(end for end in (first.end, second.end, 1 << 62) if end is not None)
    proofs = [began for began in allowed if first.start <= began < until]
    if not proofs:
        return None
    late_ns = second.start - max(proofs)
    if late_ns < 0:
        return f"the first commits {-late_ns / NS:.2f} s after the second had it"
    if is_classic and late_ns < SESSION_NS:
        return f"the first had committed {late_ns / NS:.2f} s before"
    return None
