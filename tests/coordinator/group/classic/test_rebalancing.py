"""Rebalances: who is waited for, how long, who leads, sessions, the take-over of a shard."""

import pytest

from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    ClassicGroupState,
    can_rebalance,
)
from tests.coordinator.group.classic.classic_story import (
    BOTH,
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    WALL_MS,
    Asked,
    Story,
)
from wire.errors import ErrorCode


def test_table_of_transitions() -> None:
    """As ClassicGroupState.java lists them, from the side of the previous states there."""
    previous = {
        EMPTY: {PREPARING_REBALANCE},
        PREPARING_REBALANCE: {STABLE, COMPLETING_REBALANCE, EMPTY},
        COMPLETING_REBALANCE: {PREPARING_REBALANCE},
        STABLE: {COMPLETING_REBALANCE},
        DEAD: {STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE, EMPTY, DEAD},
    }
    for state in ClassicGroupState:
        assert TRANSITIONS[state] == {after for after in previous if state in previous[after]}
    assert [state for state in ClassicGroupState if can_rebalance(state)] == [
        EMPTY,
        COMPLETING_REBALANCE,
        STABLE,
    ]


@pytest.mark.parametrize("state", [EMPTY, COMPLETING_REBALANCE, STABLE])
def test_other_transitions_are_refused(state: ClassicGroupState) -> None:
    story = Story()
    story.join()
    with pytest.raises(AssertionError, match="state"):
        story.group.transition(state, 0)


def rejoin(story: Story, *members: str) -> list[Asked]:
    return [story.join(member_id) for member_id in members]


def test_rebalance_ends_without_members_that_do_not_join() -> None:
    story = Story()
    first, second, third = story.stable(None, None, None)
    again = rejoin(story, first, second)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        story.advance(5_000)
        assert again[0].is_parked
        assert story.heartbeat(third) is ErrorCode.rebalance_in_progress
    story.advance(5_000)
    assert [row.member_id for row in again[0].answer.members] == [first, second]
    assert story.heartbeat(third) is ErrorCode.unknown_member_id


def test_longest_rebalance_timeout_of_the_members_holds() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(first, rebalance_timeout_ms=2 * REBALANCE_MS)
    for _ in range(2 * REBALANCE_MS // 5_000 - 1):
        story.heartbeat(second)
        story.advance(5_000)
    assert again.is_parked
    story.heartbeat(second)
    story.advance(5_000)
    assert again.answer.generation_id == 2


def test_next_member_leads_when_the_leader_does_not_join() -> None:
    story = Story()
    first, second, third = story.stable(None, None, None)
    again = [story.join(third, protocols=BOTH), story.join(second)]
    story.advance(SESSION_MS)
    assert first not in story.group.members
    assert [one.answer.leader for one in again] == [second] * 2
    assert story.group.leader_id == second
    assert [row.member_id for row in again[1].answer.members] == [second, third]
    assert again[0].answer.members == ()


def test_static_leader_that_does_not_join_stays_but_leads_no_more() -> None:
    story = Story()
    first, second = story.stable("one", None)
    again = story.join(second, protocols=BOTH)
    for _ in range(REBALANCE_MS // 5_000):
        story.heartbeat(first, 1, "one")
        story.advance(5_000)
    assert again.answer.leader == second
    third, _ = story.new_member(protocols=BOTH)
    story.leave(third)
    assert story.group.leader_id == second, "the leader is not the first member"
    assert [row.group_instance_id for row in again.answer.members] == ["one", None]
    assert first in story.group.members


def test_static_members_that_all_stay_away_are_waited_for_until_their_sessions_end() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.leave(second)
    assert story.is_in(PREPARING_REBALANCE)
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert story.heartbeat(first, 1, "one") is ErrorCode.rebalance_in_progress
        story.advance(5_000)
    assert (story.group.generation_id, story.group.leader_id) == (1, first)
    story.advance(SESSION_MS)
    assert story.is_in(EMPTY)
    assert story.group.generation_id == 2


def test_static_members_that_stayed_away_can_still_join() -> None:
    story = Story()
    first, second = story.stable("one", "two")
    story.leave(second)
    for _ in range(REBALANCE_MS // 5_000 + 1):
        story.heartbeat(first, 1, "one")
        story.advance(5_000)
    again = story.join(first, group_instance_id="one")
    assert again.answer.generation_id == 2


def test_static_member_that_joins_is_not_kept_waiting_for_one_that_stays_away() -> None:
    story = Story()
    first, second, third = story.stable("one", "two", None)
    story.leave(third)

    def wait(ms: int) -> None:
        for _ in range(ms // 5_000):
            story.heartbeat(first, 1, "one")
            story.heartbeat(second, 1, "two")
            story.advance(5_000)

    wait(REBALANCE_MS)
    assert story.group.generation_id == 1, "nobody joined"
    again = story.join(first, group_instance_id="one")
    wait(REBALANCE_MS - 5_000)
    assert again.is_parked
    wait(5_000)
    assert again.answer.generation_id == 2
    assert len(again.answer.members) == 2


# Sessions


def test_session_of_a_member_that_is_silent_ends() -> None:
    story = Story()
    first, second = story.stable(None, None)
    story.advance(SESSION_MS - 1)
    assert story.heartbeat(first) is ErrorCode.none
    assert story.is_in(STABLE)
    story.advance(1)
    assert story.is_in(PREPARING_REBALANCE)
    assert list(story.group.members) == [first]
    assert story.heartbeat(second) is ErrorCode.unknown_member_id
    assert story.join(first).answer.generation_id == 2


def test_emptied_group_raises_its_generation_and_keeps_its_type() -> None:
    story = Story()
    (first,) = story.stable(None)
    story.advance(SESSION_MS)
    assert story.is_in(EMPTY)
    value = story.values[-1]
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == (
        "consumer",
        2,
        None,
        None,
    )
    assert value.members == ()
    assert value.current_state_timestamp == WALL_MS + story.now_ms
    assert story.heartbeat(first, 2) is ErrorCode.unknown_member_id
    assert story.group.subscribed_topics == frozenset()
    assert story.groups.first_deadline_ms() is None


def test_member_that_waits_need_not_send_heartbeats() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(first)
    for _ in range(4):
        story.heartbeat(second)
        story.advance(SESSION_MS - 1)
    assert again.is_parked
    follower = story.join(second)
    # The sessions begin when the joins are answered.
    assert follower.answer.generation_id == 2
    waiting = story.sync(second, 2)
    for _ in range(3):
        story.advance(SESSION_MS - 1)
        assert waiting.is_parked
        assert story.heartbeat(first, 2) is ErrorCode.none
    story.sync(first, 2, second)
    assert waiting.answer.assignment == second.encode()
    story.advance(SESSION_MS - 1)
    assert second in story.group.members
    story.advance(1)
    assert second not in story.group.members


def test_session_that_ends_while_assignments_are_awaited_rebalances() -> None:
    story = Story()
    first, second = story.stable(None, None)
    rejoin(story, first, second)
    waiting = story.sync(second, 2)
    story.advance(SESSION_MS)
    assert waiting.code is ErrorCode.rebalance_in_progress
    assert story.is_in(PREPARING_REBALANCE)
    assert list(story.group.members) == [second]


def test_last_that_is_missing_ends_the_join_phase_with_its_session() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(first)
    story.advance(SESSION_MS)
    assert [row.member_id for row in again.answer.members] == [first]
    assert second not in story.group.members


@pytest.mark.parametrize(
    ("member_id", "generation_id", "instance_id", "code"),
    [
        ("{0}", 1, None, ErrorCode.none),
        ("{0}", 0, None, ErrorCode.illegal_generation),
        ("{0}", 2, None, ErrorCode.illegal_generation),
        ("nobody", 1, None, ErrorCode.unknown_member_id),
        ("{1}", 1, "one", ErrorCode.none),
        ("{1}", 1, "other", ErrorCode.unknown_member_id),
        ("{0}", 1, "one", ErrorCode.fenced_instance_id),
    ],
)
def test_heartbeat_of_a_stable_group(
    member_id: str, generation_id: int, instance_id: str | None, code: ErrorCode
) -> None:
    story = Story()
    members = story.stable(None, "one")
    assert story.heartbeat(member_id.format(*members), generation_id, instance_id) is code


def test_heartbeat_of_an_unknown_group() -> None:
    assert Story().heartbeat("m") is ErrorCode.unknown_member_id


# Members that do not send SyncGroup


def test_members_that_do_not_sync_are_removed() -> None:
    story = Story()
    first, second = story.stable(None, None)
    rejoin(story, first, second)
    story.sync(first, 2, first, second)
    assert story.is_in(STABLE)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        story.advance(5_000)
        assert story.heartbeat(first, 2) is ErrorCode.none
        assert story.heartbeat(second, 2) is ErrorCode.none
    story.advance(5_000)
    assert story.is_in(PREPARING_REBALANCE)
    assert list(story.group.members) == [first]


def test_leader_that_does_not_sync_is_removed_and_followers_are_told() -> None:
    story = Story()
    first, second = story.stable(None, None)
    rejoin(story, first, second)
    waiting = story.sync(second, 2)
    for _ in range(REBALANCE_MS // 5_000):
        assert waiting.is_parked
        story.heartbeat(first, 2)
        story.advance(5_000)
    assert waiting.code is ErrorCode.rebalance_in_progress
    assert list(story.group.members) == [second]
    assert story.group.leader_id == second


def test_wait_for_syncs_ends_when_all_have_sent_theirs() -> None:
    story = Story()
    (first,) = story.stable(None)
    for _ in range(2 * REBALANCE_MS // 5_000):
        story.advance(5_000)
        assert story.heartbeat(first) is ErrorCode.none
    assert story.is_in(STABLE)


def test_wait_for_syncs_ends_with_a_rebalance() -> None:
    story = Story()
    members = [story.new_member(session_timeout_ms=10 * REBALANCE_MS) for _ in "12"]
    while members[0][1].is_parked:
        story.advance(DELAY_MS)
    story.advance(REBALANCE_MS // 2)
    story.leave(members[1][0])
    assert story.is_in(PREPARING_REBALANCE)
    assert story.groups.first_deadline_ms() == story.now_ms + REBALANCE_MS
    story.advance(1)
    story.join(members[0][0], session_timeout_ms=10 * REBALANCE_MS)
    assert story.is_in(COMPLETING_REBALANCE)
    assert story.groups.first_deadline_ms() == story.now_ms + REBALANCE_MS


# Take-over and end of a shard


def taken_over(story: Story, **settings: int) -> Story:
    """The same group on the next coordinator, which has what was recorded."""
    after = Story(**settings)
    after.now_ms = story.now_ms + 1_000
    after.image = dict(story.image)
    value = story.values[-1]
    after.groups.load([(GROUP, value)], after.now)
    return after


def test_next_coordinator_has_the_recorded_generation_with_whole_sessions() -> None:
    story = Story()
    first, second = story.stable("one", None)
    after = taken_over(story)
    group = after.group
    assert group.state is STABLE
    assert (group.generation_id, group.leader_id, group.protocol_name) == (1, first, "range")
    assert group.static_members == {"one": first}
    assert group.members[second].assignment == second.encode()
    assert group.state_timestamp_ms == story.values[-1].current_state_timestamp
    after.advance(SESSION_MS - 1)
    assert after.heartbeat(second) is ErrorCode.none
    assert after.sync(first, 1, group_instance_id="one").answer.assignment == first.encode()
    after.advance(1)
    assert list(group.members) == [second]


def test_group_above_its_size_rebalances_when_it_is_taken_over() -> None:
    story = Story()
    first, second, third = story.stable(None, None, None)
    assert taken_over(story, group_max_size=3).group.state is STABLE
    after = taken_over(story, group_max_size=2)
    assert after.group.state is PREPARING_REBALANCE
    again = rejoin(after, third, second)
    assert after.join(first).code is ErrorCode.group_max_size_reached
    assert [one.answer.generation_id for one in again] == [2, 2]


def test_groups_without_members_are_made_at_first_use() -> None:
    story = Story()
    story.stable(None)
    story.advance(SESSION_MS)
    after = taken_over(story)
    assert after.groups.first_deadline_ms() is None
    assert after.groups._groups == {}
    assert (after.group.state, after.group.generation_id) == (EMPTY, 2)
    assert after.group.protocol_type == "consumer"
    _, joined = after.new_member()
    after.advance(DELAY_MS)
    assert joined.answer.generation_id == 3


def test_who_waits_is_told_when_the_coordinator_moves() -> None:
    story = Story()
    first, second = story.stable(None, None)
    joining = story.join(first)
    story.groups.resign()
    assert joining.code is ErrorCode.not_coordinator
    assert joining.answer.member_id == first
    assert story.groups.first_deadline_ms() is None

    story = Story()
    first, second = story.stable(None, None)
    rejoin(story, first, second)
    syncing = story.sync(second, 2)
    group = story.group
    story.groups.resign()
    assert syncing.code is ErrorCode.not_coordinator
    assert group.state is DEAD
    assert story.groups.first_deadline_ms() is None
    assert isinstance(story.groups, ClassicGroups)


def test_deleted_group_is_forgotten() -> None:
    story = Story()
    (first,) = story.stable(None)
    story.leave(first)
    told = story.join()
    old = story.group
    del story.image[GROUP]
    assert story.join(told.answer.member_id).code is ErrorCode.unknown_member_id
    assert old.state is DEAD
    assert story.groups.first_deadline_ms() is None
    story.join()
    assert story.group is not old
    assert story.values[-1].generation == 0
