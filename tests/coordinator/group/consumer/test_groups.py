"""Consumer groups of a shard: sessions, revocations, resolutions; other groups of the same name."""

import msgspec
import pytest

from coordinator.group.consumer.regexes import NAMES_PER_STEP
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from coordinator.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord
from network.clock import Now
from tests.coordinator.group.consumer.driver import cluster_of, topic_id
from tests.coordinator.group.consumer.shard_driver import ShardDriver, at_offset
from wire.errors import ApiError, ErrorCode

A = topic_id("a")

REMOVAL = ["current-", "target-", "member-", "epoch"]


def test_a_member_that_is_silent_for_a_session_is_removed() -> None:
    setup = ShardDriver()
    assert setup.groups.next_ms() is None
    setup.join("m1", "a")
    assert setup.groups.next_ms() == 11_000
    setup.pass_ms(600)
    setup.beat("m1", 2)
    assert setup.pass_ms(999) == []
    assert setup.pass_ms(1) == REMOVAL
    assert setup.groups.next_ms() is None
    assert not setup.group.members


def test_a_group_has_sessions_of_its_own_within_the_brokers_bounds() -> None:
    setup = ShardDriver()
    for text, session_ms in (("2000", 2_000), ("9000", 5_000), ("1", 500)):
        setup.configs["g"] = {"consumer.session.timeout.ms": text}
        setup.join("m1", "a")
        assert setup.groups.next_ms() in (10_000 + session_ms, 10_500)
    assert setup.pass_ms(500) == REMOVAL


def test_the_interval_of_a_group_is_answered() -> None:
    setup = ShardDriver()
    assert setup.join("m1", "a").heartbeat_interval_ms == 5_000
    setup.configs["g"] = {"consumer.heartbeat.interval.ms": "7000"}
    assert setup.join("m1", "a").heartbeat_interval_ms == 7_000


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.join("m2", "a")
    setup.beat("m1", 2, owned={A: (0, 1)})
    assert setup.groups.next_ms() == 10_300
    setup.pass_ms(200)
    setup.beat("m1", 2)
    setup.beat("m2", 3)
    assert setup.pass_ms(99) == []
    assert setup.pass_ms(1) == REMOVAL
    assert set(setup.group.members) == {"m2"}
    assert setup.groups.next_ms() == 11_200, "the session of m2 alone"


def test_a_member_that_revokes_in_time_stays() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.join("m2", "a")
    setup.beat("m1", 2, owned={A: (0, 1)})
    setup.beat("m1", 2, owned={A: (0,)})
    assert setup.pass_ms(300) == []
    assert setup.groups.next_ms() == 11_000


def test_a_member_in_another_epoch_than_was_to_be_left_stays() -> None:
    """Its records say so though its deadline is still there: the write before was lost."""
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.join("m2", "a")
    setup.beat("m1", 2, owned={A: (0, 1)})
    member = setup.group.members["m1"]
    moved = msgspec.structs.replace(member, member_epoch=3)
    group = msgspec.structs.replace(setup.group, members=setup.group.members.set("m1", moved))
    setup.shard.image = msgspec.structs.replace(
        setup.shard.image, groups=setup.shard.image.groups.set("g", group)
    )
    assert setup.pass_ms(300) == []


def test_who_left_has_no_deadlines() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.beat("m1", -1)
    assert setup.groups.next_ms() is None


def test_a_static_member_that_is_away_keeps_its_session() -> None:
    setup = ShardDriver()
    setup.join("m1", "a", instance_id="i1")
    setup.beat("m1", -2, instance_id="i1")
    assert setup.pass_ms(1_000) == REMOVAL


def test_a_removal_that_is_not_appended_is_tried_again() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.join("m2", "a")
    setup.beat("m1", 2, owned={A: (0, 1)})
    setup.log.refusing = ErrorCode.not_enough_replicas
    assert setup.pass_ms(300) == []
    assert setup.groups.next_ms() == 10_800
    setup.beat("m1", 2)
    setup.beat("m2", 3)
    setup.log.refusing = None
    assert setup.pass_ms(499) == []
    assert setup.pass_ms(1) == REMOVAL


def test_a_coordinator_that_is_one_no_longer_tries_nothing_again() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.log.refusing = ErrorCode.not_leader_or_follower
    setup.pass_ms(1_000)
    assert setup.groups.next_ms() == 12_000, "a whole session, no retry"


def test_a_member_whose_leave_is_lost_has_a_session_again() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.pass_ms(900)
    setup.log.refusing = ErrorCode.not_enough_replicas
    assert isinstance(setup.beat("m1", -1), ApiError)
    setup.log.refusing = None
    assert setup.groups.next_ms() == 11_900
    assert setup.pass_ms(1_000) == REMOVAL


def test_the_next_coordinator_gives_whole_sessions_and_time_to_revoke() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.join("m2", "a")
    setup.beat("m1", 2, owned={A: (0, 1)})
    setup.pass_ms(250)
    setup.shard.resign()
    assert setup.groups.next_ms() is None
    setup.shard = setup.elected()
    assert setup.groups.next_ms() == 10_550
    assert setup.pass_ms(300) == REMOVAL
    assert setup.groups.next_ms() == 11_250


def test_a_lost_epoch_is_raised_again() -> None:
    """Topics count as seen only while the epoch that they led to is there."""
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.cluster = at_offset(cluster_of({"a": 3}), 51)
    setup.log.refusing = ErrorCode.not_enough_replicas
    assert isinstance(setup.beat("m1", 2), ApiError)
    setup.log.refusing = None
    answer = setup.beat("m1", 2)
    assert isinstance(answer, HeartbeatAnswer)
    assert answer.assignment == {A: (0, 1, 2)}
    before = len(setup.log.batches)
    setup.beat("m1", 3)
    assert setup.kinds(before) == []


def test_regular_expressions_are_resolved_between_requests() -> None:
    setup = ShardDriver()
    topics = {f"t{number:04}": 1 for number in range(NAMES_PER_STEP)}
    setup.cluster = at_offset(cluster_of({"a": 2, "secret-a": 1} | topics), 60)
    setup.join(
        "m1",
        subscribed_topic_names=None,
        subscribed_topic_regex=".*a",
        allowed=lambda name: name == "a",
    )
    assert setup.groups.next_ms() == setup.clock.now_ms
    assert setup.pass_ms(0) == [], "one step is not all"
    assert setup.pass_ms(0) == ["regex", "epoch"]
    assert setup.groups.next_ms() == 11_000
    resolved = setup.group.resolved[".*a"]
    assert (resolved.topic_names, resolved.version) == (("a",), 59)
    assert resolved.timestamp_ms == setup.clock.wall_ms
    answer = setup.beat("m1", 1)
    assert isinstance(answer, HeartbeatAnswer)
    assert answer.assignment == {A: (0, 1)}


def test_one_group_is_resolved_in_a_turn() -> None:
    setup = ShardDriver()
    for group_id in ("g", "h"):
        request = Heartbeat(
            group_id=group_id, member_id="m", member_epoch=0, owned={}, rebalance_timeout_ms=1,
            subscribed_topic_regex="a",
        )  # fmt: skip
        setup.groups.serve(request, lambda _: True, lambda _: None)
    setup.log.commit(setup.shard)
    assert setup.pass_ms(0) == ["regex", "epoch"]
    assert setup.pass_ms(0) == ["regex", "epoch"]
    assert setup.pass_ms(0) == []


def test_they_are_resolved_again_when_topics_are_created_and_not_when_deleted() -> None:
    setup = ShardDriver()
    setup.join("m1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    setup.pass_ms(0)
    setup.beat("m1", 1)
    setup.clock.set(Now(setup.clock.now_ms + 900, setup.clock.wall_ms + 20_000))
    setup.cluster = at_offset(cluster_of({}), 70)
    setup.beat("m1", 2)
    assert setup.groups.next_ms() != setup.clock.now_ms
    setup.cluster = at_offset(cluster_of({"ab": 1}), 80)
    setup.beat("m1", 2)
    setup.beat("m1", 2)
    assert setup.pass_ms(0) == ["regex", "epoch"]
    assert setup.group.resolved["a.*"].version == 79


def test_a_resolution_without_news_compares_topics_too() -> None:
    setup = ShardDriver()
    setup.join("m1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    setup.pass_ms(0)
    setup.beat("m1", 1)
    setup.clock.set(Now(setup.clock.now_ms + 900, setup.clock.wall_ms + 20_000))
    setup.cluster = at_offset(cluster_of({"a": 2, "b": 1}), 80)
    setup.beat("m1", 2)
    setup.beat("m1", 2)
    setup.cluster = at_offset(cluster_of({"a": 3, "b": 1}), 90)
    assert setup.pass_ms(0) == ["regex", "epoch"]
    before = len(setup.log.batches)
    setup.beat("m1", 2)
    assert setup.kinds(before) == ["target", "assignment", "current"]


def test_a_resolution_of_a_group_that_has_gone_is_dropped() -> None:
    setup = ShardDriver()
    setup.join("m1", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    image = setup.shard.image
    setup.shard.image = msgspec.structs.replace(image, groups=image.groups.delete("g"))
    assert setup.pass_ms(0) == []


def test_members_that_do_not_join_need_a_group() -> None:
    setup = ShardDriver()
    for epoch, text in ((1, "Consumer group g not found."), (-1, "Group g not found.")):
        refused = setup.beat("m1", epoch)
        assert refused == ApiError(ErrorCode.group_id_not_found, text)


CLASSIC = GroupMetadataValue(
    protocol_type="consumer", generation=1, protocol=None, leader=None, members=()
)
OFFSET = OffsetCommitValue(offset=3, metadata="", commit_timestamp=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (GroupMetadataKey(group="g"), CLASSIC),
        (OffsetCommitKey(group="g", topic="a", partition=0), OFFSET),
    ],
)
def test_a_consumer_group_takes_the_place_of_an_empty_other_one(key, value) -> None:
    setup = ShardDriver()
    setup.write(CoordinatorRecord(key, value))
    for epoch in (1, -1):
        refused = setup.beat("m1", epoch)
        assert refused == ApiError(ErrorCode.group_id_not_found, "Group g is not a consumer group.")
    setup.join("m1", "a")
    first, second, *_ = setup.log.records(GROUP_KINDS)[-1]
    assert first == CoordinatorRecord(GroupMetadataKey(group="g"), None)
    assert second is not None
    assert second.key.type == 5
    assert setup.group.group_epoch == 2
    assert bool(setup.shard.image.offsets) == isinstance(key, OffsetCommitKey)


def test_committed_groups_are_described_and_listed() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    simple = OffsetCommitKey(group="simple", topic="a", partition=0)
    setup.write(CoordinatorRecord(simple, OFFSET))
    found = setup.groups.described("g")
    assert (found.error_code, found.assignor_name) == (ErrorCode.none, "uniform")
    assert len(found.members) == 1
    row = setup.groups.listed("g")
    assert row is not None
    assert (row.group_id, row.protocol_type, row.group_state, row.group_type) == (
        "g", "consumer", "Stable", "consumer",
    )  # fmt: skip
    for group_id, text in (
        ("none", "Group none not found."),
        ("simple", "Group simple is not a consumer group."),
    ):
        found = setup.groups.described(group_id)
        assert (found.error_code, found.error_message) == (ErrorCode.group_id_not_found, text)
        assert setup.groups.listed(group_id) is None


def test_what_is_not_committed_is_not_described() -> None:
    setup = ShardDriver()
    request = Heartbeat(
        group_id="g", member_id="m1", member_epoch=0, owned={}, subscribed_topic_names=("a",)
    )
    answers: list[object] = []
    setup.groups.serve(request, lambda _: True, answers.append)
    assert setup.groups.described("g").error_code is ErrorCode.group_id_not_found
    assert answers == []
    setup.log.commit(setup.shard)
    assert setup.groups.described("g").error_code is ErrorCode.none
    assert len(answers) == 1


def test_a_new_group_counts_from_the_first_epoch_behind_a_deleted_one() -> None:
    setup = ShardDriver()
    setup.join("m1", "a")
    setup.beat("m1", -1)
    records = setup.rules.tombstones("g", setup.group)
    assert records is not None
    setup.write(*records)
    setup.join("m1", "a")
    assert setup.group.group_epoch == 2
    assert setup.group.state == "Stable"
