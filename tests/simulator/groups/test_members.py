"""Members as machines: what they ask, and what they do behind each answer."""

from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest

from coordinator.group.consumer.client_protocol import (
    assignment_bytes,
    assignment_of,
    subscription_of,
)
from simulator.checks.violation import Violation
from simulator.groups.bodies import Membership, subscription_bytes
from simulator.groups.classic_member import ClassicMember
from simulator.groups.consumer_member import ConsumerMember
from simulator.groups.next_step import Next
from wire.api_keys import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from wire.errors import ErrorCode

OF = Membership("g", "t", 2_000, 3_000)
STATIC = OF._replace(instance_id="i")
TOPIC_ID = UUID(int=7)


def answer(code=ErrorCode.none, **fields):
    return SimpleNamespace(error_code=code, **fields)


def joined(member_id="m", leader="m", generation=1, members=("m",), *, skips=False):
    rows = tuple(SimpleNamespace(member_id=each) for each in members)
    return answer(
        member_id=member_id,
        leader=leader,
        generation_id=generation,
        members=rows,
        skip_assignment=skips,
    )


def synced(*partitions):
    return answer(assignment=assignment_bytes({"t": partitions}, 0))


def classic(membership=OF, *partitions):
    """A member that has its assignment."""
    member = ClassicMember(membership, 3)
    member.answered(joined())
    member.answered(synced(*partitions))
    return member


def test_a_subscription_is_that_of_a_client_that_owns_nothing():
    found = subscription_of(subscription_bytes("t"))
    assert (found.version, found.topics, found.owned) == (1, ("t",), {})


def test_a_classic_member_joins_syncs_and_beats():
    member = ClassicMember(OF, 3)
    key, body = member.request()
    assert (key, body.member_id, body.group_id) == (JOIN_GROUP, "", "g")
    assert (body.session_timeout, body.rebalance_timeout) == (
        timedelta(seconds=2), timedelta(seconds=3),
    )  # fmt: skip
    assert member.answered(answer(ErrorCode.member_id_required, member_id="m")) is Next.GO_ON
    assert member.request().body.member_id == "m"
    assert member.answered(joined(members=("n", "m"))) is Next.GO_ON
    assert (member.granted, member.is_stable) == (None, False)
    key, body = member.request()
    given = {row.member_id: assignment_of(row.assignment)[0] for row in body.assignments}
    assert (key, given) == (SYNC_GROUP, {"m": {"t": (0, 2)}, "n": {"t": (1,)}})
    assert member.answered(synced(0, 2)) is Next.REST
    assert (member.owned, member.granted, member.is_stable) == ({0, 2}, {0, 2}, True)
    assert member.committer == ("g", "m", 1, None)
    key, body = member.request()
    assert (key, body.generation_id, body.member_id) == (HEARTBEAT, 1, "m")
    assert member.answered(answer()) is Next.REST
    assert member.leave_request().api_key == LEAVE_GROUP


@pytest.mark.parametrize("response", [joined(leader="n"), joined(skips=True)])
def test_only_a_leader_that_is_to_assigns(response):
    member = ClassicMember(OF, 3)
    member.answered(response)
    assert member.request().body.assignments == ()


def test_a_member_that_is_to_join_again_gives_up_all_before():
    member = classic(OF, 0, 1)
    assert member.answered(answer(ErrorCode.rebalance_in_progress)) is Next.GO_ON
    assert (member.revoking, member.owned, member.granted) == ({0, 1}, {0, 1}, None)
    member.revoked()
    assert (member.revoking, member.owned) == (frozenset(), frozenset())
    assert member.request().body.member_id == "m"
    assert member.answered(answer(ErrorCode.rebalance_in_progress)) is Next.RETRY


@pytest.mark.parametrize(
    ("code", "step", "member_id"),
    [
        (ErrorCode.unknown_member_id, Next.RETRY, ""),
        (ErrorCode.inconsistent_group_protocol, Next.RETRY, ""),
        (ErrorCode.illegal_generation, Next.RETRY, "m"),
        (ErrorCode.fenced_instance_id, Next.DEAD, "m"),
    ],
)
def test_a_classic_member_that_is_none_owns_nothing(code, step, member_id):
    member = classic(STATIC, 0)
    assert member.answered(answer(code)) is step
    assert (member.owned, member.member_id) == (frozenset(), member_id)
    if step is Next.RETRY:
        assert member.request().api_key == JOIN_GROUP


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (ErrorCode.not_coordinator, Next.FIND),
        (ErrorCode.coordinator_not_available, Next.FIND),
        (ErrorCode.coordinator_load_in_progress, Next.RETRY),
    ],
)
def test_a_member_stays_one_while_its_coordinator_is_away(code, step):
    member = classic(OF, 0)
    assert member.answered(answer(code)) is step
    assert (member.owned, member.request().api_key) == ({0}, HEARTBEAT)
    consumer = consuming(0)
    assert consumer.answered(answer(code)) is step
    assert (consumer.owned, consumer.epoch) == ({0}, 5)


def test_without_an_answer_a_classic_member_joins_again_or_goes_on():
    member = classic(OF, 0)
    assert member.answered(None) is Next.FIND
    assert member.request().api_key == HEARTBEAT
    member = ClassicMember(OF, 3)
    member.answered(joined())
    assert member.answered(None) is Next.FIND
    assert member.request().api_key == JOIN_GROUP


def test_what_no_member_is_told_is_a_violation():
    for member in (classic(OF, 0), consuming(0)):
        with pytest.raises(Violation, match="group g, member 'm': invalid_request"):
            member.answered(answer(ErrorCode.invalid_request))


# ---- the protocol of KIP-848 -----------------------------------------------------------------


def beaten(epoch, *partitions, is_told=True):
    rows = (SimpleNamespace(topic_id=TOPIC_ID, partitions=partitions),)
    assignment = SimpleNamespace(topic_partitions=rows) if is_told else None
    return answer(member_epoch=epoch, assignment=assignment)


def consuming(*partitions, membership=OF):
    """A member in epoch 5, which has said what it owns."""
    member = ConsumerMember(membership, TOPIC_ID, "m")
    member.request()
    member.answered(beaten(5, *partitions))
    member.request()
    member.answered(beaten(5, is_told=False))
    return member


def owned_of(request):
    rows = request.body.topic_partitions
    return None if rows is None else [tuple(row.partitions) for row in rows]


def test_a_consumer_says_all_when_it_joins_and_news_alone_later():
    member = ConsumerMember(STATIC, TOPIC_ID, "m")
    request = member.request()
    body = request.body
    assert (body.member_epoch, body.instance_id, body.subscribed_topic_names) == (0, "i", ("t",))
    assert (owned_of(request), member.granted) == ([], None)
    assert member.answered(beaten(5, 0, 1)) is Next.GO_ON
    assert (member.owned, member.granted, member.is_stable) == ({0, 1}, {0, 1}, True)
    request = member.request()
    assert (owned_of(request), request.body.subscribed_topic_names) == ([(0, 1)], None)
    assert member.answered(beaten(5, is_told=False)) is Next.REST
    assert owned_of(member.request()) is None
    assert member.answered(beaten(5, 0, 1)) is Next.REST


def test_a_consumer_gives_up_before_it_takes():
    member = consuming(0, 1)
    assert member.answered(beaten(5, 1, 2)) is Next.GO_ON
    assert (member.revoking, member.owned, member.granted) == ({0}, {0, 1}, {1, 2})
    assert not member.is_stable
    member.revoked()
    assert (member.revoking, member.owned, member.is_stable) == (frozenset(), {1, 2}, True)
    assert owned_of(member.request()) == [(1, 2)]


def test_without_an_answer_a_consumer_says_all_again():
    member = consuming(0)
    assert member.answered(None) is Next.FIND
    request = member.request()
    assert (request.body.member_epoch, owned_of(request)) == (5, [(0,)])
    assert request.body.rebalance_timeout == timedelta(seconds=3)


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (ErrorCode.unknown_member_id, Next.RETRY),
        (ErrorCode.fenced_member_epoch, Next.RETRY),
        (ErrorCode.unreleased_instance_id, Next.RETRY),
        (ErrorCode.group_id_not_found, Next.RETRY),
        (ErrorCode.unsupported_version, Next.RETRY),
        (ErrorCode.fenced_instance_id, Next.DEAD),
    ],
)
def test_a_consumer_that_is_no_member_owns_nothing(code, step):
    member = consuming(0)
    assert member.answered(answer(code)) is step
    assert (member.owned, member.granted, member.epoch) == (frozenset(), None, 0)


def test_a_static_consumer_leaves_for_a_while():
    assert consuming(0).leave_request().body.member_epoch == -1
    assert consuming(0, membership=STATIC).leave_request().body.member_epoch == -2
