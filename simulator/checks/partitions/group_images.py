"""Groups as the newest coordinators have them, checked when they change.

D6  no partition is of two members of a consumer group, nobody is in an epoch beyond its
    group's, and the targets are not; generations and epochs do not fall from what was committed
    once, unless the group was deleted or converted between
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.image import NO_OFFSETS, GroupsImage
from coordinator.records.group import GroupMetadataValue
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.shards import partition_for
from metadata.image import Image
from simulator.checks.partitions.promised import Reign
from simulator.checks.partitions.records import RecordChecks
from simulator.checks.violation import Violation

if TYPE_CHECKING:
    from simulator.records.machine import RecordsMachine

Place = tuple[str, int]
Epoch = tuple[type, int]
"""Kind of a group, and its generation or epoch."""


class Expected(Protocol):
    """Checks the offset of a place, None for none."""

    def __call__(
        self, place: Place, found: tuple[int, str] | None, where: str, *, is_open: bool
    ) -> None:
        """Check it; `is_open` is True while a transaction has a pending one."""


class GroupImages:
    """Watches the shards of all brokers.

    Args:
        machines: of the world.
        records: checks of its records.
        image: gives the newest committed image.
        topic: that all groups read.
        expected: checks the offset of a place, None for none.
        on_begin: called when the epochs of a group begin anew.
    """

    def __init__(
        self,
        machines: "Mapping[int, RecordsMachine]",
        records: RecordChecks,
        image: Callable[[], Image],
        topic: str,
        expected: Expected,
        on_begin: Callable[[str], None],
    ) -> None:
        self._machines = machines
        self._records = records
        self._image = image
        self._topic = topic
        self._expected = expected
        self._on_begin = on_begin
        self.mixed: set[str] = set()
        """Groups with members of both protocols, by turns: their epochs may begin anew unseen."""
        self.places: set[Place] = set()
        """Groups and partitions of which an offset may be known."""
        self._seen: dict[tuple[int, int], tuple[GroupsImage, GroupsImage]] = {}
        """(node, partition) -> latest and committed image of the last look."""
        self._epochs: dict[str, Epoch] = {}
        """Highest of what was committed; absent for a group without one."""

    # ---- coordinators --------------------------------------------------------------------------

    def _key(self, number: int) -> tuple[bytes, int] | None:
        topic_id = self._image().topic_id_by_name.get(CONSUMER_OFFSETS)
        return None if topic_id is None else (bytes(topic_id), number)

    def _number(self, group_id: str) -> int | None:
        image = self._image()
        topic_id = image.topic_id_by_name.get(CONSUMER_OFFSETS)
        if topic_id is None:
            return None
        return partition_for(group_id, len(image.topics[topic_id].partitions))

    def newest_reign(self, group_id: str, node: int) -> Reign | None:
        """The reign of a node over a group, if no newer leader is known to the quorum."""
        number = self._number(group_id)
        return None if number is None else self._newest(node, number)

    def _newest(self, node: int, number: int) -> Reign | None:
        key = self._key(number)
        if key is None:
            return None
        reign = self._records.reign_of(node, key)
        row = self._image().topics[key[0]].partitions[number]  # type: ignore[index]
        is_newest = reign is not None and reign.leader_epoch == row.leader_epoch
        return reign if is_newest else None

    def lost_us(self, group_id: str) -> int:
        """Time before which all replicas in sync may have lost what was asked for; -1: never."""
        number = self._number(group_id)
        key = None if number is None else self._key(number)
        return -1 if key is None else self._records._of(key).since_us  # noqa: SLF001

    def committed_epoch(self, group_id: str) -> int:
        """Highest generation or epoch that was committed; 0 for none."""
        known = self._epochs.get(group_id)
        return 0 if known is None else known[1]

    # ---- steps ---------------------------------------------------------------------------------

    def after_step(self, machine: "RecordsMachine") -> None:
        """Check the shards of a node that have changed.

        Raises:
            Violation: D6.
        """
        for number, shard in shards_of(machine):
            place, images = (machine.id, number), (shard.image, shard.committed)
            seen = self._seen.get(place)
            if shard.state is not ShardState.ACTIVE:
                self._seen.pop(place, None)
            elif seen is None or seen[0] is not images[0] or seen[1] is not images[1]:
                self._seen[place] = images
                if seen is not None and seen[0].groups is not images[0].groups:
                    self._note_begins(seen[0], images[0])
                if self._newest(machine.id, number) is not None:
                    self._check(machine.id, number, shard)

    def _note_begins(self, before: GroupsImage, after: GroupsImage) -> None:
        """Find groups whose epochs begin anew, before that is committed and answered.

        What is committed does not tell: it may have come to the same kind again meanwhile.
        """
        for group_id, group in before.groups.items():
            if begins_anew(_epoch_of(group), _epoch_of(after.groups.get(group_id))):
                self._on_begin(group_id)

    def check_all(self) -> None:
        """Check all shards of the newest leaders.

        Raises:
            Violation: D6.
        """
        for machine in self._machines.values():
            for number, shard in shards_of(machine):
                if self._newest(machine.id, number) is not None:
                    self._check(machine.id, number, shard)

    def _check(self, node: int, number: int, shard: Shard[GroupsImage]) -> None:
        where = f"node {node} has"
        for group_id, partition in sorted(self.places):
            if self._number(group_id) == number:
                offsets = shard.image.offsets.get(group_id, NO_OFFSETS)
                at = (self._topic, partition)
                entry = offsets.get(at)
                found = None if entry is None else (entry.offset, entry.metadata)
                is_open = shard.image.is_open(group_id, at)
                self._expected((group_id, partition), found, where, is_open=is_open)
        key = self._key(number)
        assert key is not None, "it is led"
        is_free = self._records.may_have_lost(key)
        for group_id in sorted({*shard.image.groups, *self._epochs}):
            if self._number(group_id) == number:
                self._check_group(node, group_id, shard, is_free=is_free)

    def _check_group(
        self, node: int, group_id: str, shard: Shard[GroupsImage], *, is_free: bool
    ) -> None:
        latest, known = shard.image.groups.get(group_id), self._epochs.get(group_id)
        epoch = _epoch_of(latest)
        if isinstance(latest, ConsumerGroup):
            check_consumer_group(node, latest)
        if epoch is not None and known is not None and epoch[0] is known[0]:
            may_fall = is_free or group_id in self.mixed
            if epoch[1] < known[1] and not may_fall:
                text = f"node {node}: group {group_id} falls from {known[1]} to {epoch[1]}"
                raise Violation("D6", text)
        committed = _epoch_of(shard.committed.groups.get(group_id))
        self._note_epoch(group_id, known, committed)

    def _note_epoch(self, group_id: str, known: Epoch | None, committed: Epoch | None) -> None:
        if committed is None:
            return  # a new leader does not know yet how much of its log is committed
        if known is None or committed[0] is not known[0] or committed[1] > known[1]:
            self._epochs[group_id] = committed


def shards_of(machine: "RecordsMachine") -> list[tuple[int, Shard[GroupsImage]]]:
    """Partitions of offsets that a node coordinates, and their shards; none while it is down."""
    records = machine.records
    return [] if records is None else list(records.broker._groups._shards)  # noqa: SLF001


def check_consumer_group(node: int, group: ConsumerGroup) -> None:
    """Check one consumer group.

    Raises:
        Violation: D6.
    """
    text = f"node {node}, group {group.group_id}"
    owners: dict[tuple[bytes, int], str] = {}
    for member_id in sorted(group.members):
        member = group.members[member_id]
        if max(member.member_epoch, group.assignment_epoch) > group.group_epoch:
            raise Violation("D6", f"{text}: {member_id!r} is in {member.member_epoch}, beyond it")
        for part in (member.assigned, member.pending_revocation):
            for topic_id, partitions in part.items():
                for partition in partitions:
                    owner = owners.setdefault((bytes(topic_id), partition), member_id)
                    if owner != member_id:
                        both = f"{owner!r} and {member_id!r}"
                        raise Violation("D6", f"{text}: partition {partition} is of {both}")


def begins_anew(before: Epoch | None, after: Epoch | None) -> bool:
    """True of epochs of a group that was deleted, or became one of another kind without members."""
    if before is None:
        return False
    return after is None or (after[0] is not before[0] and after[1] < before[1])


def _epoch_of(group: object) -> Epoch | None:
    if isinstance(group, ConsumerGroup):
        return ConsumerGroup, group.group_epoch
    if isinstance(group, GroupMetadataValue):
        return GroupMetadataValue, group.generation
    return None
