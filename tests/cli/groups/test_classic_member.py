"""The member of the classic protocol as a machine: what it wants, whatever it is told."""

import msgspec
import pytest

from cli.groups.membership.actions import (
    Assign,
    GroupConfig,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LookUp,
    Lose,
    MemberError,
    Revoke,
    Sync,
)
from cli.groups.membership.classic import ClassicMember
from cli.records.clients.topic_metadata import Partition

CONFIG = GroupConfig(group_id="g")
TOPICS = ("t",)
FIRST = frozenset({Partition("t", 0), Partition("t", 1)})
LED = Joined(member_id="me", generation=1, protocol="range", leader="me",
             subscriptions={"me": (None, ("t",)), "you": (None, ("t", "u"))})  # fmt: skip
FOLLOWED = Joined(member_id="me", generation=4, protocol="range", leader="you")


def member(config: GroupConfig = CONFIG) -> ClassicMember:
    return ClassicMember(config, TOPICS)


def stable(answer: Joined = FOLLOWED, config: GroupConfig = CONFIG) -> ClassicMember:
    """A member at time 1000 that has FIRST, its next heartbeat at 4000."""
    made = member(config)
    assert made.next(1000) == Join("", TOPICS)
    made.joined(answer, 1000)
    action = made.next(1000)
    if isinstance(action, LookUp):
        made.looked_up({"t": 2, "u": 1})
        action = made.next(1000)
    assert isinstance(action, Sync)
    made.synced(0, FIRST, 1000)
    assert made.due_ms() == 0
    assert made.next(1000) == Assign(FIRST)
    assert made.due_ms() == 4000
    return made


def test_a_member_gets_its_id_and_joins_with_it() -> None:
    made = member()
    assert (made.member_id, made.generation) == ("", -1)
    assert made.due_ms() == 0
    assert made.next(0) == Join("", TOPICS)
    made.joined(Joined(code=79, member_id="me"), 0)
    assert made.next(0) == Join("me", TOPICS)
    made.joined(FOLLOWED, 0)
    assert made.next(0) == Sync("me", 4, "range", {})
    assert (made.member_id, made.generation) == ("me", 4)


def test_a_leader_looks_topics_of_all_up_and_assigns_them() -> None:
    made = member()
    made.joined(LED, 0)
    assert made.next(0) == LookUp(("t", "u"))
    made.looked_up({"t": 3})
    expected = {"me": {"t": (0, 1)}, "you": {"t": (2,)}}
    assert made.next(0) == Sync("me", 1, "range", expected)
    assert made.topics_of_group() == {"t", "u"}
    assert stable().topics_of_group() == frozenset()


def test_heartbeats_come_at_their_interval() -> None:
    made = stable()
    assert made.next(3999) is None
    assert made.next(4000) == Heartbeat("me", 4)
    made.beaten(0, 4010)
    assert made.next(7009) is None
    assert made.next(7010) == Heartbeat("me", 4)


def test_heartbeats_beside_sync_group_are_of_a_member_that_has_joined() -> None:
    made = member()
    assert (made.beat_ms(), made.beat(9000)) == (None, None)
    made.joined(FOLLOWED, 1000)
    assert (made.beat_ms(), made.beat(3999)) == (4000, None)
    assert made.beat(4000) == Heartbeat("me", 4)
    made.unheard(4000)
    assert (made.beat_ms(), made.beat(4099)) == (4100, None)
    made.beaten(0, 4200)
    assert made.beat_ms() == 7200
    assert made.next(4200) == Sync("me", 4, "range", {}), "no beat puts it off"
    made.synced(0, FIRST, 4300)
    assert (made.beat_ms(), made.beat(9000)) == (None, None)
    fenced = member()
    fenced.joined(FOLLOWED, 1000)
    with pytest.raises(MemberError):
        fenced.beaten(82, 4000)


def test_a_rebalance_revokes_everything_and_joins_with_the_same_id() -> None:
    made = stable()
    assert made.next(4000) == Heartbeat("me", 4)
    made.beaten(27, 4000)
    assert made.next(4000) == Revoke(FIRST)
    assert made.generation == 4
    assert made.next(4000) == Join("me", TOPICS)


def test_without_partitions_nothing_is_revoked() -> None:
    made = member()
    made.joined(FOLLOWED, 0)
    made.synced(0, frozenset(), 0)
    assert made.next(0) == Assign(frozenset())
    made.beaten(27, 0)
    assert made.next(0) == Join("me", TOPICS)


@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_a_member_that_is_forgotten_loses_its_partitions(code: int, member_id: str) -> None:
    made = stable()
    made.beaten(code, 5000)
    assert made.due_ms() == 0
    assert made.next(5000) == Lose(FIRST)
    assert made.generation == -1
    assert made.next(5000) == Join(member_id, TOPICS)


def test_a_member_that_is_forgotten_without_partitions_only_joins() -> None:
    made = member()
    made.joined(FOLLOWED, 0)
    made.synced(25, frozenset(), 5)
    assert made.next(5) == Join("", TOPICS)


@pytest.mark.parametrize("code", [14, 15, 16])
def test_what_is_refused_for_now_is_sent_again(code: int) -> None:
    made = member()
    made.joined(Joined(code=code), 1000)
    assert made.due_ms() == 1100
    assert made.next(1099) is None
    assert made.next(1100) == Join("", TOPICS)
    made.joined(FOLLOWED, 1100)
    made.synced(code, frozenset(), 1100)
    assert made.next(1199) is None
    assert made.next(1200) == Sync("me", 4, "range", {})
    kept = stable()
    kept.beaten(code, 4000)
    assert kept.next(4099) is None
    assert kept.next(4100) == Heartbeat("me", 4)


def test_a_connection_that_broke_is_tried_again_a_little_later() -> None:
    made = stable()
    made.failed(4000)
    assert made.next(4099) is None
    assert made.next(4100) == Heartbeat("me", 4)


def test_a_rebalance_goes_on_while_joining_and_syncing() -> None:
    made = member()
    made.joined(Joined(code=27), 0)
    assert made.next(99) is None
    assert made.next(100) == Join("", TOPICS)
    made.joined(FOLLOWED, 100)
    made.synced(27, frozenset(), 100)
    assert made.next(100) == Join("me", TOPICS)


@pytest.mark.parametrize("code", [23, 24, 26, 30, 81, 82])
def test_refusals_that_end_it(code: int) -> None:
    with pytest.raises(MemberError) as refused:
        member().joined(Joined(code=code), 0)
    assert refused.value.code == code
    with pytest.raises(MemberError):
        stable().beaten(code, 0)
    with pytest.raises(MemberError):
        stable().synced(code, frozenset(), 0)


def test_other_topics_make_it_join_again() -> None:
    made = stable()
    made.subscribe(TOPICS, 2000)
    assert made.due_ms() == 4000
    made.subscribe(("t", "v"), 2000)
    assert made.due_ms() == 2000
    assert made.next(2000) == Revoke(FIRST)
    assert made.next(2000) == Join("me", ("t", "v"))


def test_a_leader_notices_new_partitions() -> None:
    made = stable(LED)
    made.noticed({"t": 2, "u": 1}.get, 2000)
    assert made.due_ms() == 4000
    made.noticed({"t": 3, "u": 1}.get, 2000)
    assert made.next(2000) == Revoke(FIRST)
    gone = stable(LED)
    gone.noticed({"t": 2}.get, 2000)
    assert gone.next(2000) == Revoke(FIRST)


def test_a_follower_and_a_leader_on_its_way_do_not_care_for_new_partitions() -> None:
    made = stable()
    made.noticed({"t": 9}.get, 2000)
    assert made.due_ms() == 4000
    made = member()
    made.joined(LED, 0)
    made.noticed({"t": 9}.get, 2000)
    assert made.next(0) == LookUp(("t", "u"))


def test_each_generation_looks_up_anew() -> None:
    made = stable(LED)
    made.beaten(27, 2000)
    assert made.next(2000) == Revoke(FIRST)
    assert made.next(2000) == Join("me", TOPICS)
    made.joined(msgspec.structs.replace(LED, generation=2), 2000)
    assert made.next(2000) == LookUp(("t", "u"))


def test_it_leaves_unless_it_is_static_or_has_no_id() -> None:
    assert member().leave() is None
    assert stable().leave() == Leave("me")
    static = msgspec.structs.replace(CONFIG, group_instance_id="i")
    assert stable(config=static).leave() is None
