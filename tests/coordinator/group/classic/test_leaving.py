"""LeaveGroup: one or many, by id or by instance; what they wait for is answered."""

import pytest

from coordinator.group.classic.states import EMPTY, PREPARING_REBALANCE, STABLE
from tests.coordinator.group.classic.classic_story import DELAY_MS, Story
from wire.errors import ErrorCode


def test_member_that_leaves_rebalances_the_others() -> None:
    story = Story()
    first, second = story.stable(None, None)
    assert story.leave(first) == [ErrorCode.none]
    assert story.is_in(PREPARING_REBALANCE)
    assert story.group.leader_id == second
    assert story.heartbeat(first) is ErrorCode.unknown_member_id
    assert story.join(second).answer.leader == second


def test_last_member_that_leaves_empties_the_group() -> None:
    story = Story()
    (first,) = story.stable(None)
    story.leave(first)
    assert story.is_in(EMPTY)
    assert (story.values[-1].generation, story.values[-1].members) == (2, ())
    assert story.groups.first_deadline_ms() is None


def test_members_that_leave_together_rebalance_once() -> None:
    story = Story()
    first, _, third = story.stable(None, "two", "three")
    codes = story.leave(first, ("", "two"), (third, "three"))
    assert codes == [ErrorCode.none] * 3
    assert story.group.generation_id == 2
    assert [value.generation for value in story.values] == [0, 1, 2]


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ("nobody", ErrorCode.unknown_member_id),
        ("", ErrorCode.unknown_member_id),
        (("", "none"), ErrorCode.unknown_member_id),
        (("nobody", "none"), ErrorCode.unknown_member_id),
        (("nobody", "two"), ErrorCode.fenced_instance_id),
        (("{0}", "two"), ErrorCode.fenced_instance_id),
    ],
)
def test_who_may_not_leave(member: str | tuple[str, str], code: ErrorCode) -> None:
    story = Story()
    first, _ = story.stable(None, "two")
    named = member if isinstance(member, str) else (member[0].format(first), member[1])
    assert story.leave(named) == [code]
    assert story.is_in(STABLE)


def test_one_of_many_that_may_not_leave_does_not_stop_the_others() -> None:
    story = Story()
    first, _ = story.stable(None, "two")
    assert story.leave("nobody", first) == [ErrorCode.unknown_member_id, ErrorCode.none]
    assert story.is_in(PREPARING_REBALANCE)


def test_leaving_an_unknown_group() -> None:
    story = Story()
    assert story.leave("m", ("", "i")) == [ErrorCode.unknown_member_id] * 2


def test_id_that_was_handed_out_can_be_given_back() -> None:
    story = Story()
    member_id = story.join().answer.member_id
    assert story.leave(member_id) == [ErrorCode.none]
    assert story.is_in(EMPTY)
    assert story.groups.first_deadline_ms() is None
    assert story.join(member_id).code is ErrorCode.unknown_member_id


def test_id_that_is_given_back_is_no_longer_waited_for() -> None:
    story = Story()
    first, second = story.stable(None, None)
    told = story.join().answer.member_id
    story.leave(second)
    again = story.join(first)
    assert again.is_parked
    story.leave(told)
    assert again.answer.generation_id == 2


def test_last_that_is_missing_ends_the_join_phase_by_leaving() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(first)
    assert again.is_parked
    story.leave(second)
    assert again.answer.generation_id == 2


def test_one_that_leaves_in_the_initial_delay_does_not_end_it() -> None:
    story = Story()
    _, first = story.new_member()
    second, _ = story.new_member()
    story.leave(second)
    assert first.is_parked
    story.advance(2 * DELAY_MS)
    assert len(first.answer.members) == 1


def test_parked_join_and_sync_of_who_leaves_are_answered() -> None:
    story = Story()
    first, second = story.stable(None, "two")
    joining = story.join(first)
    story.leave(first)
    assert joining.code is ErrorCode.unknown_member_id
    assert joining.answer.member_id == ""

    story = Story()
    first, second = story.stable(None, "two")
    story.join(first)
    story.join(second, group_instance_id="two")
    syncing = story.sync(second, 2, group_instance_id="two")
    story.leave(("", "two"))
    assert syncing.code is ErrorCode.unknown_member_id
