"""Offsets of a classic group: who may commit and delete them, from when their retention counts."""

from typing import Any

import pytest

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import MemberProtocol
from coordinator.group.classic.offset_rules import (
    delete_error,
    offset_commit_error,
    offset_delete_error,
    unused_since_ms,
)
from coordinator.group.image import SimpleGroup
from tests.coordinator.group.classic.classic_story import GROUP, WALL_MS, Story
from wire.errors import ErrorCode

NONE = None
UNKNOWN = ErrorCode.unknown_member_id
FENCED = ErrorCode.fenced_instance_id
ILLEGAL = ErrorCode.illegal_generation
REBALANCE = ErrorCode.rebalance_in_progress

MEMBERS = ["c-u1", "one-u3"]
SUBSCRIPTION = b"\0\3\0\0\0\1\0\6orders\xff\xff\xff\xff"


def group_in(state: str, **properties: Any) -> ClassicGroup:
    """A group with a dynamic member, which leads, and a static one."""
    story = Story()
    if state == "Empty":
        story.join()
        return story.group
    leader, joined = story.new_member(**properties)
    story.join(group_instance_id="one", **properties)
    while joined.is_parked:
        story.advance(1_000)
    assert list(story.group.members) == MEMBERS
    if state != "CompletingRebalance":
        story.sync(leader, 1, *MEMBERS, protocol_type=None)
    if state == "PreparingRebalance":
        story.join(leader, **properties)
    if state == "Dead":
        group = story.group
        story.groups.resign()
        return group
    assert story.group.state.value == state
    return story.group


@pytest.mark.parametrize(
    ("state", "member_id", "instance_id", "generation_id", "code", "transactional"),
    [
        # Nobody's generation: only a group without members.
        ("Empty", "", None, -1, NONE, NONE),
        ("Empty", "m", None, -1, NONE, NONE),
        ("Empty", "", "i", -1, NONE, NONE),
        ("Empty", "m", None, 0, UNKNOWN, UNKNOWN),
        ("Empty", "", None, 0, UNKNOWN, UNKNOWN),
        ("Stable", "", None, -1, UNKNOWN, NONE),
        ("PreparingRebalance", "", None, -1, UNKNOWN, NONE),
        ("CompletingRebalance", "", None, -1, UNKNOWN, NONE),
        (
            "Dead",
            "",
            None,
            -1,
            ErrorCode.coordinator_not_available,
            ErrorCode.coordinator_not_available,
        ),
        (
            "Dead",
            "c-u1",
            None,
            1,
            ErrorCode.coordinator_not_available,
            ErrorCode.coordinator_not_available,
        ),
        # A member of this generation.
        ("Stable", "c-u1", None, 1, NONE, NONE),
        ("Stable", "one-u3", "one", 1, NONE, NONE),
        ("PreparingRebalance", "c-u1", None, 1, NONE, NONE),
        ("CompletingRebalance", "c-u1", None, 1, REBALANCE, NONE),
        # Another.
        ("Stable", "c-u1", None, 0, ILLEGAL, ILLEGAL),
        ("Stable", "c-u1", None, 2, ILLEGAL, ILLEGAL),
        ("Stable", "c-u1", None, -1, ILLEGAL, ILLEGAL),
        ("Stable", "nobody", None, 1, UNKNOWN, UNKNOWN),
        ("Stable", "", None, 1, UNKNOWN, UNKNOWN),
        ("Stable", "c-u1", "one", 1, FENCED, FENCED),
        ("Stable", "", "one", -1, FENCED, FENCED),
        ("Stable", "", "none", -1, UNKNOWN, UNKNOWN),
    ],
)
def test_who_may_commit(
    state: str,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    code: ErrorCode | None,
    transactional: ErrorCode | None,
) -> None:
    group = group_in(state)
    for is_transactional, expected in ((False, code), (True, transactional)):
        found = offset_commit_error(
            group,
            member_id=member_id,
            group_instance_id=instance_id,
            generation_id=generation_id,
            is_transactional=is_transactional,
        )
        assert found is expected, f"{is_transactional=}"


@pytest.mark.parametrize(
    ("state", "protocol_type", "deleted", "offsets"),
    [
        ("Empty", "consumer", NONE, NONE),
        ("Stable", "consumer", ErrorCode.non_empty_group, NONE),
        ("PreparingRebalance", "consumer", ErrorCode.non_empty_group, NONE),
        ("CompletingRebalance", "consumer", ErrorCode.non_empty_group, NONE),
        ("Stable", "connect", ErrorCode.non_empty_group, ErrorCode.non_empty_group),
        ("Dead", "consumer", ErrorCode.group_id_not_found, ErrorCode.group_id_not_found),
    ],
)
def test_who_may_delete(
    state: str, protocol_type: str, deleted: ErrorCode | None, offsets: ErrorCode | None
) -> None:
    group = group_in(state, protocol_type=protocol_type)
    assert delete_error(group) is deleted
    assert offset_delete_error(group) is offsets


def subscribed(state: str, metadata: bytes, protocol_type: str = "consumer") -> ClassicGroup:
    protocols = (MemberProtocol("range", metadata),)
    return group_in(state, protocols=protocols, protocol_type=protocol_type)


@pytest.mark.parametrize(
    ("state", "protocol_type", "metadata", "topic", "since_ms"),
    [
        ("Stable", "consumer", SUBSCRIPTION, "orders", None),
        ("Stable", "consumer", SUBSCRIPTION, "other", 7),
        ("Stable", "consumer", b"unreadable", "other", None),
        ("Stable", "connect", SUBSCRIPTION, "other", None),
        ("PreparingRebalance", "consumer", SUBSCRIPTION, "other", None),
        ("CompletingRebalance", "consumer", SUBSCRIPTION, "other", None),
    ],
)
def test_offsets_of_a_group_with_members_expire_if_their_topic_is_not_subscribed(
    state: str, protocol_type: str, metadata: bytes, topic: str, since_ms: int | None
) -> None:
    group = subscribed(state, metadata, protocol_type)
    assert unused_since_ms(group, topic, 7) == since_ms


def test_topics_are_those_of_all_members() -> None:
    story = Story()
    other = SUBSCRIPTION.replace(b"orders", b"others")
    _, joined = story.new_member(protocols=(MemberProtocol("range", SUBSCRIPTION),))
    story.new_member(protocols=(MemberProtocol("range", other),))
    while joined.is_parked:
        story.advance(1_000)
    assert story.group.subscribed_topics == frozenset({"orders", "others"})
    assert story.group.is_subscribed_to("others")
    assert not story.group.is_subscribed_to("third")


def test_topics_that_are_not_known_are_taken_as_subscribed_by_consumers_only() -> None:
    assert subscribed("Stable", b"").is_subscribed_to("any")
    assert not subscribed("Stable", b"", "connect").is_subscribed_to("any")


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty() -> None:
    story = Story()
    (member_id,) = story.stable(None)
    story.leave(member_id)
    assert unused_since_ms(story.group, "orders", 7) == WALL_MS + story.now_ms
    story.group.state_timestamp_ms = None
    assert unused_since_ms(story.group, "orders", 7) == 7


def test_offsets_of_a_simple_group_expire_from_their_commit() -> None:
    story = Story()
    story.image[GROUP] = SimpleGroup()
    assert unused_since_ms(story.group, "orders", 7) == 7
