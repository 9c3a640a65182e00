"""The voter sets and kraft.versions of the log, by the offset of the record that set each.

A VotersRecord holds from the moment it is written, not from its commit, and a truncation takes it
back (INV-VOTERS-1); hence a history instead of one set. Records of a snapshot stand for all before
its end. Under kraft.version 0 there are no such records, and the voters are the configuration's.
Source: KIP-853; apache/kafka: raft/.../internals/{VoterSetHistory,TreeMapLogHistory}.java.
"""

from typing import Final

import msgspec

from raft.membership.voters import VoterSet
from wire.types import Offset, ReplicaKey

BOOTSTRAP_OFFSET: Final = -1
"""Offset of the records of the 0-0 checkpoint: before the log, which does not have them yet."""


class VotersAt(msgspec.Struct, frozen=True):
    """The voters from the record at `offset` on."""

    offset: int
    voters: VoterSet


class KRaftVersionAt(msgspec.Struct, frozen=True):
    """The level of kraft.version from the record at `offset` on."""

    offset: int
    level: int


VoterRecord = VotersAt | KRaftVersionAt
"""Voters or level of a control record, with its offset."""


class Membership(msgspec.Struct, frozen=True):
    """Level and voters at an offset; the voters are None while no record has set them."""

    kraft_version: int = 0
    voters: VoterSet | None = None


class VoterHistory(msgspec.Struct, frozen=True):
    """The history; every change returns another one.

    Both sequences ascend by offset. `static` holds until there is a VotersRecord; it is empty on a
    node that was formatted without initial controllers.
    """

    static: VoterSet
    sets: tuple[VotersAt, ...] = ()
    levels: tuple[KRaftVersionAt, ...] = ()

    @property
    def latest(self) -> VoterSet:
        """The voters now: of the last record, committed or not, else the static ones."""
        return self.sets[-1].voters if self.sets else self.static

    @property
    def latest_offset(self) -> int | None:
        """Offset of the record of `latest`; None while the voters are the static ones."""
        return self.sets[-1].offset if self.sets else None

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version now."""
        return self.levels[-1].level if self.levels else 0

    def has_left(self, key: ReplicaKey) -> bool:
        """True if a replica was a voter in an earlier set, and is none in the last."""
        was_voter = any(key in each.voters.keys for each in self.sets)
        return was_voter and key not in self.latest.keys

    def before(self, end_offset: Offset) -> Membership:
        """Return level and voters after the records below `end_offset`, for a snapshot there."""
        history = self.truncated(end_offset)
        voters = history.sets[-1].voters if history.sets else None
        return Membership(history.kraft_version, voters)

    def after(self, record: VoterRecord) -> "VoterHistory":
        """Return the history with a record behind all others."""
        if isinstance(record, VotersAt):
            assert not self.sets or record.offset > self.sets[-1].offset, f"{record=} {self=}"
            assert record.voters, f"a quorum needs a voter {record=}"
            return VoterHistory(self.static, (*self.sets, record), self.levels)
        assert not self.levels or record.offset > self.levels[-1].offset, f"{record=} {self=}"
        return VoterHistory(self.static, self.sets, (*self.levels, record))

    def truncated(self, end_offset: Offset) -> "VoterHistory":
        """Return the history without the records at or above `end_offset`."""
        return VoterHistory(
            self.static,
            tuple([each for each in self.sets if each.offset < end_offset]),
            tuple([each for each in self.levels if each.offset < end_offset]),
        )

    def trimmed(self, start_offset: Offset) -> "VoterHistory":
        """Return the history of a log that starts at `start_offset`: the last record before stays.

        The snapshot at the log start has what that record says.
        """
        return VoterHistory(
            self.static,
            self.sets[_last_before([each.offset for each in self.sets], start_offset) :],
            self.levels[_last_before([each.offset for each in self.levels], start_offset) :],
        )

    def restarted(self, end_offset: Offset, membership: Membership) -> "VoterHistory":
        """Return the history of a log that restarts at a snapshot with these records."""
        assert end_offset > 0, "0-0 is no snapshot of the log"
        last = end_offset - 1
        level, voters = membership.kraft_version, membership.voters
        return VoterHistory(
            self.static,
            () if voters is None else (VotersAt(last, voters),),
            () if level == 0 else (KRaftVersionAt(last, level),),
        )


def _last_before(offsets: list[int], start_offset: Offset) -> int:
    """Return the index of the last offset below the start; 0 without one."""
    return max(sum([offset < start_offset for offset in offsets]) - 1, 0)
