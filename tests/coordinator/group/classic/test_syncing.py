"""SyncGroup: the leader's assignment is recorded before anyone has it; what is lost goes back."""

import pytest

from coordinator.group.classic.change import append_error
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
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


def joined(story: Story, count: int) -> list[str]:
    """Members of a group that awaits the assignment of the first of them."""
    members = [story.new_member() for _ in range(count)]
    while members[0][1].is_parked:
        story.advance(DELAY_MS)
    return [member_id for member_id, _ in members]


def test_followers_wait_until_the_assignment_is_committed() -> None:
    story = Story()
    first, second = joined(story, 2)
    completed_ms = WALL_MS + story.now_ms
    follower = story.sync(second)
    assert follower.is_parked
    story.is_held = True
    story.advance(7)
    leader = story.sync(first, 1, first, second)
    value = story.values[-1]
    assert (value.generation, value.protocol, value.leader) == (1, "range", first)
    assert value.current_state_timestamp == completed_ms
    assert [(row.member_id, row.subscription, row.assignment) for row in value.members] == [
        (first, b"r", first.encode()),
        (second, b"r", second.encode()),
    ]
    assert leader.is_parked
    assert follower.is_parked
    story.advance(1)
    story.commit()
    assert story.is_in(STABLE)
    assert story.group.state_timestamp_ms == WALL_MS + story.now_ms
    answer = follower.answer
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert answer.assignment == second.encode()
    assert leader.answer.assignment == first.encode()


def test_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    story = Story()
    first, second = joined(story, 2)
    follower = story.sync(second)
    story.sync(first, 1, first)
    assert follower.answer.assignment == b""
    assert story.values[-1].members[1].assignment == b""


def test_assignment_of_a_follower_counts_nothing() -> None:
    story = Story()
    first, second = joined(story, 2)
    follower = story.sync(second, 1, first, second)
    assert follower.is_parked
    assert len(story.records) == 1
    story.sync(first, 1, second)
    assert follower.answer.assignment == second.encode()


def test_sync_of_a_stable_group_is_answered_at_once() -> None:
    story = Story()
    first, second = story.stable(None, None)
    count = len(story.records)
    assert story.sync(second).answer.assignment == second.encode()
    assert story.sync(first, 1, second).answer.assignment == first.encode()
    assert len(story.records) == count


def test_sync_that_is_sent_again_takes_the_place_of_the_parked_one() -> None:
    story = Story()
    first, second = joined(story, 2)
    given_up = story.sync(second)
    again = story.sync(second)
    assert given_up.code is ErrorCode.rebalance_in_progress
    story.sync(first, 1, second)
    assert again.answer.assignment == second.encode()


@pytest.mark.parametrize(
    ("member", "generation_id", "properties", "code"),
    [
        ("nobody", 1, {}, ErrorCode.unknown_member_id),
        ("{0}", 0, {}, ErrorCode.illegal_generation),
        ("{0}", 2, {}, ErrorCode.illegal_generation),
        ("{0}", 1, {"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ("{0}", 1, {"protocol_name": "other"}, ErrorCode.inconsistent_group_protocol),
        ("{0}", 1, {"protocol_type": None, "protocol_name": None}, ErrorCode.none),
        ("{0}", 1, {"group_instance_id": "one"}, ErrorCode.fenced_instance_id),
        ("{0}", 1, {"group_instance_id": "none"}, ErrorCode.unknown_member_id),
        ("{1}", 1, {"group_instance_id": "one"}, ErrorCode.none),
    ],
)
def test_who_may_sync(
    member: str, generation_id: int, properties: dict[str, str | None], code: ErrorCode
) -> None:
    story = Story()
    members = story.stable(None, "one")
    asked = story.sync(member.format(*members), generation_id, **properties)
    assert asked.code is code
    assert asked.answer.assignment == (
        b"" if code is not ErrorCode.none else member.format(*members).encode()
    )


def test_sync_while_members_join_asks_to_join() -> None:
    story = Story()
    first, second = story.stable(None, None)
    story.join(first)
    assert story.sync(second).code is ErrorCode.rebalance_in_progress


def test_sync_before_the_first_generation() -> None:
    story = Story()
    member_id, _ = story.new_member()
    assert story.sync(member_id, 0, protocol_name="range").code is ErrorCode.rebalance_in_progress


def test_sync_of_an_empty_or_unknown_group() -> None:
    story = Story()
    assert story.sync("m").code is ErrorCode.unknown_member_id
    story.join()
    assert story.is_in(EMPTY)
    assert story.sync("m", 0).code is ErrorCode.unknown_member_id


def test_assignments_of_the_generation_before_go_when_a_rebalance_is_given_up() -> None:
    story = Story()
    first, second = story.stable(None, None)
    story.join(first)
    assert story.group.members[second].assignment == second.encode()
    story.join(second)
    story.join(first, protocols=BOTH)
    assert story.is_in(PREPARING_REBALANCE)
    assert {member.assignment for member in story.group.members.values()} == {b""}


def test_nobody_is_waited_for_when_all_have_synced() -> None:
    story = Story()
    first, joined = story.new_member(session_timeout_ms=10 * REBALANCE_MS)
    story.advance(DELAY_MS)
    assert story.groups.first_deadline_ms() == story.now_ms + REBALANCE_MS
    story.sync(first, 1, first)
    assert story.groups.first_deadline_ms() == story.now_ms + 10 * REBALANCE_MS
    assert joined.code is ErrorCode.none


# What was appended is lost


def test_lost_assignment_rebalances() -> None:
    story = Story()
    first, second = joined(story, 2)
    follower = story.sync(second)
    story.is_held = True
    leader = story.sync(first, 1, first, second)
    story.fail(ErrorCode.not_enough_replicas)
    for asked in (leader, follower):
        assert asked.code is ErrorCode.coordinator_not_available
        assert asked.answer.assignment == b""
    assert story.is_in(PREPARING_REBALANCE)
    assert {member.assignment for member in story.group.members.values()} == {b""}
    # Their sessions begin anew: they were not asked for heartbeats while they waited.
    story.advance(SESSION_MS - 1)
    assert set(story.group.members) == {first, second}
    story.is_held = False
    again = [story.join(first), story.join(second)]
    assert [one.answer.generation_id for one in again] == [2, 2]


def test_assignment_of_a_generation_that_is_over_is_dropped() -> None:
    story = Story()
    first, second = joined(story, 2)
    story.is_held = True
    leader = story.sync(first, 1, first, second)
    story.leave(second)
    assert leader.code is ErrorCode.rebalance_in_progress
    story.join(first)
    assert story.group.generation_id == 2
    story.commit()
    assert story.is_in(COMPLETING_REBALANCE)
    assert story.group.members[first].assignment == b""


def test_loss_in_a_generation_that_is_over_changes_nothing() -> None:
    story = Story()
    first, second = joined(story, 2)
    story.is_held = True
    story.sync(first, 1, first, second)
    story.leave(second)
    story.join(first)
    waiting = story.sync(first, 2)
    story.pending.pop()
    story.fail()
    assert waiting.is_parked
    assert story.is_in(COMPLETING_REBALANCE)


def test_loss_behind_the_end_of_the_shard_changes_nothing() -> None:
    story = Story()
    first, _ = joined(story, 2)
    story.is_held = True
    leader = story.sync(first, 1, first)
    group = story.group
    story.groups.resign()
    assert leader.code is ErrorCode.not_coordinator
    story.fail()
    assert group.state is DEAD


def test_group_whose_first_record_is_lost_is_gone_with_its_members() -> None:
    story = Story()
    story.is_held = True
    parked = story.join(group_instance_id="one")
    told = story.join()
    group = story.group
    story.fail(ErrorCode.not_leader_or_follower)
    assert parked.code is ErrorCode.not_coordinator
    assert told.code is ErrorCode.member_id_required, "it was answered before"
    assert group.state is DEAD
    assert story.known is None
    assert story.groups.first_deadline_ms() is None
    story.join()
    assert story.group is not group


def test_loss_of_the_first_record_spares_the_group_that_came_after() -> None:
    story = Story()
    story.is_held = True
    story.join()
    (first,) = story.pending
    del story.image[GROUP]
    assert story.join("m").code is ErrorCode.unknown_member_id
    later = story.join(group_instance_id="one")
    assert first[0].failed is not None
    first[0].failed(ErrorCode.request_timed_out, story.now)
    assert later.is_parked
    assert story.is_in(PREPARING_REBALANCE)


@pytest.mark.parametrize(
    ("code", "answered"),
    [
        (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.record_list_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.invalid_fetch_size, ErrorCode.unknown_server_error),
        (ErrorCode.not_coordinator, ErrorCode.not_coordinator),
    ],
)
def test_errors_of_appends_are_told_as_the_coordinator_s(
    code: ErrorCode, answered: ErrorCode
) -> None:
    assert append_error(code) is answered


def test_reply_is_given_once() -> None:
    asked = Asked()
    assert asked.reply.is_owed
    asked.reply("first")
    asked.reply("second")
    assert not asked.reply.is_owed
    assert asked.answers == ["first"]
