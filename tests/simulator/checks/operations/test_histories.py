"""Answers to the clients of a run as a history: a request sent twice may happen twice."""

import pytest

from jepsen.linearizability import check, parse_history
from kernel.serving.forwarding import _Forward
from network.peers import Failure
from simulator.checks.operations.histories import (
    FORWARDED_US_MAX,
    SENT_AGAIN_MAX,
    judge,
    judge_run,
    operations_of,
    refuted,
)
from simulator.cluster.requests import Operation
from tests.simulator.worlds import follower, quiet_world

ID, OTHER_ID = bytes([1]) * 16, bytes([2]) * 16


@pytest.fixture
def world():
    found = quiet_world(write_count=0)
    found.workload.history.clear()
    return found


def add(world, kind, called_us, outcome, topic_id=None, target=1):
    world.workload.history.append(
        Operation(
            client=1_000 + len(world.workload.history),
            kind=kind,
            name="topic-0",
            called_us=called_us,
            target=target,
            topic_id=topic_id,
            returned_us=called_us + 10,
            outcome=outcome,
        )
    )


def why_not(world, sent_again):
    image = world.invariants.ledger.image
    verdict, why = judge(operations_of(world.workload, image, 1_000_000, sent_again))
    assert verdict == ("ok" if why is None else "illegal")
    return why


def test_a_history_too_hard_to_judge_is_neither_right_nor_wrong(world):
    created_once_deleted_twice(world)
    image = world.invariants.ledger.image
    assert judge(operations_of(world.workload, image, 1_000, {}), 1) == ("unknown", None)


def created_once_deleted_twice(world):
    add(world, "create", 100, "info")
    add(world, "delete", 200, "ok", ID)
    add(world, "delete", 300, "ok", OTHER_ID)


def test_one_request_makes_one_topic(world):
    created_once_deleted_twice(world)
    assert why_not(world, {}) is not None


def test_an_unanswered_request_that_was_sent_again_may_make_two(world):
    created_once_deleted_twice(world)
    assert why_not(world, {1: [150]}) is None


@pytest.mark.parametrize("sent_again", [{2: [150]}, {1: [99]}, {1: [111 + FORWARDED_US_MAX]}])
def test_only_by_its_own_broker_and_while_that_has_it(world, sent_again):
    created_once_deleted_twice(world)
    assert why_not(world, sent_again) is not None


@pytest.mark.parametrize(("at_us", "is_right"), [(105, True), (150, False)])
def test_an_answered_request_is_sent_again_before_its_answer_or_never(world, at_us, is_right):
    add(world, "create", 100, "ok", ID)
    add(world, "delete", 200, "ok", ID)
    add(world, "delete", 300, "ok", OTHER_ID)
    assert (why_not(world, {1: [at_us]}) is None) is is_right


def test_what_was_refused_was_never_sent(world):
    add(world, "create", 100, "fail")
    add(world, "delete", 200, "ok", ID)
    assert why_not(world, {1: [105]}) is not None


def test_a_request_counts_so_often_at_most(world):
    add(world, "create", 100, "info")
    image = world.invariants.ledger.image
    count = len(operations_of(world.workload, image, 1_000, {}))
    often = operations_of(world.workload, image, 1_000, {1: list(range(100, 200))})
    assert len(often) == count + SENT_AGAIN_MAX
    assert len({operation.process for operation in often}) == len(often)


def test_the_world_notes_who_sends_again(world):
    machine = follower(world)
    forwarding = machine.kernel.forwarding
    assert world.sent_again[machine.id] == []
    forward = _Forward(request=None, client_address=b"", answered=print, deadline_ms=1 << 60)
    forwarding._in_flight_count += 1
    forwarding._on_envelope_answer(forward, Failure.DISCONNECTED)
    assert world.sent_again[machine.id] == [world.scheduler.now_us]


def test_a_history_that_is_not_linearizable_says_where(world):
    add(world, "create", 100, "ok", ID)
    add(world, "delete", 200, "ok", ID)
    add(world, "exists", 300, "ok", ID)
    lines = why_not(world, {}).splitlines()
    assert lines[0] == (
        "model topic-set, key topic-0: not linearizable: "
        "no legal order for what returned at t=0.000310s"
    )
    assert lines[1].strip().startswith("minimal counterexample, ")
    assert any("exists topic-0" in line for line in lines)


def test_the_refuted_history_is_a_file_for_the_checker(world):
    add(world, "create", 100, "ok", ID)
    add(world, "exists", 300, "ok", OTHER_ID)
    image = world.invariants.ledger.image
    judged = judge_run(world.workload, image, 1_000_000, {})
    found = refuted(judged)
    history = parse_history(found.lines)
    assert check(history, found.model, clock=None).verdict == "illegal"
    assert [event.time for event in history.events][:2] == [100_000, 110_000]  # nanoseconds
