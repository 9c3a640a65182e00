"""Whole runs: a handful of seeds, the corpus, and that a seed decides everything."""

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

import simulator.cluster.machine
from simulator.campaign.arguments import SHORT
from simulator.campaign.corpus import corpus, entry_of
from simulator.campaign.draw import FAULT_CLASSES, Options, Until
from simulator.campaign.probes import MARKS
from simulator.campaign.run import prepare, run_seed
from simulator.checks.violation import Violation
from tests.selection import thinned
from tests.simulator.worlds import follower, quiet_world
from tests.test_tidy import ROOT

FAST = Options(duration_us=4_000_000, write_count=15)
BEGINNING = Until(event=1_000)
LONG_SECONDS = 120


@pytest.mark.parametrize("seed", thinned(range(1, 7), every=6))
def test_a_short_seed_holds(seed):
    outcome = run_seed(seed, FAST)
    assert outcome.invariant is None, outcome.text
    assert outcome.event_count > 100


def test_a_quiet_cluster_acknowledges_every_create_that_can_be():
    outcome = run_seed(3, Options(node_count=3, faults=(), duration_us=4_000_000, write_count=15))
    assert (outcome.invariant, outcome.faults) == (None, {})
    assert outcome.elections >= 1
    assert outcome.acknowledged > 5


SHORT_CORPUS = [entry for entry in corpus() if entry.options_name.startswith("short")]


@pytest.mark.parametrize(
    "entry", thinned(SHORT_CORPUS, every=20), ids=lambda entry: str(entry.seed)
)
def test_what_a_short_seed_once_found_is_mended(entry):
    outcome = run_seed(entry.seed, entry.options)
    assert outcome.invariant is None, f"{entry.text} (mended by {entry.commit}): {outcome.text}"


@pytest.mark.long
@pytest.mark.parametrize("entry", corpus(), ids=lambda entry: f"{entry.seed}-{entry.options_name}")
def test_what_a_seed_once_found_is_mended(entry):
    outcome = run_seed(entry.seed, entry.options)
    assert outcome.invariant is None, f"{entry.text} (mended by {entry.commit}): {outcome.text}"


def test_a_line_of_the_corpus_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"seeds\.txt:7"):
        entry_of(7, "23 standard I4")
    for fixed in ("sync_error,nonsense", "4,5", "0", "99999", "\u00b2", ""):
        with pytest.raises(ValueError, match=r"seeds\.txt:8: seed, "):
            entry_of(8, f"23 short-4:{fixed} I4 2a33746 what it was")


def test_a_line_of_the_corpus_may_fix_faults_and_voters():
    entry = entry_of(1, "386 short-4:sync_error,kill I19 2a33746 what it was")
    assert entry.options == replace(SHORT, draws=4, faults=("sync_error", "kill"))
    four = entry_of(1, "1082 short-4:4 I19 2a33746 what it was")
    assert four.options == replace(SHORT, draws=4, node_count=4)
    assert entry_of(1, "386 short-4 I19 2a33746 what").options == replace(SHORT, draws=4)


def test_one_seed_is_one_run():
    first, second = (run_seed(5, replace(FAST, duration_us=2_000_000)) for _ in range(2))
    assert first == second


DIGEST = """
from simulator.campaign.draw import Options, Until
from simulator.campaign.run import run_seed
options = Options(duration_us=4_000_000, write_count=15)
print(run_seed(9, options, until={until}).digest)
"""


@pytest.mark.parametrize(
    ("hash_seed", "until"),
    [
        ("1", BEGINNING),
        pytest.param("0", BEGINNING, marks=pytest.mark.long),
        pytest.param("0", None, marks=pytest.mark.long, id="to the end"),
        pytest.param("1", None, marks=pytest.mark.long, id="to the end, another"),
    ],
)
def test_another_process_and_another_hash_seed_give_the_same_digest(hash_seed, until):
    done = subprocess.run(
        [sys.executable, "-c", DIGEST.format(until=until)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == run_seed(9, FAST, until=until).digest


def test_the_digest_sees_another_seed_and_another_plan():
    assert prepare(9, FAST)[2]
    digests = {
        run_seed(9, FAST, until=BEGINNING).digest,
        run_seed(10, FAST, until=BEGINNING).digest,
        run_seed(9, FAST, plan=[], until=BEGINNING).digest,
    }
    assert len(digests) == 3


def test_the_digest_sees_the_bytes_that_are_sent(monkeypatch):
    """Another cluster id of the same length: the same steps, the same logs, other answers."""
    before = run_seed(9, FAST, until=BEGINNING)
    monkeypatch.setattr(simulator.cluster.machine, "CLUSTER_ID", "AkU3OEVBNTcwNTJENDM2Qk")
    after = run_seed(9, FAST, until=BEGINNING)
    assert (before.event_count, before.events_by_kind) == (after.event_count, after.events_by_kind)
    assert before.digest != after.digest


def test_a_run_stops_where_it_is_told():
    at_event = run_seed(9, FAST, until=Until(event=300))
    assert (at_event.event_count, at_event.is_complete) == (300, False)
    at_time = run_seed(9, FAST, until=Until(time_us=1_500_000))
    assert (at_time.virtual_us, at_time.is_complete) == (1_500_000, False)


def test_settings_that_the_caller_fixes_stay_and_shift_nothing_else():
    drawn, _, _ = prepare(4, Options())
    fixed, _, _ = prepare(4, Options(node_count=1, observer_count=2))
    assert (fixed.voter_count, fixed.observer_count) == (1, 2)
    assert fixed.election_timeout_ms == drawn.election_timeout_ms
    assert fixed.fetch_bytes_max == drawn.fetch_bytes_max


@pytest.mark.long
def test_two_minutes_of_seeds_meet_every_fault():
    """Standard and short seeds in turn; which seeds run is fixed, how many is a matter of CPU."""
    import time

    started = time.process_time()
    marks = dict.fromkeys(MARKS, 0)
    faults = set()
    seed = 1
    while time.process_time() - started < LONG_SECONDS:
        outcome = run_seed(seed, SHORT if seed % 4 else Options())
        assert outcome.invariant is None, f"seed {seed}: {outcome.text}"
        for name in MARKS:
            marks[name] += outcome.marks[name]
        faults.update(outcome.faults)
        seed += 1
    assert faults == set(FAULT_CLASSES)
    rare = {"leader_deposed", "election_lost_and_retried"}
    assert {name for name, count in marks.items() if count == 0} <= rare


def test_a_snapshot_is_fetched_while_more_is_committed():
    slow = {"delay_mean_us": 20_000, "fetch_snapshot_bytes_max": 100}
    small = {"record_bytes_between_snapshots": 1_000, "retention_bytes": 1_500}
    world = quiet_world(**slow, **small)
    machine = follower(world)
    machine.kill()
    world.run(world.scheduler.now_us + 10_000_000)
    assert world.probes.counts["log_start_moved"] > 0
    world.restart(machine)
    world.run(world.scheduler.now_us + 10_000_000)
    assert world.probes.counts["snapshot_fetched_mid_load"] > 0


def test_nodes_that_ask_for_ever_without_a_pause_are_found():
    world = quiet_world()
    machine = next(iter(world.machines.values()))
    world.event_count = world._busy_at
    world.before_step(machine, None)  # the first of them took longer than a second
    assert world._busy_at > world.event_count
    world.event_count = world._busy_at
    with pytest.raises(Violation, match=r"liveness: .* a busy loop"):
        world.before_step(machine, None)
