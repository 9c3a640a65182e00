"""Static members (KIP-345): they come back without a rebalance, and fence who was there before."""

import pytest

from coordinator.group.classic.member import MemberProtocol
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
)
from tests.coordinator.group.classic.classic_story import (
    BOTH,
    DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Story,
)
from wire.errors import ErrorCode


def test_static_member_joins_without_being_told_its_id_first() -> None:
    story = Story()
    asked = story.join(group_instance_id="one")
    assert asked.is_parked
    story.advance(DELAY_MS)
    assert asked.answer.member_id == "one-u1"
    assert asked.answer.members[0].group_instance_id == "one"


@pytest.mark.parametrize("can_skip", [True, False])
def test_static_follower_restarts_without_a_rebalance(*, can_skip: bool) -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.is_held = True
    again = story.join(group_instance_id="two", can_skip_assignment=can_skip)
    assert again.is_parked, "its new id must be recorded first"
    value = story.values[-1]
    assert value.generation == 1
    assert [(row.group_instance_id, row.assignment) for row in value.members] == [
        ("one", first.encode()),
        ("two", second.encode()),
    ]
    story.commit()
    answer = again.answer
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (1, first, False)
    assert answer.members == ()
    assert answer.member_id == value.members[1].member_id != second
    assert story.is_in(STABLE)
    assert story.heartbeat(first, 1, "one") is ErrorCode.none
    assert story.heartbeat(second, 1, "two") is ErrorCode.fenced_instance_id
    assert story.heartbeat(second) is ErrorCode.unknown_member_id
    synced = story.sync(answer.member_id, 1, group_instance_id="two")
    assert synced.answer.assignment == second.encode()


def test_restart_of_a_member_that_has_not_synced_leaves_nobody_to_be_waited_for() -> None:
    story = Story()
    asked = [story.join(group_instance_id=name) for name in ("one", "two")]
    while asked[0].is_parked:
        story.advance(DELAY_MS)
    first, second = (one.answer.member_id for one in asked)
    story.sync(first, 1, first, second)
    again = story.join(group_instance_id="two").answer.member_id
    for _ in range(2 * REBALANCE_MS // 5_000):
        story.heartbeat(first, 1, "one")
        story.heartbeat(again, 1, "two")
        story.advance(5_000)
    assert story.is_in(STABLE)


def test_static_leader_that_restarts_is_told_not_to_assign() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    again = story.join(group_instance_id="one").answer
    assert again.leader == again.member_id == story.group.leader_id != first
    assert again.skip_assignment
    assert [row.member_id for row in again.members] == [second, again.member_id]
    assert story.values[-1].leader == again.member_id


def test_static_leader_that_cannot_skip_the_assignment_is_not_told_that_it_leads() -> None:
    story = Story()
    first, _ = story.stable("one", "two")
    again = story.join(group_instance_id="one", can_skip_assignment=False).answer
    assert again.leader == first
    assert not again.skip_assignment
    assert again.members == ()
    assert story.group.leader_id == again.member_id


def test_session_of_a_static_member_that_restarted_begins_anew() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.advance(SESSION_MS - 1)
    assert story.heartbeat(first, 1, "one") is ErrorCode.none
    again = story.join(group_instance_id="two").answer.member_id
    story.advance(SESSION_MS - 1)
    assert story.heartbeat(first, 1, "one") is ErrorCode.none
    assert again in story.group.members
    story.advance(1)
    assert again not in story.group.members
    assert second not in story.group.members
    story.join(group_instance_id="one")
    story.leave(("", "one"))
    assert story.groups.first_deadline_ms() is None, "no session is left of an id that is gone"


def test_static_member_with_other_metadata_keeps_its_place_if_the_protocol_stays() -> None:
    story = Story()
    _, second = story.stable("one", "two")
    other = (MemberProtocol("range", b"other"),)
    again = story.join(group_instance_id="two", protocols=other, rebalance_timeout_ms=5)
    assert again.answer.generation_id == 1
    member = story.group.members[again.answer.member_id]
    assert (member.protocols, member.rebalance_timeout_ms) == (other, 5)
    assert story.values[-1].members[1].subscription == b"other"
    assert member.assignment == second.encode()


def test_static_member_that_changes_the_protocol_rebalances() -> None:
    story = Story()
    asked = [story.join(group_instance_id=name, protocols=BOTH) for name in ("one", "two")]
    while asked[0].is_parked:
        story.advance(DELAY_MS)
    first, second = (one.answer.member_id for one in asked)
    story.sync(first, 1, first, second)
    only = (MemberProtocol("roundrobin", b"rr"),)
    again = story.join(group_instance_id="two", protocols=only)
    assert again.is_parked
    assert story.is_in(PREPARING_REBALANCE)
    story.join(first, group_instance_id="one", protocols=BOTH)
    assert (again.answer.generation_id, again.answer.protocol_name) == (2, "roundrobin")


def test_restart_while_assignments_are_awaited_rebalances() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.join(first, group_instance_id="one")
    story.join(second, group_instance_id="two", protocols=BOTH)
    assert story.is_in(COMPLETING_REBALANCE)
    waiting = story.sync(second, 2, group_instance_id="two")
    again = story.join(group_instance_id="two")
    assert waiting.code is ErrorCode.fenced_instance_id
    assert story.is_in(PREPARING_REBALANCE)
    story.join(first, group_instance_id="one")
    assert again.answer.generation_id == 3


def test_restart_while_members_join_fences_the_parked_join() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    parked = story.join(first, group_instance_id="one")
    again = story.join(group_instance_id="one")
    assert parked.code is ErrorCode.fenced_instance_id
    assert parked.answer.member_id == first
    assert again.is_parked
    story.join(second, group_instance_id="two", protocols=BOTH)
    assert again.answer.generation_id == 2
    assert again.answer.leader == again.answer.member_id


def test_restart_as_the_last_that_is_missing_ends_the_join_phase() -> None:
    story = Story()
    first, _ = story.stable("one", "two")
    parked = story.join(first, group_instance_id="one")
    story.join(group_instance_id="two")
    assert parked.answer.generation_id == 2


@pytest.mark.parametrize(
    ("member", "instance_id", "code"),
    [
        ("{0}", "two", ErrorCode.fenced_instance_id),
        ("{0}", "none", ErrorCode.unknown_member_id),
        ("nobody", "one", ErrorCode.fenced_instance_id),
        ("nobody", "none", ErrorCode.unknown_member_id),
    ],
)
def test_join_of_another_id_than_that_of_the_instance(
    member: str, instance_id: str, code: ErrorCode
) -> None:
    story = Story()
    members = story.stable("one", "two")
    refused = story.join(member.format(*members), group_instance_id=instance_id)
    assert refused.code is code
    assert refused.answer.member_id == member.format(*members)
    assert story.is_in(STABLE)


# The record of the new id is lost, or overtaken


def test_static_member_whose_new_id_is_lost_has_its_old_one_again() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.is_held = True
    again = story.join(group_instance_id="two", protocols=BOTH, session_timeout_ms=1)
    story.fail(ErrorCode.not_enough_replicas)
    assert again.code is ErrorCode.coordinator_not_available
    assert again.answer.member_id == ""
    member = story.group.members[second]
    assert (member.protocols, member.session_timeout_ms) == (RANGE, SESSION_MS)
    assert member.assignment == second.encode()
    assert story.is_in(STABLE)
    story.advance(SESSION_MS - 1)
    assert story.heartbeat(first, 1, "one") is ErrorCode.none
    assert second in story.group.members
    story.advance(1)
    assert second not in story.group.members


def test_two_restarts_whose_ids_are_lost() -> None:
    story = Story()
    _, second = story.stable("one", "two")
    story.is_held = True
    asked = [story.join(group_instance_id="two") for _ in range(2)]
    assert asked[0].code is ErrorCode.fenced_instance_id
    story.fail()
    assert asked[1].code is ErrorCode.coordinator_not_available
    # The first is nobody's: it ends with its session, or with the next restart.
    assert story.group.static_members["two"] not in {second, asked[1].answer.member_id}
    story.is_held = False
    again = story.join(group_instance_id="two")
    assert again.answer.generation_id == 1


def test_restart_that_a_rebalance_overtakes_is_answered_by_it() -> None:
    story = Story()
    first, _ = story.stable("one", "two")
    story.is_held = True
    again = story.join(group_instance_id="two")
    story.join(first, group_instance_id="one")
    # Both wait for the next generation, which begins at once.
    assert again.answer.generation_id == 2
    story.commit()
    assert story.is_in(COMPLETING_REBALANCE)

    story = Story()
    first, _, third = story.stable("one", "two", "three")
    story.is_held = True
    again = story.join(group_instance_id="two")
    story.join(first, group_instance_id="one")
    story.commit()
    assert again.is_parked
    story.join(third, group_instance_id="three")
    assert again.answer.generation_id == 2


def test_lost_id_of_a_member_that_takes_part_in_a_rebalance() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.is_held = True
    again = story.join(group_instance_id="two")
    story.join(first, group_instance_id="one")
    syncing = story.sync(again.answer.member_id, 2, group_instance_id="two")
    story.fail()
    assert syncing.code is ErrorCode.fenced_instance_id
    assert story.group.static_members["two"] == second


def test_lost_id_of_a_member_that_has_left() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.is_held = True
    again = story.join(group_instance_id="two")
    assert story.leave(("", "two")) == [ErrorCode.none]
    assert again.code is ErrorCode.unknown_member_id
    story.fail()
    assert list(story.group.members) == [first]
    assert second not in story.group.members
