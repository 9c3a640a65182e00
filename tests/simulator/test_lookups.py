"""Clients that look up, write a config and choose by what they know; what their answers prove."""

from random import Random

import pytest

from simulator.campaign.draw import Options
from simulator.campaign.run import prepare, run_seed
from simulator.checks.operations.histories import (
    count_definite,
    judge,
    judge_run,
    operations_of,
    register_of,
)
from simulator.checks.operations.proofs import Proofs
from simulator.cluster.client_choices import (
    REGISTER,
    Choices,
    Mix,
    topic_name,
)
from simulator.cluster.requests import (
    CONFIG,
    READS,
    TOPIC_RESOURCE,
    Operation,
)
from tests.simulator.worlds import follower, leader, observer, quiet_world

ID = bytes([1]) * 16
MIX = Mix(lookups=0.35, register=0.2, against=0.08)
SHORT = {"duration_us": 6_000_000, "write_count": 40}


@pytest.fixture
def world():
    found = quiet_world(write_count=0, has_lookups=True)
    found.workload.history.clear()
    return found


def add(world, kind, called_us, outcome, **more):
    operation = Operation(
        client=1_000,
        kind=kind,
        name=more.pop("name", "topic-0"),
        called_us=called_us,
        target=1,
        returned_us=called_us + 10,
        outcome=outcome,
        **more,
    )
    world.workload.history.append(operation)
    return operation


def topics(world, sent_again=()):
    image = world.invariants.ledger.image
    return judge(operations_of(world.workload, image, 1_000_000, {1: list(sent_again)}))[0]


def register(world, sent_again=()):
    image = world.invariants.ledger.image
    history = register_of(world.workload, image, 1_000_000, {1: list(sent_again)})
    return judge(history, model="register")[0]


# ---- what answers prove --------------------------------------------------------------------------


def test_a_refusal_that_was_sent_once_did_not_happen(world):
    add(world, "create", 100, "info", error="topic_already_exists")
    add(world, "delete", 200, "ok")
    assert topics(world) == "illegal"  # nobody made what was deleted
    assert topics(world, [105]) == "ok"  # the create that was refused may have met itself
    assert topics(world, [150]) == "illegal"


def test_a_refusal_under_one_reign_tells_the_state(world):
    add(world, "create", 100, "info", error="topic_already_exists")
    assert topics(world) == "ok"
    world.workload.history[0].is_observation = True
    assert topics(world) == "illegal"
    world.workload.history.clear()
    add(world, "create", 50, "ok", topic_id=ID)
    add(world, "delete", 100, "info", error="unknown_topic_or_partition", is_observation=True)
    add(world, "delete", 200, "ok")
    assert topics(world) == "illegal"


def test_a_lookup_tells_the_state(world):
    add(world, "exists", 100, "ok")
    assert topics(world) == "ok"
    add(world, "exists", 200, "ok", topic_id=ID)
    assert topics(world) == "illegal"


def test_a_lookup_of_an_old_image_tells_nothing(world):
    add(world, "exists", 200, "fail", topic_id=ID, error="STALE")
    assert topics(world) == "ok"
    assert count_definite(world.workload, {}) == 0


def test_a_config_is_a_register(world):
    add(world, "write", 100, "ok", name=REGISTER, value="1")
    add(world, "read", 200, "ok", name=REGISTER, value="1")
    add(world, "delete", 300, "info", error="not_controller")
    assert register(world) == "illegal"  # nothing is there at the end
    image = world.invariants.ledger.image
    assert judge_run(world.workload, image, 1_000_000, {})[0] == "illegal"
    assert count_definite(world.workload, {}) == 2


def test_a_write_that_was_refused_is_nowhere_unless_it_was_sent_again(world):
    image = world.invariants.ledger.image
    add(world, "write", 300, "info", name=REGISTER, value="2", error="unknown_topic_or_partition")
    add(world, "read", 400, "ok", name=REGISTER, value="2")

    def verdict(times_us):
        history = register_of(world.workload, image, 1_000_000, {1: times_us})
        return judge(history[:-1], model="register")[0]  # without the final read

    assert verdict([]) == "illegal"
    assert verdict([305]) == "ok"
    world.workload.history[0].error = "CLOSED"
    assert verdict([]) == "ok"


# ---- proofs --------------------------------------------------------------------------------------


def test_an_image_that_lacks_what_is_committed_proves_nothing(world):
    proofs, machine = world.workload.proofs, observer(world)
    assert isinstance(proofs, Proofs)
    assert proofs.of_lookup(machine.id)
    assert proofs.of_refusal() == proofs.reign()
    entries = world.invariants.ledger.entries
    entries.append(entries[-1]._replace(end_offset=entries[-1].end_offset + 1))
    assert not proofs.of_lookup(machine.id)
    assert proofs.of_refusal() is None
    entries.pop()
    machine.kill()
    assert not proofs.of_lookup(machine.id)


def test_two_active_controllers_prove_nothing(world):
    proofs = world.workload.proofs
    reign = proofs.reign()
    assert (reign.node_id, reign.number) == (leader(world).id, 1)
    controller = follower(world).kernel.state.controller
    controller._epoch, controller.is_active = 9, True
    assert proofs.reign() is None
    assert proofs.of_refusal() is None


def test_nobody_reigns_where_no_controller_is_active(world):
    leader(world).kill()
    assert world.workload.proofs.reign() is None


# ---- choices -------------------------------------------------------------------------------------


def told(choices, choice, error=None, topic_id=None):
    operation = Operation(client=1, kind=choice.kind, name=choice.name, called_us=0)
    operation.target, operation.error, operation.topic_id = choice.target, error, topic_id
    choices.ended(operation, 0)


def test_what_is_known_is_asked_for():
    choices = Choices(Random(1), (1, 2), MIX)
    exists = {}
    refused = asked = 0
    for _ in range(600):
        choice = choices.draw(0)
        if choice.kind in ("create", "delete"):
            asked += 1
            is_there = exists.get(choice.name, False)
            if is_there is (choice.kind == "create"):
                refused += 1
                error = "topic_already_exists" if is_there else "unknown_topic_or_partition"
                told(choices, choice, error)
                continue
            exists[choice.name] = choice.kind == "create"
        told(choices, choice, topic_id=ID if exists.get(choice.name) else None)
    assert asked > 200
    assert 0 < refused < asked / 6
    assert exists[REGISTER]


def test_the_register_is_written_and_read_but_never_deleted():
    choices = Choices(Random(1), (1,), MIX)
    kinds = set()
    for _ in range(300):
        choice = choices.draw(0)
        told(choices, choice)
        if choice.name == REGISTER:
            kinds.add(choice.kind)
    assert kinds == {"create", "write", "read"}


def test_a_node_that_did_not_answer_is_left_alone_for_a_while():
    choices = Choices(Random(1), (1, 2), MIX)
    first = choices.draw(0)
    told(choices, first, "TIMED_OUT")
    assert {choices.draw(1_000).target for _ in range(30)} == {3 - first.target}
    assert {choices.draw(10_000_000).target for _ in range(30)} == {1, 2}


def test_what_is_under_way_is_not_written_by_another():
    choices = Choices(Random(1), (1,), MIX)
    names = [c.name for c in (choices.draw(0) for _ in range(60)) if c.kind not in READS]
    assert len(set(names[:6])) >= 5


# ---- whole runs ----------------------------------------------------------------------------------


def test_nearly_all_is_answered_definitely():
    outcome = run_seed(3, Options(node_count=3, faults=(), **SHORT))
    assert outcome.invariant is None, outcome.text
    assert outcome.operations > 40
    assert outcome.definite > 0.8 * outcome.operations


def test_the_config_is_there_at_the_end():
    world = quiet_world(write_count=60, duration_us=8_000_000, think_us=60_000, has_lookups=True)
    kinds = {operation.kind for operation in world.workload.history if operation.outcome == "ok"}
    assert kinds == {"create", "delete", "exists", "write", "read"}
    assert world.invariants.ledger.image.config(TOPIC_RESOURCE, REGISTER)[CONFIG]


def test_earlier_draws_have_neither():
    settings, _, _ = prepare(3, Options(draws=2, **SHORT))
    assert not settings.has_lookups
    later, _, _ = prepare(3, Options(draws=8, **SHORT))  # before a fault that seed 3 draws
    assert later.has_lookups
    assert later.faults == settings.faults
    assert topic_name(3) == "topic-3"
