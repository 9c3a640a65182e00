"""A consumer in a group whose commits are transactions, which copy what it has read.

It gives up partitions as soon as the offsets of the transaction that it is in are taken: the next
member waits for its end (UNSTABLE_OFFSET_COMMIT), and reads again what is behind it (KIP-447).
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from typing_extensions import override

from simulator.checks.partitions.groups import Asked, Commit, GroupChecks
from simulator.checks.partitions.transactions import Written
from simulator.copying.session import CopySession, Source, Work
from simulator.groups.bodies import Membership
from simulator.groups.group_consumer import GroupConsumer, Member
from simulator.groups.reader import Reader
from simulator.records.clients import Cluster
from wire.errors import ErrorCode

COPIED_MAX: Final = 40
"""Records of a partition in one transaction."""
NOTICED_SHARE: Final = 0.5
"""Share of processes that end with their connections, the others in silence."""


class CopyingConsumer(GroupConsumer):
    """A consumer, from its start to its end.

    Args:
        cluster: with the topic that its group reads.
        host: its number.
        membership: in its group.
        make_member: makes its member when the id of the topic is known.
        checks: of all groups.
        on_dead: called when another client has its place.
        make_session: makes its process with a transactional id.
        rng: of its end.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        membership: Membership,
        make_member: Callable[[Any], Member],
        checks: GroupChecks,
        on_dead: Callable[[], None],
        *,
        make_session: Callable[[Source], CopySession],
        rng: Random,
    ) -> None:
        super().__init__(cluster, host, membership, make_member, checks, on_dead)
        self.session = make_session(self)
        self._rng = rng
        self._after = cluster.scheduler.after
        self._taken: dict[int, Reader] = {}
        """Readers of what the transaction under way copies; empty without one."""
        self._revoking: Callable[[], None] | None = None
        """The act that gives partitions up; None if none are to be."""
        self._may_give_up = True
        """False from the begin of a transaction until its offsets are taken."""

    @override
    def _begin(self) -> None:
        super()._begin()
        self.session.start()

    @override
    def kill(self) -> None:
        super().kill()
        self.session.crash(is_noticed=self._rng.random() < NOTICED_SHARE)

    @override
    def _begin_at(self, row: Any, reader: Reader, asked: Asked) -> None:
        if row.error_code is ErrorCode.unstable_offset_commit:
            self._checks.hit("offset_unstable")
        super()._begin_at(row, reader, asked)

    # ---- commits -------------------------------------------------------------------------------

    @override
    def _commit_all(self) -> None:
        """Commit nothing by itself: that is what transactions do."""

    @override
    def _commit(self, partitions: frozenset[int], then: Callable[[], None]) -> None:
        del partitions
        assert self._revoking is None, "nothing is asked for before they are given up"
        self._revoking = then
        self._go_on_behind()

    def _go_on_behind(self) -> None:
        """Give up what is to be, unless a transaction has not sent its offsets."""
        then = self._revoking
        if self._may_give_up and then is not None:
            self._revoking = None
            then()

    def when_awake(self, act: Callable[[], None]) -> None:
        """Do something, unless it is paused: then when it goes on."""
        self._when_awake(act)

    def stall(self, length_us: int) -> None:
        """Pause for a while."""
        self.pause()
        self._after(length_us, self.resume)

    def take(self) -> Work:
        """Offsets that it has read and nobody has copied; empty for none."""
        assert not self._taken, "one transaction at a time"
        found: dict[int, range] = {}
        for number, position, committed in self.positions:
            if position is not None and committed is not None and position != committed:
                end = min(position, committed + COPIED_MAX)
                found[number] = range(min(committed, end), end)
        self._taken = {number: self.readers[number] for number in found}
        self._may_give_up = not found
        return found

    def attempt(self, work: Work, written: Written) -> Commit | None:
        """The commit of what was copied; None if it does not own all of it any more."""
        if any(self.readers.get(number) is not reader for number, reader in self._taken.items()):
            return None
        assert self.member is not None, "it has read"
        offsets = {number: offsets.stop for number, offsets in work.items()}
        return self._checks.attempt(self.member.committer, offsets, written)

    def offsets_taken(self) -> None:
        """Note that the coordinator has the offsets: the end is the transaction's alone."""
        self._may_give_up = True
        self._when_awake(self._go_on_behind)

    def committed(self, commit: Commit) -> None:
        """Note that a transaction is committed."""
        taken, self._taken = self._taken, {}
        for number, reader in taken.items():
            self._checks.acknowledged(commit, number)
            reader.committed = commit.offsets[number]

    def rewind(self) -> None:
        """Read again from what is committed."""
        self._taken = {}
        self._may_give_up = True
        self._when_awake(self._read_again)

    def _read_again(self) -> None:
        assert self.member is not None, "it has read"
        self._stop_reading(frozenset())
        if self._revoking is None:
            self._follow(self.member)
        self._go_on_behind()
