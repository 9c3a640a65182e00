"""The machine of groups on a shard: checks of retention, deleted topics, rooms."""

import pytest

from coordinator.group import machine as machine_module
from coordinator.group.classic.states import ClassicGroupState
from coordinator.group.counts import GroupCounts
from coordinator.group.image import Group, GroupsImage, SimpleGroup
from coordinator.group.machine import GroupMachine, OffsetsConfig
from coordinator.group.rules import RecordedRules
from coordinator.records.consumer import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from coordinator.records.group import GroupMetadataKey
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import ProducerIdAndEpoch, Write
from network.clock import Clock, Now
from tests.coordinator.group.test_image import CLASSIC, TOPIC_ID, committed
from tests.coordinator.memory_log import MemoryShardLog
from wire.errors import ApiError, ErrorCode
from wire.types import LeaderEpoch, Offset

CONFIG = OffsetsConfig(retention_minutes=1, retention_check_ms=600)


class Room:
    def __init__(self) -> None:
        self.due_ms: int | None = None
        self.calls: list[str] = []

    def activated(self, shard: Shard[GroupsImage]) -> None:
        self.calls.append(f"activated {len(shard.image.groups)}")

    def resigned(self) -> None:
        self.calls.append("resigned")

    def next_ms(self) -> int | None:
        return self.due_ms

    def tick(self) -> None:
        self.calls.append("tick")

    def listed(self, group_id: str) -> str | None:
        return f"row of {group_id}" if group_id == "known" else None

    def state(self, group_id: str, known: Group) -> ClassicGroupState | None:
        self.calls.append(f"state {group_id}")
        return ClassicGroupState.EMPTY if isinstance(known, SimpleGroup) else None


class Setup:
    def __init__(self) -> None:
        self.clock = Clock(Now(1_000, 50_000))
        self.log = MemoryShardLog()
        self.room = Room()
        self.counts = GroupCounts()
        self.machine = GroupMachine(
            self.clock, CONFIG, RecordedRules(), (self.room,), counts=self.counts
        )
        self.shard = Shard(
            self.machine, self.log, self.clock, epoch=LeaderEpoch(1), timeout_ms=5_000
        )
        assert self.machine.next_ms() is None
        self.machine.topics_deleted({"t": TOPIC_ID})  # nothing is loaded
        self.shard.activate()
        assert self.shard.next_ms() == 1_600

    def write(
        self, *records: CoordinatorRecord, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        write = Write(response=None, records=records, producer=producer)
        self.shard.write(lambda _image: write, lambda _answer: None)
        self.log.commit(self.shard)

    def pass_ms(self, ms: int) -> None:
        self.clock.set(Now(self.clock.now_ms + ms, self.clock.wall_ms + ms))
        self.shard.tick()
        self.log.commit(self.shard)


def test_expired_offsets_and_their_groups_go_at_the_check() -> None:
    s = Setup()
    s.write(committed(1, commit_timestamp=-9_400), committed(2, group="h", commit_timestamp=-9_399))
    s.pass_ms(599)
    assert sorted(s.shard.committed.groups) == ["g", "h"]
    s.pass_ms(1)
    assert sorted(s.shard.committed.groups) == ["h"]
    assert s.shard.next_ms() == 2_200
    s.pass_ms(600)
    assert s.shard.committed == GroupsImage()


def test_a_sweep_is_done_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "OFFSETS_PER_TICK", 4)
    s = Setup()
    s.write(*(committed(1, group=group, partition=n) for group in "abcde" for n in range(2)))
    s.machine.topics_deleted({"t": TOPIC_ID})
    left = []
    while s.machine.next_ms() == s.clock.now_ms:
        s.pass_ms(0)
        left.append(len(s.shard.committed.offsets))
    assert left == [3, 1, 0]
    assert sorted(s.shard.committed.groups) == [*"abcde"]
    assert s.machine.next_ms() == 1_600


def test_the_offsets_of_a_deleted_topic_go() -> None:
    s = Setup()
    s.write(committed(1, topic_id=TOPIC_ID), committed(2, topic="u"))
    s.write(committed(3, partition=1), producer=ProducerIdAndEpoch(70, 1))
    s.machine.topics_deleted({"t": TOPIC_ID})
    assert s.shard.next_ms() == 1_000
    s.pass_ms(0)
    assert [*s.shard.committed.offsets["g"]] == [("u", 0)]
    assert not s.shard.committed.pending
    assert [len(batch) for batch in s.log.records(GROUP_KINDS)] == [2, 1, 2]


def test_rooms_live_with_the_shard() -> None:
    s = Setup()
    s.room.due_ms = 1_500
    assert s.shard.next_ms() == 1_500
    s.pass_ms(499)
    s.machine.tick()
    assert s.room.calls == ["activated 0"]
    s.pass_ms(1)
    assert s.room.calls == ["activated 0", "tick"]
    s.shard.resign()
    assert s.room.calls == ["activated 0", "tick", "resigned"]
    assert s.machine.next_ms() is None


def test_a_resigned_machine_sweeps_no_more() -> None:
    s = Setup()
    s.write(committed(1))
    s.machine.topics_deleted({"t": TOPIC_ID})
    s.shard.resign()
    s.shard.tick()
    assert s.machine.next_ms() is None
    s.machine.topics_deleted({"t": TOPIC_ID})
    assert len(s.log.batches) == 1


def test_the_log_gives_the_same_image() -> None:
    s = Setup()
    s.write(committed(1))
    s.write(committed(2), producer=ProducerIdAndEpoch(70, 1))
    s.shard.complete_transaction(
        ProducerIdAndEpoch(70, 1), is_commit=True, coordinator_epoch=0, answer=lambda _: None
    )
    s.log.commit(s.shard)
    again = Shard(
        GroupMachine(s.clock, CONFIG, RecordedRules()), s.log, s.clock, epoch=LeaderEpoch(2),
        timeout_ms=5_000,
    )  # fmt: skip
    s.log.load(again)
    assert again.committed == s.shard.committed
    entry = again.committed.offset("g", ("t", 0))
    assert entry is not None
    assert entry.record_offset == Offset(1)


def test_rooms_are_found_by_their_kind_and_asked_for_their_groups() -> None:
    s = Setup()
    assert s.machine.room(Room) is s.room
    assert s.machine.listed("known") == "row of known"
    assert s.machine.listed("other") is None


def test_what_is_decided_counts_and_what_is_loaded_does_not() -> None:
    s = Setup()
    s.write(committed(1), committed(2, partition=1), committed(3, group="h"))
    s.write(committed(4), producer=ProducerIdAndEpoch(70, 1))
    s.write(CoordinatorRecord(GroupMetadataKey(group="g"), CLASSIC))
    assert s.counts == GroupCounts(offset_commits=4)
    image = s.shard.image
    decided = s.machine.delete_offsets(image, "g", [("t", [0, 1, 2])])
    assert isinstance(decided, Write)
    s.write(*decided.records)
    assert s.machine.delete_offsets(image, "none", [("t", [0])]) == ApiError(
        ErrorCode.group_id_not_found, "Group none not found."
    )
    assert s.counts == GroupCounts(offset_commits=4, offset_deletions=2)
    again = GroupMachine(s.clock, CONFIG, RecordedRules(), counts=s.counts)
    s.log.load(Shard(again, s.log, s.clock, epoch=LeaderEpoch(2), timeout_ms=5_000))
    assert s.counts.offset_commits == 4


def test_expired_offsets_count_and_their_groups_do_not() -> None:
    s = Setup()
    s.write(*(committed(1, partition=n, commit_timestamp=-9_400) for n in range(2)))
    s.write(committed(2, group="h", commit_timestamp=50_000))
    s.pass_ms(600)
    assert [*s.shard.committed.groups] == ["h"]
    assert (s.counts.offset_expirations, s.counts.offset_deletions) == (2, 0)


def test_committed_groups_are_counted_by_what_the_rooms_say() -> None:
    s = Setup()
    s.write(committed(1), committed(1, group="h"))
    s.shard.write(
        lambda _: Write(response=None, records=(committed(1, group="i"),)), lambda _: None
    )
    assert s.machine.look(1) == 0
    assert s.machine.look(5) == 4
    assert s.machine.census.counts == {ClassicGroupState.EMPTY: 2}
    s.write(CoordinatorRecord(GroupMetadataKey(group="h"), CLASSIC))
    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="h",
        subscribed_topic_names=("t",),
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=None,
    )
    s.write(CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id="k", member_id="m"), member))
    assert s.machine.look(10) == 5, "one for each group, one for each member"
    assert s.machine.census.counts == {ClassicGroupState.EMPTY: 2, None: 2}
    s.shard.resign()
    assert s.machine.look(10) == 10
