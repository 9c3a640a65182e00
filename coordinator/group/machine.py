"""The coordinator of groups in one partition: its image, its rooms and its timers.

Expired offsets are looked for every `offsets.retention.check.interval.ms`, those of deleted topics
when a topic is deleted; some groups in each turn.
(apache/kafka: group-coordinator/.../GroupCoordinatorShard.java)
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

from coordinator.group import image as groups_image
from coordinator.group.classic.states import ClassicGroupState
from coordinator.group.consumer.group import ConsumerGroup, GroupState
from coordinator.group.counts import GroupCounts
from coordinator.group.image import NO_OFFSETS, Group, GroupsImage
from coordinator.group.offsets.deletions import delete_offsets, delete_offsets_of_topics
from coordinator.group.offsets.expiry import expire_group
from coordinator.group.offsets.requests import TopicResult
from coordinator.group.replay import replay
from coordinator.group.rules import GroupRules
from coordinator.records.group import OffsetCommitKey, OffsetCommitValue
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.census import Census
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import Applied, Write
from network.clock import Clock
from wire.batches.batch import RecordView
from wire.errors import ApiError
from wire.types import TopicId

OFFSETS_PER_TICK: Final = 200
"""Offsets that a sweep looks at in a turn, about as many microseconds; a group is not divided."""

RecordsOf = Callable[[GroupsImage, str], tuple[CoordinatorRecord, ...]]
"""Records that a sweep makes of a group."""


class OffsetsConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of offsets, with Kafka's defaults."""

    retention_minutes: int = 7 * 24 * 60
    """`offsets.retention.minutes`"""
    retention_check_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""
    metadata_max: int = 4096
    """`offset.metadata.max.bytes`"""
    commit_timeout_ms: int = 5000
    """`offsets.commit.timeout.ms`"""

    @property
    def retention_ms(self) -> int:
        """`offsets.retention.minutes` in ms."""
        return self.retention_minutes * 60_000


GroupKind = ClassicGroupState | GroupState
"""State of a group, which says its protocol too."""


class Room(Protocol):
    """A kind of groups with soft state and timers of its own."""

    def activated(self, shard: Shard[GroupsImage]) -> None:
        """Make it anew from the image of a loaded shard."""

    def resigned(self) -> None:
        """Forget it; answer who waits."""

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""

    def tick(self) -> None:
        """Do what is due."""

    def listed(self, group_id: str) -> Any:
        """A committed group for ListGroups; None if it is of another kind."""

    def state(self, group_id: str, known: Group) -> GroupKind | None:
        """State of a group that an image has; None if it is of another kind."""


RoomT = TypeVar("RoomT")


class _Sweep:
    """Groups that are still to be looked at, and what is made of each."""

    def __init__(self, group_ids: Sequence[str], records_of: RecordsOf) -> None:
        self.group_ids = deque(group_ids)
        self.records_of = records_of


class GroupMachine:
    """The machine of a shard of `__consumer_offsets`.

    Args:
        clock: of the broker.
        config: of offsets.
        rules: of the groups.
        rooms: of the kinds of groups.
        counts: raised here; None for counts of its own.
    """

    kinds = GROUP_KINDS
    empty = groups_image.EMPTY

    def __init__(
        self,
        clock: Clock,
        config: OffsetsConfig,
        rules: GroupRules,
        rooms: Sequence[Room] = (),
        *,
        counts: GroupCounts | None = None,
    ) -> None:
        self._clock = clock
        self._counts = GroupCounts() if counts is None else counts
        self._config = config
        self.rules = rules
        self._rooms = tuple(rooms)
        self._shard: Shard[GroupsImage] | None = None
        self._next_check_ms = 0
        self._sweeps: deque[_Sweep] = deque()
        self.census: Census[tuple[str, Group], GroupKind | None] = Census(self._kind_of)
        """The committed groups by state."""

    def apply(
        self, image: GroupsImage, records: Sequence[tuple[CoordinatorRecord, Applied]]
    ) -> GroupsImage:
        """The image after records; commits that are decided here count, not loaded ones."""
        if self._shard is not None:
            values = [record.value for record, _ in records]
            self._counts.offset_commits += [*map(type, values)].count(OffsetCommitValue)
        return groups_image.apply_all(image, records)

    def replay(
        self, image: GroupsImage, views: Sequence[RecordView], producer_id: int | None
    ) -> GroupsImage:
        """The image after records of the log; nothing is counted."""
        return replay(image, views, producer_id)

    def apply_marker(self, image: GroupsImage, producer_id: int, *, is_commit: bool) -> GroupsImage:
        """The image after the end of a transaction."""
        return groups_image.apply_marker(image, producer_id, is_commit=is_commit)

    def activated(self, shard: Shard[GroupsImage]) -> None:
        """Begin the timers of a loaded shard."""
        self._shard = shard
        self._next_check_ms = self._clock.now_ms + self._config.retention_check_ms
        for room in self._rooms:
            room.activated(shard)

    def resigned(self) -> None:
        """Forget all that is not in the image."""
        self._shard = None
        self._sweeps.clear()
        for room in self._rooms:
            room.resigned()

    def delete_offsets(
        self, image: GroupsImage, group_id: str, topics: Sequence[tuple[str, Sequence[int]]]
    ) -> Write[tuple[TopicResult, ...]] | ApiError:
        """Decide on an OffsetDelete."""
        decided = delete_offsets(image, group_id, topics, self.rules)
        if isinstance(decided, Write):
            self._counts.offset_deletions += len(decided.records)
        return decided

    def topics_deleted(self, deleted: Mapping[str, TopicId]) -> None:
        """Delete the offsets of topics, ids by name; nothing before the shard is loaded."""
        self._begin_sweep(partial(_of_topics, deleted=deleted))

    def room(self, kind: type[RoomT]) -> RoomT:
        """The room of a kind; there is one."""
        (found,) = (room for room in self._rooms if isinstance(room, kind))
        return found

    def listed(self, group_id: str) -> Any:
        """A committed group of an active shard for ListGroups; None if there is none."""
        found = (row for room in self._rooms if (row := room.listed(group_id)) is not None)
        return next(found, None)

    def look(self, units: int) -> int:
        """Go on with the census; the units left. A unit is a group or a member of one."""
        if self._shard is None:
            return units
        return self.census.look(self._shard.committed.groups.items(), units)

    def _kind_of(self, entry: tuple[str, Group]) -> tuple[GroupKind | None, int]:
        group_id, group = entry
        units = 1 + len(group.members) if isinstance(group, ConsumerGroup) else 1
        states = (room.state(group_id, group) for room in self._rooms)
        return next((state for state in states if state is not None), None), units

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        if self._shard is None:
            return None
        if self._sweeps:
            return self._clock.now_ms
        first_ms = self._next_check_ms
        for room in self._rooms:
            due_ms = room.next_ms()
            if due_ms is not None and due_ms < first_ms:
                first_ms = due_ms
        return first_ms

    def tick(self) -> None:
        """Begin a check that is due, go on with the oldest sweep, run the rooms."""
        now_ms = self._clock.now_ms
        if self._next_check_ms <= now_ms:
            self._next_check_ms = now_ms + self._config.retention_check_ms
            self._begin_sweep(self._expired)
        if self._sweeps:
            self._sweep_some(self._sweeps[0])
        for room in self._rooms:
            due_ms = room.next_ms()
            if due_ms is not None and due_ms <= now_ms:
                room.tick()

    def _expired(self, image: GroupsImage, group_id: str) -> tuple[CoordinatorRecord, ...]:
        records = expire_group(
            image,
            group_id,
            self.rules,
            retention_ms=self._config.retention_ms,
            wall_ms=self._clock.wall_ms,
        )
        self._counts.offset_expirations += sum(
            isinstance(record.key, OffsetCommitKey) for record in records
        )
        return records

    def _begin_sweep(self, records_of: RecordsOf) -> None:
        if self._shard is not None:
            self._sweeps.append(_Sweep(sorted(self._shard.image.groups), records_of))

    def _sweep_some(self, sweep: _Sweep) -> None:
        assert self._shard is not None, "a shard that sweeps is active"
        offsets, looked_at, chosen = self._shard.image.offsets, 0, []
        while sweep.group_ids and looked_at < OFFSETS_PER_TICK:
            chosen.append(sweep.group_ids.popleft())
            looked_at += 1 + len(offsets.get(chosen[-1], NO_OFFSETS))
        if not sweep.group_ids:
            self._sweeps.popleft()

        def decide(image: GroupsImage) -> Write[None]:
            records = [each for group_id in chosen for each in sweep.records_of(image, group_id)]
            return Write(response=None, records=tuple(records), is_atomic=False)

        self._shard.write(decide, _ignore)


def _of_topics(
    image: GroupsImage, group_id: str, deleted: Mapping[str, TopicId]
) -> tuple[CoordinatorRecord, ...]:
    return delete_offsets_of_topics(image, group_id, deleted)


def _ignore(_answer: object) -> None:
    """Leave what was not written to the next check."""
