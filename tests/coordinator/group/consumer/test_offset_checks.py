"""Commits and fetches that a group accepts, by member epoch."""

import msgspec
import pytest
from immutables import Map

from coordinator.group.consumer.group import ConsumerGroup, SubscriptionCount
from coordinator.group.consumer.member import Member
from coordinator.group.consumer.offsets import commit_check, fetch_error
from coordinator.group.image import SimpleGroup
from coordinator.group.offsets.requests import Committer
from coordinator.group.rules import RecordedRules, accept_all
from coordinator.group.rules_by_kind import RulesByKind
from coordinator.records.consumer import ClassicMemberMetadata
from coordinator.records.group import GroupMetadataKey
from tests.coordinator.group.consumer.driver import topic_id
from wire.errors import ApiError

A = topic_id("a")
MEMBER = Member(
    member_id="m1", member_epoch=5, assigned={A: {0: 3}}, pending_revocation={A: {1: 4}}
)
GROUP = ConsumerGroup(group_id="g", members=Map({"m1": MEMBER}))
CLASSIC = msgspec.structs.replace(MEMBER, classic=ClassicMemberMetadata())
CLASSIC_GROUP = ConsumerGroup(group_id="g", members=Map({"m1": CLASSIC}))
EMPTY = ConsumerGroup(group_id="g")


def check(group: ConsumerGroup = GROUP, **fields):
    known = {"member_id": "m1", "generation_id": 5, "api_version": 9}
    return commit_check(group, Committer(**known | fields))


def error(group: ConsumerGroup = GROUP, **fields) -> tuple[str, str | None]:
    found = check(group, **fields)
    assert isinstance(found, ApiError)
    return found.code.name, found.message


def test_commits_that_are_accepted_whole() -> None:
    accepted = [
        check(),
        check(CLASSIC_GROUP, api_version=8),
        check(api_version=8, is_transactional=True),
        check(EMPTY, member_id="", generation_id=-1),
        check(member_id="", generation_id=-1, is_transactional=True),
    ]
    assert accepted == [accept_all] * 5
    assert accept_all("a", A, 7) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": "m9"},
        {"member_id": "", "generation_id": -1},
        {"member_id": "m9", "generation_id": -1, "is_transactional": True},
        {"member_id": "", "generation_id": 0, "is_transactional": True},
        {"member_id": "", "generation_id": -1, "is_transactional": True, "group_instance_id": "i"},
    ],
)
def test_others_than_members_commit_only_to_an_empty_group(fields: dict[str, object]) -> None:
    member_id = fields["member_id"]
    text = f"Member {member_id} is not a member of group g."
    assert error(**fields) == ("unknown_member_id", text)


def test_an_epoch_without_a_member_is_refused_by_an_empty_group_too() -> None:
    assert error(EMPTY, generation_id=0)[0] == "unknown_member_id"


def test_a_newer_epoch_and_an_old_version_are_refused() -> None:
    assert error(generation_id=6) == (
        "stale_member_epoch", "Received member epoch 6 is newer than current member epoch 5."
    )  # fmt: skip
    assert error(CLASSIC_GROUP, generation_id=6) == (
        "illegal_generation", "Received generation id 6 is newer than current member epoch 5."
    )  # fmt: skip
    assert error(api_version=8) == (
        "unsupported_version",
        "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
    )


def test_an_older_epoch_commits_what_was_assigned_by_then() -> None:
    at_3, at_4 = check(generation_id=3), check(generation_id=4)
    assert at_3("a", A, 0) is None
    assert at_4("a", A, 1) is None
    late = at_3("a", A, 1)
    assert (late.code.name, late.message) == (
        "stale_member_epoch",
        "Received member epoch 3 is older than assignment epoch 4 for partition a-1.",
    )
    for partition, topic in ((2, A), (0, topic_id("b"))):
        gone = at_4("a", topic, partition)
        assert (gone.code.name, gone.message) == (
            "stale_member_epoch",
            f"Partition a-{partition} is not assigned or pending revocation for member.",
        )
    classic = check(CLASSIC_GROUP, generation_id=2)("a", A, 0)
    assert (classic.code.name, classic.message) == (
        "illegal_generation",
        "Received generation id 2 is older than assignment epoch 3 for partition a-0.",
    )


def fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> tuple[str, str | None] | None:
    found = fetch_error(group, member_id, epoch)
    return None if found is None else (found.code.name, found.message)


def test_fetches_are_of_the_members_own_epoch_or_of_no_member() -> None:
    assert fetch(GROUP, None, -1) is None
    assert fetch(GROUP, "m1", 5) is None
    assert fetch(GROUP, "m1", 4) == (
        "stale_member_epoch",
        "The received member epoch 4 does not match the expected member epoch 5.",
    )
    assert fetch(CLASSIC_GROUP, "m1", 4) == (
        "illegal_generation",
        "The received generation id 4 does not match the expected member epoch 5.",
    )
    unknown = ("unknown_member_id", "Member m9 is not a member of group g.")
    assert fetch(GROUP, "m9", 5) == unknown
    assert fetch(GROUP, "m9", -1) == unknown
    assert fetch(GROUP, None, 0) == ("unknown_member_id", "Member  is not a member of group g.")


SUBSCRIBED = msgspec.structs.replace(GROUP, topic_counts=Map({"a": SubscriptionCount(1, 0)}))


def test_rules_of_a_consumer_group() -> None:
    rules = RulesByKind(RecordedRules())
    member = Committer(member_id="m1", generation_id=5, api_version=9)
    assert rules.commit_check("g", GROUP, member) is accept_all
    assert rules.fetch_error("g", GROUP, "m1", 5) is None
    assert rules.fetch_error("g", GROUP, "m1", 4) is not None
    assert rules.offset_delete_error("g", GROUP) is None
    assert rules.is_subscribed("g", SUBSCRIBED, "a")
    assert not rules.is_subscribed("g", SUBSCRIBED, "b")
    assert rules.unused_since_ms("g", SUBSCRIBED, "a", 7) is None
    assert rules.unused_since_ms("g", SUBSCRIBED, "b", 7) == 7
    assert rules.tombstones("g", GROUP) is None
    found = rules.tombstones("g", EMPTY)
    assert found is not None
    assert [record.key.type for record in found] == [6, 4, 3]


def test_rules_of_other_groups_are_asked_of_others() -> None:
    rules, others, simple = RulesByKind(RecordedRules()), RecordedRules(), SimpleGroup()
    member = Committer(member_id="m1", generation_id=5, api_version=9)
    assert rules.commit_check("g", simple, member) == others.commit_check("g", simple, member)
    assert rules.fetch_error("g", simple, "m1", 4) is None
    assert rules.offset_delete_error("g", simple) is None
    assert not rules.is_subscribed("g", simple, "a")
    assert rules.unused_since_ms("g", simple, "a", 7) == 7
    found = rules.tombstones("g", simple)
    assert found is not None
    assert [record.key for record in found] == [GroupMetadataKey(group="g")]
