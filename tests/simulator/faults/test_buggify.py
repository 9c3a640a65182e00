"""Sites that make unlikely things likely: each does what it says, and none once faults stopped."""

import pytest

from simulator.cluster.world import World
from simulator.faults.buggify import ExtremeRandom
from tests.simulator.worlds import Streams, leader, quiet_settings, quiet_world


@pytest.mark.parametrize(
    ("site", "mark"),
    [
        ("has_extreme_timeouts", "election_timeout_extreme"),
        ("loses_first_vote", "first_vote_response_lost"),
        ("asks_minimal_quorum", "minimal_quorum_asked"),
    ],
)
def test_a_site_fires_and_a_leader_is_elected_all_the_same(site, mark):
    world = quiet_world(**{site: True})
    assert world.probes.counts[mark] > 0
    world.run(world.scheduler.now_us + 4_000_000)
    leader(world)
    assert quiet_world().probes.counts[mark] == 0


SITES = {
    "has_extreme_timeouts": "election_timeout_extreme",
    "loses_first_vote": "first_vote_response_lost",
    "asks_minimal_quorum": "minimal_quorum_asked",
    "flush_reported_late_us": "flush_reported_late",
    "begin_epoch_late_us": "begin_epoch_late",
}


@pytest.mark.parametrize("is_over", [False, True])
def test_no_site_fires_when_faults_have_stopped(is_over):
    world = World(quiet_settings(**dict.fromkeys(SITES, 1)), Streams(1), [])
    world.nemesis.is_over = is_over
    world.start()
    world.run(2_000_000)
    for mark in SITES.values():
        assert (world.probes.counts[mark] == 0) is is_over, mark


def test_the_network_is_calm_when_faults_have_stopped():
    world = quiet_world()
    assert not world.network.is_calm
    world.nemesis.stop()
    assert world.network.is_calm


def test_extreme_draws_are_the_first_or_the_last_and_ids_stay_random():
    rng = ExtremeRandom(1)
    assert len({rng.randrange(1_000) for _ in range(50)}) > 10
    rng.is_on = lambda: True
    assert {rng.randrange(1_000) for _ in range(50)} == {0, 999}
    assert {rng.randrange(5, 8) for _ in range(50)} == {5, 7}
    assert len({rng.randrange(1 << 64) for _ in range(50)}) == 50
