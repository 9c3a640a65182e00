"""Heartbeats of dynamic members: joining, changing, being fenced; epochs and targets."""

import msgspec
import pytest

from coordinator.group.consumer.group import GroupState
from coordinator.group.consumer.heartbeat import Revocation
from coordinator.group.consumer.member import MemberState
from coordinator.group.consumer.settings import ConsumerSettings, GroupSettings
from coordinator.group.consumer.targets import group_spec
from coordinator.records.consumer import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from coordinator.records.schema import CoordinatorRecord
from tests.coordinator.group.consumer.driver import Driver, cluster_of, topic_id

A, B = topic_id("a"), topic_id("b")


def test_the_first_member_gets_all_at_once() -> None:
    driver = Driver({"a": 3})
    result = driver.join("m1", "a")
    assert driver.kinds == ["member", "epoch", "target", "assignment", "current"]
    assert result.answer.assignment == {A: (0, 1, 2)}
    assert (result.answer.member_id, result.answer.member_epoch) == ("m1", 2)
    assert result.answer.heartbeat_interval_ms == 5000
    assert (driver.group.group_epoch, driver.group.assignment_epoch) == (2, 2)
    assert driver.group.assignment_timestamp_ms == driver.wall_ms
    assert driver.group.state is GroupState.STABLE


def test_a_heartbeat_without_news_has_no_record_and_no_assignment() -> None:
    driver = Driver({"a": 3})
    driver.join("m1", "a")
    result = driver.beat("m1")
    assert (driver.kinds, result.answer.assignment, result.has_moved) == ([], None, False)
    assert not result.has_compared_topics


def test_a_full_heartbeat_is_answered_with_the_assignment() -> None:
    driver = Driver({"a": 3})
    driver.join("m1", "a")
    full = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ("a",), "owned": {A: (0, 1, 2)}}
    assert driver.beat("m1", **full).answer.assignment == {A: (0, 1, 2)}
    assert driver.kinds == []
    for name in full:
        rest = {key: value for key, value in full.items() if key != name}
        assert driver.beat("m1", **rest).answer.assignment is None
    by_regex = {**full, "subscribed_topic_names": None, "subscribed_topic_regex": ""}
    assert driver.beat("m1", **by_regex).answer.assignment == {A: (0, 1, 2)}


def test_partitions_go_over_in_three_steps() -> None:
    driver = Driver({"a": 4})
    driver.join("m1", "a")
    result = driver.join("m2", "a")
    assert driver.kinds == ["member", "epoch", "target", "target", "assignment", "current"]
    assert result.answer.assignment == {}
    assert driver.group.members["m2"].state is MemberState.UNRELEASED_PARTITIONS
    assert driver.group.state is GroupState.RECONCILING

    result = driver.beat("m1", owned={A: (0, 1, 2, 3)})
    assert driver.kinds == ["current"]
    assert (result.answer.member_epoch, result.answer.assignment) == (2, {A: (0, 1)})
    assert (result.has_moved, result.revocation) == (True, Revocation(2, 1000))
    assert driver.beat("m2").answer.assignment is None

    result = driver.beat("m1", owned={A: (0, 1)})
    assert (result.answer.member_epoch, result.answer.assignment) == (3, None)
    assert (result.has_moved, result.revocation) == (True, None)
    assert driver.beat("m2").answer.assignment == {A: (2, 3)}
    assert driver.group.state is GroupState.STABLE


def test_targets_are_made_when_the_interval_is_over() -> None:
    driver = Driver({"a": 2}, group_settings=GroupSettings(assignment_interval_ms=1000))
    driver.join("m1", "a")
    assert driver.kinds[-2:] == ["assignment", "current"], "at once without earlier ones"
    driver.wall_ms += 999
    driver.join("m2", "a")
    assert driver.kinds == ["member", "epoch", "current"]
    assert driver.group.state is GroupState.ASSIGNING
    driver.beat("m1")
    assert driver.kinds == []
    driver.wall_ms += 1
    driver.beat("m2")
    assert driver.kinds == ["target", "target", "assignment", "current"]


def test_a_subscription_of_other_topics_raises_the_epoch_and_revokes_at_once() -> None:
    driver = Driver({"a": 2, "b": 1})
    driver.join("m1", "a")
    result = driver.beat("m1", subscribed_topic_names=("b", "b"), owned={A: (0, 1)})
    assert driver.kinds == ["member", "epoch", "target", "assignment", "current"]
    assert driver.group.members["m1"].subscribed_topic_names == ("b",)
    assert result.answer.assignment == {}
    assert driver.group.members["m1"].state is MemberState.UNREVOKED_PARTITIONS
    assert driver.beat("m1", owned={}).answer.assignment == {B: (0,)}
    driver.beat("m1", subscribed_topic_names=("b",))
    assert driver.kinds == [], "the same topics"


def test_within_the_interval_what_is_no_longer_subscribed_is_revoked_without_targets() -> None:
    driver = Driver({"a": 2, "b": 1}, group_settings=GroupSettings())
    driver.join("m1", "a", "b")
    result = driver.beat("m1", subscribed_topic_names=("b",), owned={A: (0, 1), B: (0,)})
    assert driver.kinds == ["member", "epoch", "current"]
    assert result.answer.assignment == {B: (0,)}
    assert (result.answer.member_epoch, result.revocation) == (2, Revocation(2, 1000))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rack_id", "r2"),
        ("rebalance_timeout_ms", 5),
        ("client_id", "other"),
        ("client_host", "/other"),
        ("server_assignor", "range"),
    ],
)
def test_other_changes_of_a_member_are_recorded_without_an_epoch(field: str, value: object) -> None:
    driver = Driver({"a": 2})
    driver.join("m1", "a", client_id="c", client_host="/h")
    same = {"client_id": "c", "client_host": "/h"}
    driver.beat("m1", **same | {field: value})
    assert driver.kinds == ["member"]
    assert getattr(driver.group.members["m1"], field) == value
    driver.beat("m1", **same | {field: value})
    assert driver.kinds == []


def test_topics_that_appear_or_grow_raise_the_epoch() -> None:
    driver = Driver({"a": 1})
    driver.join("m1", "a", "b")
    driver.cluster = cluster_of({"a": 1, "b": 1, "c": 1})
    assert driver.beat("m1").answer.assignment == {A: (0,), B: (0,)}
    assert driver.kinds == ["epoch", "target", "assignment", "current"]
    driver.cluster = cluster_of({"a": 1, "b": 1, "c": 2})
    result = driver.beat("m1")
    assert (driver.kinds, result.has_compared_topics) == ([], True), "no topic of the group"
    driver.cluster = cluster_of({"a": 2, "b": 1, "c": 2})
    assert driver.beat("m1").answer.assignment == {A: (0, 1), B: (0,)}
    driver.cluster = cluster_of({"a": 2})
    assert driver.beat("m1", owned={A: (0, 1)}).answer.assignment == {A: (0, 1)}
    assert driver.kinds == ["epoch", "target", "assignment", "current"]


def test_a_record_of_4_0_gets_its_tombstone_with_the_next_look_at_the_topics() -> None:
    driver = Driver({"a": 1})
    driver.join("m1", "a")
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    driver.take((CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(topics=())),))
    driver.beat("m1")
    assert driver.kinds == [], "the topics are the same"
    driver.seen = None
    driver.beat("m1")
    assert driver.kinds == ["metadata-"]
    driver.seen = None
    driver.beat("m1")
    assert driver.kinds == []


def test_a_target_of_nothing_is_recorded_once() -> None:
    driver = Driver({"a": 1})
    driver.join("m1")
    driver.join("m2", "a")
    assert driver.kinds.count("target") == 2
    driver.beat("m2", subscribed_topic_names=("b",), owned={A: (0,)})
    assert driver.kinds.count("target") == 1, "m1 has nothing as before"


def test_assignors_and_records_have_the_members_by_id() -> None:
    driver = Driver({"a": 12})
    names = [f"m{number:02}" for number in range(12)]
    for name in names[::-1]:
        driver.join(name, "a")
    spec = group_spec(driver.group, driver.cluster)
    assert list(spec.members) == names
    assert [spec.members[name].target for name in names] == [
        driver.group.targets[name] for name in names
    ]


def test_the_assignor_that_most_prefer_is_taken_and_else_the_first_of_the_config() -> None:
    driver = Driver({"a": 2, "b": 2}, ConsumerSettings(assignors=("range", "uniform")))
    driver.join("m1", "a", "b")
    driver.join("m2", "a", "b")
    assert driver.group.targets["m1"] == {A: (0,), B: (0,)}, "range"
    driver.join("m3", "a", "b", server_assignor="uniform")
    assert driver.group.targets["m1"] == {A: (0,), B: (0,)}
    assert sum(map(len, driver.group.targets["m3"].values())) == 1
    assert driver.group.preferred_assignor("range") == "uniform"
    driver.beat("m1", server_assignor="range")
    assert driver.group.preferred_assignor("uniform") == "range", "of equals the first by name"


def test_an_epoch_that_is_not_the_members_is_fenced() -> None:
    driver = Driver({"a": 4})
    driver.join("m1", "a")
    driver.join("m2", "a")
    assert driver.group.members["m1"].member_epoch == 2
    assert driver.refused("m1", 3) == (
        "fenced_member_epoch",
        (
            "The consumer group member has a greater member epoch (3) than the one known by "
            "the group coordinator (2). The member must abandon all its partitions and rejoin."
        ),
    )
    assert driver.refused("m1", 1) == (
        "fenced_member_epoch",
        (
            "The consumer group member has a smaller member epoch (1) than the one known by "
            "the group coordinator (2). The member must abandon all its partitions and rejoin."
        ),
    )
    assert driver.refused("m9", 1) == (
        "unknown_member_id", "Member m9 is not a member of group g."
    )  # fmt: skip


def test_the_epoch_before_is_accepted_if_the_partitions_say_that_an_answer_was_lost() -> None:
    driver = Driver({"a": 4})
    driver.join("m1", "a")
    driver.join("m2", "a")
    driver.beat("m1", owned={A: (0, 1)})
    assert driver.group.members["m1"].previous_member_epoch == 2
    assert driver.beat("m1", 2, owned={A: (1,)}).answer.member_epoch == 3
    for owned in (None, {A: (0, 2)}, {B: (0,)}):
        assert driver.refused("m1", 2, owned=owned)[0] == "fenced_member_epoch"
    assert driver.refused("m1", 1, owned={})[0] == "fenced_member_epoch"


def test_a_member_that_joins_again_keeps_its_place() -> None:
    driver = Driver({"a": 2})
    driver.join("m1", "a")
    result = driver.join("m1", "a")
    assert (driver.kinds, result.answer.assignment) == ([], {A: (0, 1)})
    assert result.answer.member_epoch == 2


def test_a_full_group_takes_no_more_and_keeps_its_members() -> None:
    driver = Driver({"a": 2}, ConsumerSettings(max_size=2))
    driver.join("m1", "a")
    driver.join("m2", "a")
    assert driver.refused("m3", 0, owned={}, subscribed_topic_names=("a",)) == (
        "group_max_size_reached",
        "The consumer group has reached its maximum capacity of 2 members.",
    )
    assert driver.refused("", 0, owned={})[0] == "group_max_size_reached"
    driver.join("m1", "a")


def test_a_member_of_the_classic_protocol_that_heartbeats_uses_the_new_one() -> None:
    driver = Driver({"a": 1})
    driver.join("m1", "a")
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None, rack_id=None, client_id="", client_host="",
        subscribed_topic_names=("a",), subscribed_topic_regex="", rebalance_timeout_ms=1000,
        server_assignor=None, classic_member_metadata=ClassicMemberMetadata(),
    )  # fmt: skip
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m1")
    driver.take((CoordinatorRecord(key, value),))
    assert driver.group.classic_member_count == 1
    driver.beat("m1")
    assert driver.kinds == ["member"]
    assert driver.group.members["m1"].classic is None
    assert driver.group.classic_member_count == 0


def test_a_member_in_a_state_of_a_newer_version_is_fenced_until_it_has_nothing() -> None:
    driver = Driver({"a": 1})
    driver.join("m1", "a")
    (current,) = driver.records[-1:]
    value = msgspec.structs.replace(current.value, state=9)
    driver.take((CoordinatorRecord(current.key, value),))
    assert driver.group.members["m1"].state is MemberState.UNKNOWN
    assert driver.refused("m1", owned={A: (0,)}) == (
        "fenced_member_epoch",
        (
            "The consumer group member is in a unknown state. The member must abandon all its "
            "partitions and rejoin."
        ),
    )
    assert driver.refused("m1", owned=None)[0] == "fenced_member_epoch"
    assert driver.join("m1", "a").answer.assignment == {A: (0,)}
    assert driver.group.members["m1"].state is MemberState.STABLE
