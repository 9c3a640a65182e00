"""A group as its records tell it: indexes, states, records that no coordinator writes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from coordinator.group.consumer.draft import KEYS, applied
from coordinator.group.consumer.epochs import epoch_record, regex_record
from coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex, SubscriptionCount
from coordinator.group.consumer.member import (
    Member,
    MemberState,
    assignment_record,
    subscription_record,
)
from coordinator.group.consumer.targets import assignment_epoch_record, target_record
from coordinator.group.consumer.tombstones import group_tombstones, member_tombstones
from coordinator.records.consumer import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from tests.coordinator.group.consumer.driver import topic_id

A, B = topic_id("a"), topic_id("b")


def after(*records: CoordinatorRecord, group: ConsumerGroup | None = None) -> ConsumerGroup:
    for record in records:
        group = applied(group, record.key, record.value)
    assert group is not None
    return group


def member(member_id: str, **fields) -> Member:
    return Member(member_id=member_id, **fields)


def test_every_kind_of_record_of_a_consumer_group_has_a_meaning() -> None:
    assert sorted(key.type for key in KEYS) == [3, 4, 5, 6, 7, 8, 16]


def test_a_member_is_what_its_two_records_say() -> None:
    one = member(
        "m1", member_epoch=4, previous_member_epoch=3, state=MemberState.UNREVOKED_PARTITIONS,
        instance_id="i", rack_id="r", rebalance_timeout_ms=5, client_id="c", client_host="/h",
        subscribed_topic_names=("a", "b"), subscribed_topic_regex="x", server_assignor="range",
        assigned={A: {0: 1, 1: 2}}, pending_revocation={B: {0: 3}},
        classic=ClassicMemberMetadata(session_timeout_ms=9),
    )  # fmt: skip
    group = after(subscription_record("g", one), assignment_record("g", one))
    assert group.members == Map({"m1": one})
    assert group == after(assignment_record("g", one), subscription_record("g", one))
    assert group.partition_epochs == Map({A: Map({0: 4, 1: 4}), B: Map({0: 4})})
    assert group.assignor_counts == Map({"range": 1})
    assert group.regex_counts == Map({"x": 1})
    assert group.member_id_by_instance == Map({"i": "m1"})


@pytest.mark.parametrize("changes", [
    {"subscribed_topic_names": ("b",)}, {"subscribed_topic_regex": "y"},
    {"server_assignor": "uniform"}, {"classic": ClassicMemberMetadata(session_timeout_ms=8)},
])  # fmt: skip
def test_each_part_of_a_subscription_is_counted_anew(changes: dict[str, Any]) -> None:
    one = member(
        "m1", subscribed_topic_names=("a",), subscribed_topic_regex="x", server_assignor="range",
    )  # fmt: skip
    other = msgspec.structs.replace(one, **changes)
    group = after(subscription_record("g", one))
    changed = group._with_member(msgspec.structs.replace(group.members["m1"], **changes))
    assert changed == after(subscription_record("g", other))
    assert changed != group


def assignment(member_epoch: int, epochs: tuple[int, ...] | None) -> CoordinatorRecord:
    rows = (AssignedPartitions(topic_id=A, partitions=(0, 1), assignment_epochs=epochs),)
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m1"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member_epoch,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=rows,
            partitions_pending_revocation=(),
        ),
    )


@pytest.mark.parametrize(
    ("member_epoch", "epochs", "expected"),
    [
        (4, (2, 3), {0: 2, 1: 3}),
        (4, None, {0: 4, 1: 4}),
        (4, (2,), {0: 4, 1: 4}),
        (-2, None, {0: 0, 1: 0}),
    ],
)
def test_partitions_without_epochs_have_that_of_the_member(
    member_epoch: int, epochs: tuple[int, ...] | None, expected: dict[int, int]
) -> None:
    group = after(assignment(member_epoch, epochs))
    assert group.members["m1"].assigned == {A: expected}


def test_states_of_a_group() -> None:
    group = after(epoch_record("g", 3, 0))
    assert group.state == "Empty"
    one = member("m1", member_epoch=3)
    group = after(assignment_record("g", one), group=group)
    assert group.state == "Assigning"
    group = after(assignment_epoch_record("g", 3, 9), group=group)
    assert group.state == "Stable"
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (3, 9)
    late = msgspec.structs.replace(one, member_epoch=2)
    assert after(assignment_record("g", late), group=group).state == "Reconciling"
    waiting = msgspec.structs.replace(one, state=MemberState.UNRELEASED_PARTITIONS)
    assert after(assignment_record("g", waiting), group=group).state == "Reconciling"


def test_subscriptions_are_homogeneous_if_all_have_the_same() -> None:
    one = after(subscription_record("g", member("m1", subscribed_topic_names=("a", "b"))))
    assert one.is_homogeneous
    same = subscription_record("g", member("m2", subscribed_topic_names=("a", "b")))
    other = subscription_record("g", member("m2", subscribed_topic_names=("a",)))
    assert after(same, group=one).is_homogeneous
    assert not after(other, group=one).is_homogeneous
    regex = subscription_record("g", member("m3", subscribed_topic_regex="x"))
    assert after(regex).is_homogeneous
    assert not after(regex, group=one).is_homogeneous
    another = subscription_record("g", member("m4", subscribed_topic_regex="y"))
    assert not after(regex, another).is_homogeneous
    resolved = regex_record("g", "x", ResolvedRegex(("a",), 0, 0))
    nothing = subscription_record("g", member("m5"))
    assert after(regex, resolved).is_homogeneous
    assert not after(regex, resolved, nothing).is_homogeneous


REFUSED = {
    "a member before its assignment": member_tombstones("g", "m1")[1:],
    "a member before its target": member_tombstones("g", "m1")[::2],
    "the targets before those of members": group_tombstones(ConsumerGroup(group_id="g"))[:1],
    "the group before its members": group_tombstones(ConsumerGroup(group_id="g"))[-1:],
    "the group before the epoch of its targets": (
        *member_tombstones("g", "m1"), *group_tombstones(ConsumerGroup(group_id="g"))[-1:],
    ),
    "the group before a target": (
        *member_tombstones("g", "m1")[::2][:1],
        *group_tombstones(ConsumerGroup(group_id="g"))[-1:],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_tombstones_in_another_order_are_refused(name: str) -> None:
    one = member("m1", member_epoch=2, assigned={A: {0: 2}})
    group = after(
        subscription_record("g", one),
        assignment_record("g", one),
        target_record("g", "m1", {A: (0,)}),
        assignment_epoch_record("g", 2, 0),
    )
    with pytest.raises(CoordinatorRecordError, match="tombstone"):
        after(*REFUSED[name], group=group)


def test_a_partition_of_two_members_is_refused() -> None:
    one = assignment_record("g", member("m1", member_epoch=3, assigned={A: {0: 3}}))
    for epoch in (2, 3):
        two = member("m2", member_epoch=epoch, pending_revocation={A: {0: 1}})
        with pytest.raises(CoordinatorRecordError, match=r"-0 is owned in epoch 3, not free"):
            after(one, assignment_record("g", two))
    newer = member("m2", member_epoch=4, assigned={A: {0: 4}})
    group = after(one, assignment_record("g", newer))
    group = after(assignment_record("g", member("m1", member_epoch=4)), group=group)
    assert group.partition_epochs == Map({A: Map({0: 4})}), "the old owner takes nothing away"


def test_a_group_of_protocols() -> None:
    def classic(member_id: str, *names: str) -> CoordinatorRecord:
        protocols = tuple(ClassicProtocol(name=name, metadata=b"") for name in names)
        return subscription_record(
            "g", member(member_id, classic=ClassicMemberMetadata(supported_protocols=protocols))
        )

    group = after(classic("m1", "range", "sticky"), classic("m2", "range"))
    assert group.classic_member_count == 2
    assert group.classic_protocol_counts == Map({"range": 2, "sticky": 1})
    group = after(classic("m1", "range"), group=group)
    assert group.classic_protocol_counts == Map({"range": 2})


MEMBERS = st.builds(
    member,
    st.sampled_from(["m1", "m2"]),
    subscribed_topic_names=st.sets(st.sampled_from("abc")).map(lambda names: tuple(sorted(names))),
    subscribed_topic_regex=st.sampled_from([None, "", "x", "y"]),
    server_assignor=st.sampled_from([None, "range", "uniform"]),
    instance_id=st.none(),
)


@given(st.lists(st.one_of(MEMBERS, st.sampled_from(["m1", "m2"])), max_size=8))
def test_indexes_are_what_the_members_say(changes: list[Member | str]) -> None:
    group: ConsumerGroup = ConsumerGroup(group_id="g")
    for change in changes:
        if isinstance(change, Member):
            group = after(subscription_record("g", change), group=group)
        else:
            group = after(*member_tombstones("g", change), group=group)
    members = group.members.values()
    names = [name for one in members for name in one.subscribed_topic_names]
    assert group.topic_counts == Map(
        {name: SubscriptionCount(names.count(name), 0) for name in names}
    )
    regexes = [one.regex for one in members if one.regex is not None]
    assert group.regex_counts == Map({regex: regexes.count(regex) for regex in regexes})
    assignors = [one.server_assignor for one in members if one.server_assignor is not None]
    assert group.assignor_counts == Map({name: assignors.count(name) for name in assignors})
