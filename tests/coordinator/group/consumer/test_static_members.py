"""Static members: away and back under another member id, fenced, unreleased."""

import pytest

from coordinator.group.consumer.group import ConsumerGroup
from tests.coordinator.group.consumer.driver import Driver, topic_id
from wire.errors import ApiError

A = topic_id("a")


@pytest.fixture
def driver() -> Driver:
    driver = Driver({"a": 4})
    driver.join("m1", "a", instance_id="i1")
    return driver


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions(driver: Driver) -> None:
    driver.join("m2", "a")
    driver.beat("m1", owned={A: (0, 1, 2, 3)}, instance_id="i1")
    assert driver.group.members["m1"].pending_revocation
    left = driver.leave("m1", -2, "i1")
    assert driver.kinds == ["current"]
    assert (left.answer.member_epoch, left.is_for_good) == (-2, False)
    member = driver.group.members["m1"]
    assert (member.member_epoch, member.previous_member_epoch) == (-2, 2)
    assert member.assigned == {A: {0: 0, 1: 0}}, "as from epoch 0"
    assert member.pending_revocation == {}
    assert driver.group.is_owned(A, 0)
    assert not driver.group.is_owned(A, 2)


def test_the_next_with_its_instance_id_goes_on_under_its_own_member_id(driver: Driver) -> None:
    driver.leave("m1", -2, "i1")
    result = driver.join("m9", "a", instance_id="i1")
    assert driver.kinds == [
        "current-", "target-", "member-", "member", "target", "current", "current",
    ]  # fmt: skip
    assert result.answer.assignment == {A: (0, 1, 2, 3)}
    assert (result.answer.member_id, result.answer.member_epoch) == ("m9", 2)
    assert set(driver.group.members) == set(driver.group.targets) == {"m9"}
    assert driver.group.member_id_by_instance["i1"] == "m9"
    assert driver.group.group_epoch == 2, "nothing moves"
    assert driver.group.members["m9"].assigned == {A: {0: 0, 1: 0, 2: 0, 3: 0}}


def test_another_subscription_of_the_next_raises_the_epoch(driver: Driver) -> None:
    driver.leave("m1", -2, "i1")
    driver.join("m9", "a", "b", instance_id="i1")
    assert driver.kinds[6:] == ["member", "epoch", "assignment", "current"]


def test_an_instance_id_in_use_is_not_released(driver: Driver) -> None:
    joining = {"owned": {}, "subscribed_topic_names": ("a",), "rebalance_timeout_ms": 1}
    assert driver.refused("m9", 0, instance_id="i1", **joining) == (
        "unreleased_instance_id",
        (
            "Static member m9 with instance id i1 cannot join the group because the instance id is "
            "owned by m1 member."
        ),
    )


def test_another_member_with_the_instance_id_is_fenced(driver: Driver) -> None:
    fenced = ("fenced_instance_id", "Static member m9 with instance id i1 was fenced by member m1.")
    unknown = ("unknown_member_id", "Instance id i9 is unknown.")
    assert driver.refused("m9", 2, instance_id="i1") == fenced
    assert driver.refused("m1", 2, instance_id="i9") == unknown
    assert driver.refused("m1", 3, instance_id="i1")[0] == "fenced_member_epoch"
    for epoch in (-1, -2):
        for instance_id, error in (("i1", fenced), ("i9", unknown)):
            refused = driver.leave("m9", epoch, instance_id)
            assert isinstance(refused, ApiError)
            assert (refused.code.name, refused.message) == error


def test_a_static_member_leaves_for_good(driver: Driver) -> None:
    left = driver.leave("m1", -1, "i1")
    assert (left.answer.member_epoch, left.is_for_good) == (-1, True)
    assert driver.kinds == ["current-", "target-", "member-", "epoch"]
    assert driver.group == ConsumerGroup(
        group_id="g", group_epoch=3, assignment_epoch=2, assignment_timestamp_ms=driver.wall_ms
    )


def test_a_member_that_becomes_static_can_be_found_by_its_instance_id() -> None:
    driver = Driver({"a": 1})
    driver.join("m1", "a")
    driver.join("m1", "a", instance_id="i1")
    assert driver.kinds == ["member"]
    assert driver.group.static_member("i1") == driver.group.members["m1"]
    assert driver.group.static_member("i2") is None
