"""The member of KIP-848 as a machine: what it wants, whatever it is told."""

from uuid import UUID

import msgspec
import pytest

from cli.groups.membership.actions import (
    Assign,
    Beaten,
    ConsumerHeartbeat,
    GroupConfig,
    Lose,
    MemberError,
    NameTopics,
    Revoke,
)
from cli.groups.membership.consumer import ConsumerMember
from cli.records.clients.topic_metadata import Partition

CONFIG = GroupConfig(group_id="g", is_consumer_protocol=True)
TOPICS = ("t", "u")
T, U = UUID(int=1), UUID(int=2)
NAMES = {T: "t", U: "u"}
OLD = frozenset({(T, 0), (T, 1)})
NEW = frozenset({(T, 1), (U, 0)})
PLAIN = ConsumerHeartbeat(member_id="me", epoch=3, is_whole=False, topics=None, owned=None)
changed = msgspec.structs.replace


def answer(**fields: object) -> Beaten:
    return Beaten(**{"member_id": "me", "epoch": 3, "interval_ms": 5000, **fields})


def shown(*partitions: tuple[str, int]) -> frozenset[Partition]:
    return frozenset(Partition(*partition) for partition in partitions)


def first(config: GroupConfig = CONFIG) -> ConsumerMember:
    return ConsumerMember(config, TOPICS, "me")


def with_old(config: GroupConfig = CONFIG) -> ConsumerMember:
    """A member at time 1000 that has OLD and has told so, its next heartbeat at 6000."""
    made = first(config)
    made.named(NAMES)
    made.beaten(answer(assigned=OLD), 1000)
    assert made.next(1000) == Assign(shown(("t", 0), ("t", 1)))
    assert made.next(1000) == changed(PLAIN, owned=OLD)
    made.beaten(answer(), 1000)
    assert made.due_ms() == 6000
    return made


def test_the_first_heartbeat_has_everything() -> None:
    made = first()
    assert (made.member_id, made.generation, made.due_ms()) == ("me", 0, 0)
    whole = ConsumerHeartbeat(
        member_id="me", epoch=0, is_whole=True, topics=TOPICS, owned=frozenset()
    )
    assert made.next(0) == whole
    made.beaten(answer(epoch=2), 100)
    assert made.generation == 2
    assert made.next(5099) is None
    assert made.next(5100) == changed(PLAIN, epoch=2)


def test_topics_are_named_before_they_are_taken() -> None:
    made = first()
    made.beaten(answer(assigned=NEW), 1000)
    assert made.due_ms() == 0
    assert made.next(1000) == NameTopics(frozenset({T, U}))
    assert made.due_ms() == 1100
    assert made.next(1099) is None
    assert made.next(1100) == NameTopics(frozenset({T, U}))
    made.named({T: "t"})
    assert made.next(1100) == Assign(shown(("t", 1)))
    assert made.next(1100) == changed(PLAIN, owned=frozenset({(T, 1)}))
    made.beaten(answer(), 1150)
    assert made.next(1200) == NameTopics(frozenset({U}))
    made.named({U: "u"})
    assert made.due_ms() == 0
    assert made.next(1200) == Assign(shown(("u", 0)))


def test_what_is_not_assigned_any_more_is_revoked_first() -> None:
    made = with_old()
    made.beaten(answer(epoch=4, assigned=NEW), 2000)
    assert made.due_ms() == 0
    assert made.next(2000) == Revoke(shown(("t", 0)))
    assert made.next(2000) == Assign(shown(("u", 0)))
    assert made.next(2000) == changed(PLAIN, epoch=4, owned=NEW)
    made.beaten(answer(epoch=4), 2000)
    assert made.next(6999) is None
    assert made.next(7000) == changed(PLAIN, epoch=4)


def test_less_is_only_revoked() -> None:
    made = with_old()
    made.beaten(answer(assigned=frozenset({(T, 0)})), 2000)
    assert made.next(2000) == Revoke(shown(("t", 1)))
    assert made.next(2000) == changed(PLAIN, owned=frozenset({(T, 0)}))


def test_the_same_assigned_anew_is_told_once() -> None:
    made = with_old()
    made.beaten(answer(assigned=OLD), 2000)
    assert made.next(2000) == changed(PLAIN, owned=OLD)
    made.beaten(answer(), 2000)
    assert made.next(6999) is None


@pytest.mark.parametrize("code", [25, 110])
def test_a_fenced_member_loses_everything_and_joins(code: int) -> None:
    made = with_old()
    made.beaten(Beaten(code=code), 2000)
    assert made.next(2000) == Lose(shown(("t", 0), ("t", 1)))
    assert made.generation == 0
    whole = ConsumerHeartbeat(
        member_id="me", epoch=0, is_whole=True, topics=TOPICS, owned=frozenset()
    )
    assert made.next(2000) == whole


def test_a_fenced_member_without_partitions_only_joins() -> None:
    made = first()
    made.beaten(answer(), 0)
    made.beaten(Beaten(code=110), 10)
    action = made.next(10)
    assert isinstance(action, ConsumerHeartbeat)
    assert action.epoch == 0


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_heartbeat_that_is_refused_for_now_is_sent_whole(code: int) -> None:
    made = with_old()
    made.beaten(Beaten(code=code), 6000)
    assert made.next(6099) is None
    assert made.next(6100) == changed(PLAIN, is_whole=True, topics=TOPICS, owned=OLD)


def test_so_is_one_whose_connection_broke() -> None:
    made = with_old()
    made.failed(6000)
    assert made.next(6099) is None
    assert made.next(6100) == changed(PLAIN, is_whole=True, topics=TOPICS, owned=OLD)


@pytest.mark.parametrize("code", [24, 30, 35, 42, 81, 111, 112])
def test_refusals_that_end_it(code: int) -> None:
    with pytest.raises(MemberError, match="why") as refused:
        first().beaten(Beaten(code=code, message="why"), 0)
    assert refused.value.code == code


def test_other_topics_are_told_at_once() -> None:
    made = with_old()
    made.subscribe(TOPICS, 2000)
    assert made.due_ms() == 6000
    made.subscribe(("v",), 2000)
    assert made.next(2000) == changed(PLAIN, topics=("v",))
    made.beaten(answer(), 2000)
    assert made.next(7000) == PLAIN


def test_it_leaves_with_an_epoch_that_says_so() -> None:
    assert first().leave() is None
    assert with_old().leave() == changed(PLAIN, epoch=-1)
    static = changed(CONFIG, group_instance_id="i")
    assert with_old(static).leave() == changed(PLAIN, epoch=-2)
