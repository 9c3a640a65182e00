"""JoinGroup: ids, protocols, sizes, the wait of a new group, members that come again."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from coordinator.group.classic import settings as settings_module
from coordinator.group.classic.groups import refusal
from coordinator.group.classic.member import MemberProtocol
from coordinator.group.classic.record import group_record
from coordinator.group.classic.requests import Join
from coordinator.group.classic.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicSettings
from coordinator.group.classic.states import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.image import SimpleGroup
from coordinator.records.codec import decode, encode
from coordinator.records.kinds import GROUP_KINDS
from tests.coordinator.group.classic.classic_story import (
    BOTH,
    DELAY_MS,
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    WALL_MS,
    Story,
)
from wire.errors import ErrorCode

ROUND_ROBIN = (MemberProtocol("roundrobin", b"rr"),)


def test_new_dynamic_member_is_told_its_id_first() -> None:
    story = Story()
    told = story.join(client_id="app")
    assert told.code is ErrorCode.member_id_required
    assert told.answer.member_id == "app-u1"
    assert story.is_in(EMPTY)
    joined = story.join("app-u1", client_id="app")
    assert joined.is_parked
    story.advance(DELAY_MS - 1)
    assert joined.is_parked
    story.advance(1)
    answer = joined.answer
    assert joined.code is ErrorCode.none
    assert (answer.generation_id, answer.protocol_type, answer.protocol_name) == (
        1,
        "consumer",
        "range",
    )
    assert (answer.leader, answer.member_id, answer.skip_assignment) == ("app-u1", "app-u1", False)
    assert [(row.member_id, row.group_instance_id, row.metadata) for row in answer.members] == [
        ("app-u1", None, b"r")
    ]


def test_first_record_of_a_group_is_generation_0() -> None:
    story = Story()
    story.now_ms = 5
    story.join()
    (value,) = story.values
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == (
        "",
        0,
        None,
        None,
    )
    assert value.members == ()
    assert value.current_state_timestamp == WALL_MS + 5
    story.join()
    assert len(story.records) == 1


def test_group_that_only_has_offsets_gets_no_first_record() -> None:
    story = Story()
    story.image[GROUP] = SimpleGroup()
    assert story.join().code is ErrorCode.member_id_required
    assert story.records == []


def test_old_clients_join_without_an_id() -> None:
    story = Story()
    joined = story.join(is_id_required=False)
    story.advance(DELAY_MS)
    assert joined.code is ErrorCode.none
    assert joined.answer.member_id == "c-u1"


def test_member_id_of_an_unknown_group_or_member_is_unknown() -> None:
    story = Story()
    refused = story.join("c-other")
    assert refused.code is ErrorCode.unknown_member_id
    assert refused.answer.member_id == "c-other"
    assert story.records == []
    story.stable(None)
    assert story.join("c-other").code is ErrorCode.unknown_member_id


def test_id_that_was_handed_out_ends_with_its_session() -> None:
    story = Story()
    member_id = story.join().answer.member_id
    story.advance(SESSION_MS)
    assert story.join(member_id).code is ErrorCode.unknown_member_id


def test_id_that_was_handed_out_cannot_be_a_static_member() -> None:
    story = Story()
    member_id = story.join().answer.member_id
    refused = story.join(member_id, group_instance_id="i")
    assert refused.code is ErrorCode.unknown_server_error


def test_rebalance_waits_for_an_id_that_was_handed_out() -> None:
    story = Story()
    first, _ = story.new_member()
    story.advance(DELAY_MS)
    story.sync(first, 1, first)
    told = story.join()
    again = story.join(first)
    assert again.is_parked
    story.join(told.answer.member_id)
    assert again.answer.generation_id == 2


def test_session_of_a_handed_out_id_ends_the_join_phase_that_waits_for_it() -> None:
    story = Story()
    (first,) = story.stable(None)
    story.join()
    again = story.join(first)
    story.advance(SESSION_MS - 1)
    assert again.is_parked
    story.advance(1)
    assert again.answer.generation_id == 2


def test_number_of_handed_out_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.group.classic.joining.PENDING_JOINS_MAX", 2)
    assert settings_module.PENDING_JOINS_MAX == 10_000
    story = Story()
    story.join()
    assert story.join().code is ErrorCode.member_id_required
    refused = story.join()
    assert refused.code is ErrorCode.coordinator_not_available
    assert refused.answer.member_id == ""
    assert len(story.group.pending_joins) == 2


def test_group_of_another_kind_is_not_joined() -> None:
    story = Story()
    story.image[GROUP] = cast("Any", object())
    for member_id in ("", "m"):
        refused = story.join(member_id)
        assert refused.code is ErrorCode.inconsistent_group_protocol
        assert refused.answer.member_id == ""
    assert story.sync("m").code is ErrorCode.unknown_member_id
    assert story.heartbeat("m") is ErrorCode.unknown_member_id
    assert story.leave("m") == [ErrorCode.unknown_member_id]
    assert story.records == []


# The initial delay


def test_initial_delay_is_extended_while_members_come_up_to_the_rebalance_timeout() -> None:
    story = Story()
    _, first = story.new_member(rebalance_timeout_ms=7_000)
    for _ in range(2):
        story.advance(DELAY_MS - 1)
        story.new_member(rebalance_timeout_ms=7_000)
        story.advance(1)
        assert first.is_parked
    # 6 of 7 s are over: what remains is 1 s, however many come.
    story.new_member(rebalance_timeout_ms=7_000)
    story.advance(999)
    assert first.is_parked
    story.advance(1)
    assert len(first.answer.members) == 4
    assert story.now_ms == 7_000


def test_initial_delay_is_not_extended_for_members_that_came_before() -> None:
    story = Story()
    _, first = story.new_member()
    story.advance(DELAY_MS - 1)
    story.new_member()
    story.advance(1)
    assert first.is_parked
    story.advance(DELAY_MS)
    assert len(first.answer.members) == 2


def test_without_initial_delay_the_first_member_joins_at_once() -> None:
    story = Story(initial_rebalance_delay_ms=0)
    _, joined = story.new_member()
    story.advance(0)
    assert joined.answer.generation_id == 1


def test_initial_delay_longer_than_the_rebalance_timeout_is_not_extended() -> None:
    story = Story()
    _, first = story.new_member(rebalance_timeout_ms=DELAY_MS - 1)
    story.new_member(rebalance_timeout_ms=DELAY_MS)
    story.advance(DELAY_MS)
    assert len(first.answer.members) == 2


def test_group_whose_members_left_in_the_initial_delay_becomes_empty() -> None:
    story = Story()
    member_id, joined = story.new_member()
    assert story.leave(member_id) == [ErrorCode.none]
    assert joined.code is ErrorCode.unknown_member_id
    assert story.is_in(PREPARING_REBALANCE)
    story.advance(DELAY_MS)
    assert story.is_in(EMPTY)
    assert story.values[-1].generation == 1


# Protocols


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": ROUND_ROBIN}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": BOTH}, ErrorCode.member_id_required),
    ],
)
def test_member_must_support_a_protocol_of_all(properties: dict[str, Any], code: ErrorCode) -> None:
    story = Story()
    story.new_member()
    assert story.join(**properties).code is code


def test_member_that_comes_again_must_support_a_protocol_of_all() -> None:
    story = Story()
    first, _ = story.stable(None, None)
    refused = story.join(first, protocols=ROUND_ROBIN)
    assert refused.code is ErrorCode.inconsistent_group_protocol
    assert refused.answer.member_id == first


@pytest.mark.parametrize("properties", [{"protocol_type": ""}, {"protocols": ()}])
def test_first_member_must_have_a_protocol(properties: dict[str, Any]) -> None:
    story = Story()
    assert story.join(**properties).code is ErrorCode.inconsistent_group_protocol
    assert len(story.records) == 1, "Kafka makes the group nevertheless"


def test_protocol_with_most_votes_is_chosen() -> None:
    story = Story()
    _, first = story.new_member(protocols=BOTH)
    story.new_member(protocols=BOTH[::-1])
    story.new_member(protocols=BOTH[::-1])
    while first.is_parked:
        story.advance(DELAY_MS)
    assert first.answer.protocol_name == "roundrobin"
    assert [row.metadata for row in first.answer.members] == [b"rr"] * 3


def test_protocol_that_one_does_not_support_is_not_chosen() -> None:
    story = Story()
    _, first = story.new_member(protocols=BOTH[::-1])
    story.new_member(protocols=BOTH[::-1])
    story.new_member(protocols=RANGE)
    while first.is_parked:
        story.advance(DELAY_MS)
    assert first.answer.protocol_name == "range"


def test_protocol_that_is_named_twice_counts_once() -> None:
    story = Story()
    _, first = story.new_member(protocols=RANGE + RANGE)
    story.new_member()
    while first.is_parked:
        story.advance(DELAY_MS)
    assert first.answer.protocol_name == "range"


def test_protocols_of_members_that_left_do_not_count() -> None:
    story = Story()
    first, second = story.stable(None, None)
    story.leave(second)
    told = story.join(protocols=ROUND_ROBIN)
    assert told.code is ErrorCode.inconsistent_group_protocol
    story.join(first, protocols=BOTH)
    assert story.join(protocols=ROUND_ROBIN).code is ErrorCode.member_id_required


def test_names_of_protocols_of_members_that_left_are_forgotten() -> None:
    story = Story()
    story.new_member()
    other, _ = story.new_member(protocols=BOTH)
    story.leave(other)
    assert story.group._supporters == {"range": 1}


# Sizes


def test_group_takes_no_more_members_than_its_size() -> None:
    story = Story(group_max_size=2)
    first, _ = story.stable(None, None)
    refused = story.join()
    assert refused.code is ErrorCode.group_max_size_reached
    assert refused.answer.member_id == ""
    assert story.is_in(STABLE)
    assert story.join(first).is_parked, "the leader may come again"


def test_ids_that_were_handed_out_compete_for_the_last_place() -> None:
    story = Story(group_max_size=2)
    ids = [story.join().answer.member_id for _ in range(3)]
    assert story.join(ids[0]).is_parked
    assert story.join(ids[1]).is_parked
    assert story.join(ids[1]).is_parked, "it waits already"
    assert story.join(ids[2]).code is ErrorCode.group_max_size_reached
    assert story.group.pending_joins == set()


def test_refused_member_is_not_waited_for() -> None:
    story = Story(group_max_size=2)
    first, second = story.stable(None, None)
    story.leave(second)
    second, third = (story.join().answer.member_id for _ in range(2))
    joined = [story.join(first), story.join(second)]
    assert joined[0].is_parked
    assert story.join(third).code is ErrorCode.group_max_size_reached
    assert [one.answer.generation_id for one in joined] == [2, 2]


def test_refused_member_does_not_end_the_initial_delay() -> None:
    story = Story(group_max_size=1)
    ids = [story.join().answer.member_id for _ in range(2)]
    first = story.join(ids[0])
    assert story.join(ids[1]).code is ErrorCode.group_max_size_reached
    assert first.is_parked


# Members that come again


def test_follower_with_the_same_metadata_gets_the_generation() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(second)
    assert again.answer.generation_id == 1
    assert again.answer.leader == first
    assert again.answer.members == ()
    assert story.is_in(STABLE)


def test_follower_with_other_metadata_rebalances() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(second, protocols=(MemberProtocol("range", b"other"),))
    assert story.is_in(PREPARING_REBALANCE)
    assert again.is_parked
    leader = story.join(first)
    assert [row.metadata for row in leader.answer.members] == [b"r", b"other"]


def test_leader_that_comes_again_rebalances() -> None:
    story = Story()
    first, second = story.stable(None, None)
    again = story.join(first)
    assert again.is_parked
    assert story.heartbeat(second) is ErrorCode.rebalance_in_progress
    story.join(second)
    assert again.answer.generation_id == 2


def test_answer_that_was_lost_is_given_again() -> None:
    story = Story()
    first, joined = story.new_member()
    second, _ = story.new_member()
    while joined.is_parked:
        story.advance(DELAY_MS)
    assert story.is_in(COMPLETING_REBALANCE)
    leader, follower = story.join(first), story.join(second)
    assert leader.answer == joined.answer
    assert (follower.answer.generation_id, follower.answer.members) == (1, ())
    assert story.is_in(COMPLETING_REBALANCE)


def test_other_metadata_while_assignments_are_awaited_rebalances() -> None:
    story = Story()
    _, joined = story.new_member()
    second, _ = story.new_member()
    while joined.is_parked:
        story.advance(DELAY_MS)
    synced = story.sync(second)
    again = story.join(second, protocols=BOTH)
    assert story.is_in(PREPARING_REBALANCE)
    assert synced.code is ErrorCode.rebalance_in_progress
    assert again.is_parked


def test_join_that_is_sent_again_takes_the_place_of_the_parked_one() -> None:
    story = Story()
    first, second = story.stable(None, None)
    given_up = story.join(first)
    again = story.join(first)
    assert given_up.code is ErrorCode.rebalance_in_progress
    assert given_up.answer.member_id == first
    story.join(second)
    assert again.answer.generation_id == 2


def test_timeouts_of_the_last_join_hold() -> None:
    story = Story()
    (first,) = story.stable(None)
    story.join(first, session_timeout_ms=1_000, rebalance_timeout_ms=2_000)
    member = story.group.members[first]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (1_000, 2_000)
    story.advance(999)
    assert first in story.group.members
    story.advance(1)
    assert first not in story.group.members


def test_new_member_is_not_waited_for_longer_than_five_minutes() -> None:
    story = Story()
    (first,) = story.stable(None)
    story.join(first, rebalance_timeout_ms=10 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    story.sync(first, 2, first)
    _, joined = story.new_member()
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000 - 1):
        story.advance(5_000)
        assert story.heartbeat(first, 2) is ErrorCode.rebalance_in_progress
        assert joined.is_parked
    story.advance(5_000)
    assert joined.code is ErrorCode.unknown_member_id
    assert joined.answer.member_id == ""


# What any broker refuses


def asked(**properties: Any) -> ErrorCode | None:
    request = Join(
        group_id="g",
        member_id="",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=REBALANCE_MS,
        protocol_type="consumer",
        protocols=RANGE,
    )
    return refusal(ClassicSettings(), replace(request, **properties))


def test_group_id_is_not_empty() -> None:
    assert asked() is None
    assert asked(group_id="") is ErrorCode.invalid_group_id


@pytest.mark.parametrize(
    ("session_timeout_ms", "code"),
    [
        (5_999, ErrorCode.invalid_session_timeout),
        (6_000, None),
        (1_800_000, None),
        (1_800_001, ErrorCode.invalid_session_timeout),
    ],
)
def test_session_timeout_has_bounds(session_timeout_ms: int, code: ErrorCode | None) -> None:
    assert asked(session_timeout_ms=session_timeout_ms) is code


@pytest.mark.parametrize("name", ["group_id", "client_id", "group_instance_id", "protocol_type"])
def test_texts_fit_a_record(name: str) -> None:
    longest = 32_767 - 37
    assert asked(**{name: "x" * longest}) is None
    assert asked(**{name: "x" * (longest + 1)}) is ErrorCode.unknown_server_error
    assert asked(**{name: "\u00e9" * (longest // 2 + 1)}) is ErrorCode.unknown_server_error


def test_names_of_protocols_fit_a_record() -> None:
    for name, code in (("x" * 32_730, None), ("x" * 32_731, ErrorCode.unknown_server_error)):
        assert asked(protocols=(*RANGE, MemberProtocol(name, b""))) is code


def test_longest_texts_are_written() -> None:
    story = Story()
    longest = "x" * (32_767 - 37)
    joined = story.join(group_instance_id=longest, client_id=longest, protocol_type=longest)
    story.advance(DELAY_MS)
    member_id = "x" * (32_767 - 37) + "-" + "0" * 36
    story.group.replace_static(longest, member_id)
    assert joined.answer.member_id.startswith(longest)
    record = group_record(story.group)
    assert decode(GROUP_KINDS, *encode(record)) == record
