"""Invariant of groups over what their members see, and what coordinators keep (group_images.py).

    D6  an offset whose commit is acknowledged is there, or one of a commit that is not before it,
        in each later coordinator and each answer of it; a commit that is refused is nowhere; no
        partition has two members in one epoch; nobody commits a partition in an epoch after that in
        which another has got it, nor as a static member whose place another has; what is committed
        was read, without a gap from the beginning on

Every commit has a number of its own in its metadata, by which it is known again. The coordinators
may lose what all replicas in sync lost together (records.py): then nothing that was asked for
before is expected. An answer counts for the reign of the newest leader alone, as it was when it was
asked: a leader that others have replaced answers from what it knew.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from metadata.image import Image
from simulator.checks.partitions.group_images import GroupImages
from simulator.checks.partitions.promised import Reign
from simulator.checks.partitions.records import RecordChecks
from simulator.checks.partitions.transactions import TransactionChecks, Written
from simulator.checks.violation import Violation
from simulator.groups.bodies import Committer

if TYPE_CHECKING:
    from simulator.records.machine import RecordsMachine

Place = tuple[str, int]
"""Group id and partition of its topic."""
NO_OFFSET: Final = -1
LONG_AGO_US: Final = -1


class Commit(msgspec.Struct, kw_only=True):
    """A request to commit."""

    by: Committer
    offsets: Mapping[int, int]
    number: int
    sent_us: int
    acknowledged_us: dict[int, int] = {}
    """Time of the answer, by partition."""
    refused: set[int] = set()
    written: Written | None = None
    """The transaction that it is in; None for a plain commit."""

    @property
    def metadata(self) -> str:
        """By which it is known again."""
        return f"c{self.number}"


class Asked(NamedTuple):
    """Time at which a coordinator was asked, and its reign then; None if it did not lead."""

    sent_us: int
    reign: Reign | None


class Claim(NamedTuple):
    """A member that was given a partition, its epoch, and when that was known."""

    by: Committer
    epoch: int
    since_us: int

    @property
    def owner(self) -> str:
        """The member, or the instance that it is of."""
        return owner_of(self.by)


class Acknowledged:
    """Commits of a place that were acknowledged, in the order of that."""

    def __init__(self) -> None:
        self._at_us: list[int] = []
        self._sent_us: list[int] = []
        """Time at which the newest of all up to it was sent."""

    def add(self, commit: Commit, at_us: int) -> None:
        """Note one more."""
        self._at_us.append(at_us)
        self._sent_us.append(max([commit.sent_us, *self._sent_us[-1:]]))

    def newest_sent_us(self, before_us: int) -> int:
        """Time at which the newest of those acknowledged before another was sent; -1: none was."""
        count = bisect_left(self._at_us, before_us)
        return self._sent_us[count - 1] if count else -1


def owner_of(by: Committer) -> str:
    """The member, or the instance that it is of."""
    return by.member_id if by.instance_id is None else f"instance {by.instance_id}"


class GroupChecks:
    """The checks of all groups of a world.

    Args:
        machines: of the world.
        records: checks of its records, which know what may be lost.
        image: gives the newest committed image.
        now_us: gives the time.
        topic: that all groups read.
    """

    def __init__(
        self,
        machines: "Mapping[int, RecordsMachine]",
        records: RecordChecks,
        image: Callable[[], Image],
        now_us: Callable[[], int],
        topic: str,
    ) -> None:
        self._records = records
        self._now_us = now_us
        self.hit = records.hit
        self._images = GroupImages(machines, records, image, topic, self._expected, self._begin)
        self.classic: set[str] = set()
        """Groups whose members all use the classic protocol, at any time."""
        self.transactions: TransactionChecks | None = None
        """Of commits in transactions; of these little is said where decisions may be lost."""
        self._copying: set[str] = set()
        """Groups that commit in transactions."""
        self._commits: dict[Place, dict[str, Commit]] = {}
        """Commits by their metadata."""
        self._acknowledged: dict[Place, Acknowledged] = {}
        self._number = 0
        self.covered: dict[Place, int] = {}
        """End of what was read from the beginning on."""
        self._claims: dict[tuple[str, int], dict[int, Claim]] = {}
        """By group and epoch, then by partition."""
        self._newest: dict[Place, Claim] = {}
        self._instances: dict[tuple[str, str], tuple[str, int]] = {}
        """Member of an instance, and since when it is known that it is."""
        self._begun_us: dict[str, int] = {}
        """Time at which the epochs of a group began anew."""

    def note_group(self, group_id: str, *, is_classic: bool, is_mixed: bool) -> None:
        """Note the protocols that members of a group use."""
        if is_classic and not is_mixed:
            self.classic.add(group_id)
        if is_mixed:
            self._images.mixed.add(group_id)

    # ---- steps ---------------------------------------------------------------------------------

    def after_step(self, machine: "RecordsMachine") -> None:
        """Check what a node has of the groups that it coordinates.

        Raises:
            Violation: D6.
        """
        self._images.after_step(machine)

    def check_at_rest(self) -> None:
        """Check what the newest coordinators have of all groups.

        Raises:
            Violation: D6.
        """
        self._images.check_all()

    def asking(self, group_id: str, node: int) -> Asked:
        """Note that a node is asked."""
        return Asked(self._now_us(), self._images.newest_reign(group_id, node))

    def _is_still(self, group_id: str, asked: Asked) -> bool:
        reign = asked.reign
        if reign is None or asked.sent_us <= self._images.lost_us(group_id):
            return False
        return self._images.newest_reign(group_id, reign.node) == reign

    def _begin(self, group_id: str) -> None:
        """Epochs of a group begin anew: it was deleted, or converted without members."""
        self._begun_us[group_id] = self._now_us()
        for key in [key for key in self._claims if key[0] == group_id]:
            del self._claims[key]
        for place in [place for place in self._newest if place[0] == group_id]:
            del self._newest[place]

    # ---- offsets -------------------------------------------------------------------------------

    def attempt(
        self, by: Committer, offsets: Mapping[int, int], written: Written | None = None
    ) -> Commit:
        """Note that offsets are about to be committed; the group has read what is below them."""
        self._number += 1
        commit = Commit(
            by=by, offsets=offsets, number=self._number, sent_us=self._now_us(), written=written
        )
        if written is not None:
            self._copying.add(by.group_id)
        for partition, offset in offsets.items():
            place = (by.group_id, partition)
            self._commits.setdefault(place, {})[commit.metadata] = commit
            self._images.places.add(place)
            assert offset <= self.covered.get(place, 0), f"{place=} {offset=}"
        return commit

    def acknowledged(self, commit: Commit, partition: int) -> None:
        """Note that a commit is acknowledged.

        Raises:
            Violation: D6: it came from one that may not commit any more.
        """
        self.hit("offset_committed")
        by, place, now_us = commit.by, (commit.by.group_id, partition), self._now_us()
        commit.acknowledged_us[partition] = now_us
        self._acknowledged.setdefault(place, Acknowledged()).add(commit, now_us)
        lost_us = self._images.lost_us(by.group_id)
        claim, owner = self._newest.get(place), owner_of(by)
        text = f"{place}: {owner!r} commits in epoch {by.epoch}"
        if claim is not None and lost_us < claim.since_us < commit.sent_us:
            is_old = by.epoch < claim.epoch and by.group_id in self.classic
            if is_old or (by.epoch <= claim.epoch and claim.owner != owner):
                raise Violation("D6", f"{text}, {claim.owner!r} has it since {claim.epoch}")
        known = self._instances.get((by.group_id, by.instance_id or ""))
        if known is not None and known[0] != by.member_id and lost_us < known[1] < commit.sent_us:
            raise Violation("D6", f"{text} as {by.member_id!r}, which {known[0]!r} has replaced")

    def refused(self, commit: Commit, partition: int) -> None:
        """Note that a commit is refused, and nowhere."""
        self.hit("offset_refused")
        commit.refused.add(partition)

    def fetched(self, place: Place, offset: int, metadata: str, asked: Asked) -> None:
        """Check an offset that a coordinator gives.

        Raises:
            Violation: D6.
        """
        if self._is_still(place[0], asked):
            self.hit("offset_fetched")
            found = None if offset == NO_OFFSET else (offset, metadata)
            self._compare(place, found, asked.sent_us, "fetched")

    def _expected(
        self, place: Place, found: tuple[int, str] | None, where: str, *, is_open: bool
    ) -> None:
        """Check an offset that the newest coordinator has, or that it has none.

        With a transaction whose end it has not been told it may have the one before.
        """
        self._compare(place, found, LONG_AGO_US if is_open else self._now_us(), where)

    def _compare(
        self, place: Place, found: tuple[int, str] | None, asked_us: int, where: str
    ) -> None:
        """Check that an offset may be that of a group at some time after `asked_us`."""
        partition, acknowledged = place[1], self._acknowledged.get(place, Acknowledged())
        newest_us = acknowledged.newest_sent_us(asked_us)
        if newest_us <= self._images.lost_us(place[0]) or self._is_undecided(place[0]):
            newest_us = -1
        if found is None:
            if newest_us >= 0:
                raise Violation("D6", f"{place}: {where} none, and a commit was acknowledged")
            return
        commit = self._commits.get(place, {}).get(found[1])
        if commit is None or commit.offsets[partition] != found[0]:
            raise Violation("D6", f"{place}: {where} {found}, which nobody committed")
        if commit.written is not None:
            self._check_ended(place, commit.written, f"{where} {found}")
        if partition in commit.refused:
            raise Violation("D6", f"{place}: {where} {found}, which was refused")
        if commit.acknowledged_us.get(partition, newest_us) < newest_us:
            raise Violation("D6", f"{place}: {where} {found}, a later commit was acknowledged")

    def _is_undecided(self, group_id: str) -> bool:
        """True if commits of a group may be lost, as decisions of their transactions are."""
        if group_id not in self._copying:
            return False
        assert self.transactions is not None, "a client commits in transactions"
        return self.transactions.is_excused

    def _check_ended(self, place: Place, written: Written, what: str) -> None:
        if not written.may_be_seen and not self._is_undecided(place[0]):
            text = f"of {written.label}, {written.outcome.value}"
            raise Violation("D6", f"{place}: {what}, {text}")

    # ---- reading -------------------------------------------------------------------------------

    def started(self, place: Place, offset: int) -> None:
        """Check that a member begins where its group is, or before.

        Raises:
            Violation: D6: there is a gap.
        """
        if offset:
            self.hit("read_from_committed")
        if offset > self.covered.get(place, 0):
            raise Violation("D6", f"{place}: begins at {offset}, read to {self.covered.get(place)}")

    def consumed(self, place: Place, position: int, end_offset: int) -> None:
        """Note what a member has read from its position on."""
        assert position <= self.covered.get(place, 0), f"{place=} {position=}"
        self.covered[place] = max(self.covered.get(place, 0), end_offset)

    # ---- members -------------------------------------------------------------------------------

    def claimed(self, by: Committer, partitions: frozenset[int], asked: Asked) -> None:
        """Check partitions that a member was given in its epoch, if that is committed.

        Raises:
            Violation: D6: another one has got one of them in the same epoch.
        """
        group_id, epoch = by.group_id, by.epoch
        if not self._is_still(group_id, asked) or epoch > self._images.committed_epoch(group_id):
            return
        if asked.sent_us <= self._begun_us.get(group_id, -1):
            return
        now_us, owner = self._now_us(), owner_of(by)
        lost_us = self._images.lost_us(group_id)
        claims = self._claims.setdefault((group_id, epoch), {})
        for partition in sorted(partitions):
            claim, newest = claims.get(partition), self._newest.get((group_id, partition))
            if claim is None or claim.since_us <= lost_us:
                claim = claims[partition] = Claim(by, epoch, now_us)
            if claim.owner != owner:
                text = f"{claim.owner!r} and {owner!r} have it in epoch {epoch}"
                raise Violation("D6", f"{(group_id, partition)}: {text}")
            if newest is None or newest.epoch < epoch or newest.since_us <= lost_us:
                self._newest[group_id, partition] = claim
        if by.instance_id is not None:
            self._note_instance((group_id, by.instance_id), by.member_id, asked.sent_us)

    def _note_instance(self, instance: tuple[str, str], member_id: str, sent_us: int) -> None:
        """Note the member of an instance; an answer that may be of the one before says nothing."""
        known = self._instances.get(instance)
        if known is None or (known[0] != member_id and known[1] < sent_us):
            self._instances[instance] = (member_id, self._now_us())
