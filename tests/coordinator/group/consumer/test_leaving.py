"""Members that leave or are removed, and the tombstones of members and groups."""

import pytest

from coordinator.group.consumer.draft import GroupDraft, applied
from coordinator.group.consumer.epochs import regex_record
from coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.group.consumer.leaving import remove_members
from coordinator.group.consumer.tombstones import group_tombstones
from tests.coordinator.group.consumer.driver import Driver, cluster_of, topic_id
from wire.errors import ApiError

A = topic_id("a")


def test_who_leaves_is_gone_and_the_others_get_its_partitions() -> None:
    driver = Driver({"a": 2})
    driver.join("m1", "a")
    driver.join("m2", "a")
    left = driver.leave("m1")
    assert driver.kinds == ["current-", "target-", "member-", "epoch"]
    assert (left.answer.member_id, left.answer.member_epoch) == ("m1", -1)
    assert (left.answer.heartbeat_interval_ms, left.answer.assignment) == (0, None)
    assert driver.beat("m2").answer.assignment == {A: (0, 1)}


def test_an_unknown_member_cannot_leave() -> None:
    driver = Driver({"a": 2})
    refused = driver.leave("m1")
    assert isinstance(refused, ApiError)
    assert (refused.code.name, refused.message) == (
        "unknown_member_id", "Member m1 is not a member of group g."
    )  # fmt: skip


def test_the_hash_is_that_of_the_topics_that_are_left() -> None:
    driver = Driver({"a": 2, "b": 1})
    driver.join("m1", "a")
    hash_of_a = driver.group.metadata_hash
    driver.join("m2", "b")
    assert driver.group.metadata_hash not in (0, hash_of_a)
    driver.leave("m2")
    assert driver.group.metadata_hash == hash_of_a
    driver.leave("m1")
    assert driver.group.metadata_hash == 0


def test_a_regular_expression_goes_with_the_last_who_subscribes_it() -> None:
    driver = Driver({"a": 2})
    for member_id, regex in (("m1", "a.*"), ("m2", "a.*"), ("m3", "b.*")):
        driver.beat(member_id, 0, owned={}, rebalance_timeout_ms=1, subscribed_topic_regex=regex)
    driver.take((regex_record("g", "a.*", ResolvedRegex(("a",), 1, 1)),))
    driver.leave("m1")
    assert driver.kinds == ["current-", "target-", "member-", "epoch"]
    assert "a" in driver.group.topic_counts
    draft = GroupDraft(driver.group)
    remove_members(draft, driver.group.members.values(), driver.hashes, driver.cluster)
    driver.take(tuple(draft.records))
    assert driver.kinds == ["current-", "target-", "member-"] * 2 + ["regex-", "regex-", "epoch"]
    assert not driver.group.topic_counts
    assert not driver.group.regex_counts


def test_a_group_is_deleted_with_all_that_it_has() -> None:
    driver = Driver({"a": 2})
    driver.join("m1", "a")
    driver.join("m2", "a", subscribed_topic_regex="b")
    driver.take((regex_record("g", "b", ResolvedRegex((), 1, 1)),))
    group: ConsumerGroup | None = driver.group
    records = group_tombstones(driver.group)
    driver.take(records)
    assert driver.group is None
    assert driver.kinds == [
        "current-", "current-", "target-", "target-", "assignment-", "member-", "member-",
        "regex-", "metadata-", "epoch-",
    ]  # fmt: skip
    for record in records:
        group = applied(group, record.key, record.value)
    assert group is None


def test_tombstones_of_what_does_not_exist_are_passed_over() -> None:
    driver = Driver(cluster_of({"a": 1}))
    driver.join("m1", "a")
    records = group_tombstones(driver.group)
    group = ConsumerGroup(group_id="g", assignment_epoch=-1)
    for record in records[:-1]:
        group = applied(group, record.key, None)
        assert applied(None, record.key, None) is None
    assert group == ConsumerGroup(group_id="g", assignment_epoch=-1)
    assert applied(group, records[-1].key, None) is None


def test_a_removal_without_a_member_is_a_bug() -> None:
    driver = Driver({"a": 1})
    with pytest.raises(AssertionError, match="an epoch without a change"):
        remove_members(GroupDraft(driver.group), (), driver.hashes, driver.cluster)
