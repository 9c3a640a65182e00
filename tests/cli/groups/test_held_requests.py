"""JoinGroup and SyncGroup that the coordinator holds: polls end in time, and so do they."""

import pytest

from cli.groups.membership.actions import RETRY_BACKOFF_MS, GroupConfig
from cli.groups.membership.coordinator_link import PATIENCE_MS
from cli.groups.membership.group_consumer import Subscription
from cli.records.partition_rules import topic_pattern
from tests.cli.groups.group_broker import FIND_COORDINATOR
from tests.cli.groups.member_broker import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, MemberBroker
from tests.cli.groups.test_group_consumer import (
    CLASSIC,
    FROM_START,
    THREE,
    Reader,
    broker,
    changed,
)
from tests.cli.records.broker import Log, Topic

SHORT = changed(CLASSIC, max_poll_interval_ms=9_000)
HASTY = changed(CLASSIC, request_timeout_ms=2_000)
PATIENT = changed(CLASSIC, request_timeout_ms=400_000)
BEAT_MS = CLASSIC.heartbeat_interval_ms


def begun(made: MemberBroker) -> list[bool]:
    """Of each held request, whether its connection is closed."""
    return [each.is_closed for each in made.begun]


def test_a_poll_ends_in_time_while_the_group_waits_for_others() -> None:
    reader = Reader(broker(), CLASSIC)
    reader.broker.held_ms = {JOIN_GROUP: 200_000}
    for at_ms in (0, 1000, 2000):
        assert reader.poll(1000 if at_ms else 0) == []
        assert (reader.broker.clock.at_ms, begun(reader.broker)) == (at_ms, [False])
    assert reader.poll(198_000) == []
    assert (reader.broker.clock.at_ms, begun(reader.broker)) == (200_000, [True])
    reader.broker.held_ms = {}
    assert reader.poll(1000) == THREE
    assert begun(reader.broker) == [True] * 3, "without an id, with it, and SyncGroup"


@pytest.mark.parametrize(
    ("config", "api_key", "limit_ms"),
    [
        (CLASSIC, JOIN_GROUP, 305_000),
        (SHORT, JOIN_GROUP, 30_000),
        (HASTY, JOIN_GROUP, 305_000),
        (PATIENT, JOIN_GROUP, 400_000),
        (CLASSIC, SYNC_GROUP, 30_000),
        (HASTY, SYNC_GROUP, 2_000),
    ],
)
def test_the_answer_is_waited_for_so_long(config: GroupConfig, api_key: int, limit_ms: int) -> None:
    """To JoinGroup for the rebalance timeout and some seconds, or a request timeout."""
    for late_ms in (0, 1):
        reader = Reader(broker(), config)
        reader.broker.held_ms = {api_key: limit_ms + late_ms}
        assert reader.poll(limit_ms) == []
        assert len(reader.broker.asked_for(api_key)) == 1 - late_ms
        reader.broker.held_ms = {}
        assert reader.poll(1000) == THREE
        assert len(reader.broker.asked_for(FIND_COORDINATOR)) == 1 + late_ms
        assert all(begun(reader.broker))


def test_a_long_poll_tries_again_as_soon_as_one_is_given_up() -> None:
    reader = Reader(broker(), SHORT)
    reader.broker.held_ms = {JOIN_GROUP: 100_000}
    reader.poll(30_200)
    assert begun(reader.broker) == [True, False]
    reader.broker.clock.at_ms = 70_000
    reader.poll(0)
    assert (reader.broker.clock.at_ms, begun(reader.broker)) == (70_000, [True, True])


def test_a_coordinator_that_moved_is_found_again() -> None:
    for api_key in (JOIN_GROUP, SYNC_GROUP):
        reader = Reader(broker(), CLASSIC)
        reader.broker.errors = [(api_key, 16)]
        assert reader.poll(1000) == THREE
        assert len(reader.broker.asked_for(FIND_COORDINATOR)) == 2


@pytest.mark.parametrize("api_key", [JOIN_GROUP, SYNC_GROUP])
def test_who_closes_meanwhile_leaves_at_once(api_key: int) -> None:
    reader = Reader(broker(), CLASSIC)
    reader.poll()
    reader.broker.errors = [(HEARTBEAT, 27)]
    reader.broker.held_ms = {api_key: 60_000}
    reader.poll(3500)
    assert begun(reader.broker)[-1:] == [False]
    reader.consumer.close()
    assert (reader.broker.clock.at_ms, reader.broker.left) == (3500, ["me"])
    assert all(begun(reader.broker))


def test_a_connection_that_breaks_meanwhile_is_made_again() -> None:
    reader = Reader(broker(), CLASSIC)
    reader.broker.refused = [JOIN_GROUP]
    assert reader.poll() == THREE
    assert reader.broker.clock.at_ms == RETRY_BACKOFF_MS
    assert len(reader.broker.asked_for(FIND_COORDINATOR)) == 2
    assert all(begun(reader.broker))


def test_new_topics_are_joined_for_behind_the_answer() -> None:
    made = broker()
    reader = Reader(made, CLASSIC, FROM_START, Subscription(None, topic_pattern("t.*")))
    made.held_ms = {JOIN_GROUP: CLASSIC.metadata_max_age_ms + 1}
    made.topics["t2"] = Topic("t2", [Log()])
    reader.poll(CLASSIC.metadata_max_age_ms)
    made.held_ms = {}
    reader.poll(2000)
    assert reader.told[-1] == ["t-0", "t-1", "t2-0"]


def beats(made: MemberBroker) -> int:
    return len(made.asked_for(HEARTBEAT))


def waiting(held_ms: int = 20_000, api_key: int = SYNC_GROUP) -> Reader:
    """A member whose request is held from time 0 on."""
    reader = Reader(broker(), CLASSIC)
    reader.broker.held_ms = {api_key: held_ms}
    assert reader.poll(0) == []
    return reader


def test_heartbeats_go_on_beside_sync_group_and_none_beside_join_group() -> None:
    reader = waiting(3 * BEAT_MS + 1)
    for number in (1, 2, 3):
        reader.broker.clock.at_ms = number * BEAT_MS - 1
        reader.poll(0)
        assert beats(reader.broker) == number - 1
        reader.broker.clock.at_ms += 1
        reader.poll(0)
        assert beats(reader.broker) == number
    assert reader.broker.asked_for(HEARTBEAT)[0].generation_id == 1
    assert reader.poll(1000) == THREE
    assert len(reader.broker.asked_for(SYNC_GROUP)) == 1
    joining = waiting(api_key=JOIN_GROUP)
    joining.poll(19_000)
    assert beats(joining.broker) == 0


def test_one_long_poll_wakes_for_each_heartbeat() -> None:
    reader = waiting()
    assert reader.poll(20_000) == []
    assert beats(reader.broker) == 20_000 // BEAT_MS
    assert reader.poll(100) == THREE


@pytest.mark.parametrize("code", [14, 15, 16, 27])
def test_the_answer_to_sync_group_says_what_a_heartbeat_beside_it_says(code: int) -> None:
    reader = waiting()
    reader.broker.errors = [(HEARTBEAT, code)]
    reader.poll(2 * BEAT_MS + 1)
    assert beats(reader.broker) == 2
    assert begun(reader.broker)[-1] is False
    assert reader.poll(20_000) == THREE
    assert len(reader.broker.asked_for(JOIN_GROUP)) == 2, "without an id, and with it"


@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_who_is_forgotten_meanwhile_waits_no_longer(code: int, member_id: str) -> None:
    reader = waiting()
    reader.broker.errors = [(HEARTBEAT, code)]
    reader.poll(BEAT_MS)
    reader.broker.held_ms = {}
    assert reader.poll(500) == THREE
    assert reader.broker.asked_for(JOIN_GROUP)[2].member_id == member_id
    assert all(begun(reader.broker))


def test_a_heartbeat_that_reaches_nobody_is_tried_again_and_sync_group_waits_on() -> None:
    reader = waiting()
    reader.broker.refused = [HEARTBEAT]
    reader.poll(BEAT_MS + RETRY_BACKOFF_MS)
    assert beats(reader.broker) == 0
    reader.poll(0)
    assert (beats(reader.broker), begun(reader.broker)[-1]) == (1, False)
    assert len(reader.broker.asked_for(FIND_COORDINATOR)) == 2
    assert reader.poll(20_000) == THREE


def test_of_heartbeats_that_reach_nobody_for_long_is_told() -> None:
    reader = waiting()
    reader.broker.refused = [HEARTBEAT] * 99
    reader.poll(BEAT_MS + PATIENCE_MS)
    assert reader.told == []
    reader.poll(RETRY_BACKOFF_MS)
    assert reader.told == ["No coordinator of group g yet: h:1: Connection refused"]
