"""The room on a shard: what is committed when a request is answered, deadlines, other decisions."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.group.classic import room as room_module
from coordinator.group.classic.requests import Join
from coordinator.group.classic.room import RETRY_MS, ClassicRoom
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.deletion import delete_groups
from coordinator.group.machine import GroupMachine, OffsetsConfig
from coordinator.group.offsets.requests import Committer
from coordinator.group.rules import accept_all
from coordinator.records.group import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime import shard as shard_module
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import Write
from network.clock import Clock, Now
from tests.coordinator.group.classic.classic_story import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
)
from tests.coordinator.memory_log import MemoryShardLog
from wire.api_keys import HEARTBEAT, LEAVE_GROUP, SYNC_GROUP
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.types import LeaderEpoch

WRITE_TIMEOUT_MS = 5_000
TOPIC_ID = bytes(15) + b"\1"
SUBSCRIPTION = b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff"


class Setup:
    """A shard with classic groups; what is appended is committed by `commit`."""

    def __init__(self, log: MemoryShardLog | None = None) -> None:
        self.clock = Clock(Now(1_000, 50_000))
        self.log = MemoryShardLog() if log is None else log
        self.room = ClassicRoom(self.clock, ClassicSettings(initial_rebalance_delay_ms=0))
        self.machine = GroupMachine(self.clock, OffsetsConfig(), self.room.rules, (self.room,))
        self.shard = Shard(
            self.machine, self.log, self.clock, epoch=LeaderEpoch(1), timeout_ms=WRITE_TIMEOUT_MS
        )
        self.log.load(self.shard)
        self.uuid_count = 0

    def ask(self, request: Callable[[Callable[[Any], None]], None]) -> list[Any]:
        answers: list[Any] = []
        request(answers.append)
        return answers

    def join(self, member_id: str = "", group_id: str = GROUP, **properties: Any) -> list[Any]:
        request = replace(
            Join(
                group_id=group_id,
                member_id=member_id,
                client_id="c",
                client_host="/127.0.0.1",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=RANGE,
            ),
            **properties,
        )
        self.uuid_count += 1
        return self.ask(lambda answer: self.room.join(request, f"u{self.uuid_count}", answer))

    def sync(self, member_id: str, generation_id: int = 1, *names: str) -> list[Any]:
        new = codec.newest(SYNC_GROUP, "request")
        request: Any = new.SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation_id,
            member_id=member_id,
            protocol_type=None,
            protocol_name=None,
            assignments=tuple(
                new.SyncGroupRequestAssignment(member_id=name, assignment=name.encode())
                for name in names
            ),
        )
        return self.ask(lambda answer: self.room.sync(request, answer))

    def heartbeat(self, member_id: str, generation_id: int = 1) -> list[Any]:
        request: Any = codec.newest(HEARTBEAT, "request").HeartbeatRequest(
            group_id=GROUP, generation_id=generation_id, member_id=member_id
        )
        return self.ask(lambda answer: self.room.heartbeat(request, answer))

    def leave(self, member_id: str) -> list[Any]:
        new = codec.newest(LEAVE_GROUP, "request")
        request: Any = new.LeaveGroupRequest(
            group_id=GROUP,
            members=(new.MemberIdentity(member_id=member_id, group_instance_id=None, reason=None),),
        )
        return self.ask(lambda answer: self.room.leave(request, answer))

    def commit(self) -> None:
        self.log.commit(self.shard)

    def pass_ms(self, ms: int) -> None:
        self.clock.set(Now(self.clock.now_ms + ms, self.clock.wall_ms + ms))
        self.shard.tick()

    def stable(self, **properties: Any) -> str:
        """A Stable group of one member, whose id is returned."""
        (told,) = self.join(**properties)
        joined = self.join(told.member_id, **properties)
        self.pass_ms(0)
        (answer,) = joined
        self.sync(answer.member_id, 1, answer.member_id)
        self.commit()
        return str(answer.member_id)

    @property
    def entry(self) -> Any:
        return self.shard.image.groups.get(GROUP)


def codes(answers: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(answer.error_code) for answer in answers]


def test_assignment_is_given_when_its_record_is_committed() -> None:
    setup = Setup()
    (told,) = setup.join()
    assert codes([told]) == [ErrorCode.member_id_required], "an id needs no commit"
    (joined,) = setup.join(told.member_id) or [None]
    assert joined is None
    setup.pass_ms(0)
    setup.commit()
    synced = setup.sync(told.member_id, 1, told.member_id)
    beaten = setup.heartbeat(told.member_id)
    setup.shard.flush()
    assert (synced, beaten) == ([], [])
    setup.pass_ms(17)
    setup.commit()
    assert codes(synced + beaten) == [ErrorCode.none] * 2
    assert synced[0].assignment == told.member_id.encode()
    assert setup.room.described(GROUP).group_state == "Stable"
    group = setup.entry
    assert (group.generation, group.leader) == (1, told.member_id)
    assert [len(batch) for batch in setup.log.records(GROUP_KINDS)] == [1, 1]


def test_emptied_group_answers_when_its_record_is_committed() -> None:
    setup = Setup()
    member_id = setup.stable()
    assert not setup.room.is_empty(GROUP)
    left = setup.leave(member_id)
    assert left == []
    assert setup.room.is_empty(GROUP)
    setup.commit()
    assert codes(left + list(left[0].members)) == [ErrorCode.none] * 2
    assert (setup.entry.generation, setup.entry.members) == (2, ())
    assert setup.room.is_empty("none")


def test_deadlines_are_the_shard_s() -> None:
    setup = Setup()
    member_id = setup.stable()
    assert setup.shard.next_ms() == setup.room.next_ms() == setup.clock.now_ms + SESSION_MS
    setup.pass_ms(SESSION_MS)
    setup.commit()
    assert codes(setup.heartbeat(member_id, 2)) == [ErrorCode.unknown_member_id]
    assert setup.entry.generation == 2


def test_deadlines_of_one_turn_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_module, "EXPIRED_PER_TICK", 2)
    setup = Setup()
    for number in range(3):
        setup.join(group_id=f"g{number}")
    setup.commit()
    setup.pass_ms(SESSION_MS)
    assert setup.room.next_ms() == setup.clock.now_ms
    setup.pass_ms(0)
    assert setup.room.next_ms() is None


def test_deadline_that_the_shard_has_no_room_for_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = Setup()
    member_id = setup.stable()
    monkeypatch.setattr(shard_module, "PENDING_MAX", 0)
    refused = setup.heartbeat(member_id), setup.join(member_id), setup.leave(member_id)
    synced = setup.sync(member_id)
    for answers in (*refused, synced):
        assert codes(answers) == [ErrorCode.coordinator_not_available]
    setup.pass_ms(SESSION_MS)
    assert setup.room.next_ms() == setup.clock.now_ms + RETRY_MS
    assert not setup.room.is_empty(GROUP)
    monkeypatch.undo()
    setup.pass_ms(RETRY_MS)
    assert setup.room.is_empty(GROUP)


def test_lost_assignment_is_told_and_taken_back() -> None:
    setup = Setup()
    member_id = setup.stable()
    setup.join(member_id)
    setup.log.refusing = ErrorCode.not_enough_replicas
    synced = setup.sync(member_id, 2, member_id)
    setup.shard.flush()
    assert codes(synced) == [ErrorCode.coordinator_not_available]
    assert setup.room.described(GROUP).group_state == "PreparingRebalance"
    assert setup.entry.generation == 1


def test_assignment_that_is_not_committed_in_time_is_told_and_taken_back() -> None:
    setup = Setup()
    member_id = setup.stable()
    setup.join(member_id)
    synced = setup.sync(member_id, 2, member_id)
    setup.shard.flush()
    setup.pass_ms(WRITE_TIMEOUT_MS)
    assert codes(synced) == [ErrorCode.coordinator_not_available]
    assert setup.room.described(GROUP).group_state == "PreparingRebalance"


def test_new_group_whose_record_is_lost_is_gone() -> None:
    setup = Setup()
    setup.log.refusing = ErrorCode.not_leader_or_follower
    (told,) = setup.join()
    parked = setup.join(group_instance_id="one")
    setup.shard.flush()
    assert codes(parked) == [ErrorCode.not_coordinator]
    assert setup.entry is None
    assert codes(setup.join(told.member_id)) == [ErrorCode.unknown_member_id]


def test_next_shard_takes_over_and_the_old_one_answers_who_waits() -> None:
    setup = Setup()
    member_id = setup.stable()
    (told,) = setup.join()
    parked = setup.join(member_id)
    setup.shard.resign()
    assert codes(parked) == [ErrorCode.not_coordinator]
    assert setup.room.next_ms() is None
    with pytest.raises(AssertionError, match="active"):
        setup.room.is_empty(GROUP)

    after = Setup(setup.log)
    assert after.room.next_ms() == after.clock.now_ms + SESSION_MS
    assert codes(after.heartbeat(member_id)) == [ErrorCode.none]
    assert codes(after.join(told.member_id)) == [ErrorCode.unknown_member_id]


# Other decisions


def commit_check(setup: Setup, **properties: Any) -> Any:
    committer = Committer(api_version=9, **properties)
    return setup.room.rules.commit_check(GROUP, setup.entry, committer)


def test_commit_of_a_member_keeps_its_session() -> None:
    setup = Setup()
    member_id = setup.stable()
    setup.clock.set(Now(setup.clock.now_ms + 500, setup.clock.wall_ms + 500))
    assert commit_check(setup, member_id=member_id, generation_id=2) == ApiError(
        ErrorCode.illegal_generation
    )
    assert setup.room.next_ms() == setup.clock.now_ms + SESSION_MS - 500
    transactional = {"member_id": member_id, "generation_id": 1, "is_transactional": True}
    assert commit_check(setup, **transactional) is accept_all
    assert setup.room.next_ms() == setup.clock.now_ms + SESSION_MS - 500
    assert commit_check(setup, member_id=member_id, generation_id=1) is accept_all
    assert setup.room.next_ms() == setup.clock.now_ms + SESSION_MS


def test_commit_of_nobody_to_an_empty_group_keeps_no_session() -> None:
    setup = Setup()
    setup.leave(setup.stable())
    setup.commit()
    assert commit_check(setup) is accept_all
    assert setup.room.next_ms() is None
    assert commit_check(setup, member_id="m", generation_id=1) == ApiError(
        ErrorCode.unknown_member_id
    )


def test_rules_of_a_group_with_consumers() -> None:
    setup = Setup()
    protocols = tuple(type(RANGE[0])("range", SUBSCRIPTION) for _ in "1")
    setup.stable(protocols=protocols)
    rules, group = setup.room.rules, setup.entry
    assert rules.is_subscribed(GROUP, group, "t")
    assert not rules.is_subscribed(GROUP, group, "other")
    assert rules.unused_since_ms(GROUP, group, "t", 7) is None
    assert rules.unused_since_ms(GROUP, group, "other", 7) == 7
    assert rules.offset_delete_error(GROUP, group) is None
    assert rules.fetch_error(GROUP, group, None, -1) is None
    assert rules.tombstones(GROUP, group) is None


def test_deleted_group_goes_with_its_offsets() -> None:
    setup = Setup()
    member_id = setup.stable()
    key = OffsetCommitKey(group=GROUP, topic="t", partition=0)
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=5)
    committed = Write(response=None, records=(CoordinatorRecord(key, value),))
    setup.shard.write(lambda _: committed, lambda _: None)

    def delete() -> list[Any]:
        def decide(image: Any) -> Any:
            return delete_groups(image, (GROUP, "none"), setup.machine.rules)

        answers = setup.ask(lambda answer: setup.shard.write(decide, answer))
        setup.commit()
        return answers

    not_found = ("none", ErrorCode.group_id_not_found)
    assert delete() == [((GROUP, ErrorCode.non_empty_group), not_found)]
    setup.leave(member_id)
    (told,) = setup.join()
    assert delete() == [((GROUP, ErrorCode.none), not_found)]
    records = [record for batch in setup.log.records(GROUP_KINDS) for record in batch]
    assert records[-2:] == [
        CoordinatorRecord(key, None),
        CoordinatorRecord(GroupMetadataKey(group=GROUP), None),
    ]
    assert setup.room.next_ms() is None
    assert setup.room.described(GROUP) is None
    assert setup.room.listed(GROUP) is None
    assert codes(setup.join(told.member_id)) == [ErrorCode.unknown_member_id]


def test_group_is_seen_as_it_is_committed() -> None:
    setup = Setup()
    setup.join()
    assert setup.room.described(GROUP) is None
    setup.commit()
    assert setup.room.described(GROUP).group_state == "Empty"
    assert setup.room.listed(GROUP).group_type == "classic"
    group = setup.entry
    assert setup.room.rules.tombstones(GROUP, group) is not None
    assert setup.room.described(GROUP).group_state == "Empty", "its tombstone is not committed"
