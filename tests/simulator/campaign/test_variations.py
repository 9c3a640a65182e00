"""Other clients and other numbers of voters, of the whole run."""

import pytest
from msgspec.structs import replace

from simulator.campaign.draw import VARIATIONS, Options
from simulator.campaign.run import prepare, run_seed, settings_of
from simulator.campaign.shrink import Shrinker
from tests.simulator.worlds import quiet_world

FAST = Options(duration_us=4_000_000, write_count=15)


@pytest.fixture
def world():
    return quiet_world()


def test_some_seeds_have_other_clients_that_ask_other_things():
    options = replace(FAST, faults=("operation_mix",))
    drawn = [settings_of(seed, options)[0] for seed in range(60)]
    assert {settings.client_count for settings in drawn} == {2, 4, 5, 6}
    assert {settings.lookup_percent for settings in drawn} == {0, 10, 35, 60, 85}
    assert len({settings.register_percent for settings in drawn}) == 4
    assert len({settings.against_percent for settings in drawn}) == 4
    usual = prepare(0, replace(FAST, faults=()))[0]
    assert all(
        settings.think_us == usual.think_us * settings.client_count // usual.client_count
        for settings in drawn
    )


def test_so_many_clients_ask_so_many_things():
    world = quiet_world(has_lookups=True, client_count=6, register_percent=100, lookup_percent=0)
    assert {operation.client for operation in world.workload.history} <= set(range(1_000, 1_006))
    assert {operation.name for operation in world.workload.history} == {"register"}


def test_some_seeds_have_two_or_four_voters():
    options = replace(FAST, faults=("even_voters",))
    assert {settings_of(seed, options)[0].voter_count for seed in range(20)} == {2, 4}
    fixed = replace(options, node_count=3)
    assert {settings_of(seed, fixed)[0].voter_count for seed in range(20)} == {3}


@pytest.mark.parametrize("fails_without", [True, False])
def test_a_failure_is_made_smaller_without_them_where_they_are_not_needed(fails_without):
    options = replace(FAST, faults=VARIATIONS, duration_us=1_000, write_count=0)
    failed = replace(run_seed(1, options), invariant="I7", text="made up")

    def run(options, plan):
        settings = settings_of(1, options)[0]
        fails = fails_without or settings.client_count == failed.settings.client_count != 3
        return replace(failed, settings=settings, plan=plan, invariant="I7" if fails else None)

    shrunk = Shrinker(failed, options, run).shrink()
    assert shrunk.options.faults == (() if fails_without else ("operation_mix",))
