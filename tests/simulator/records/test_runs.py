"""Clusters that serve records: what is acknowledged is kept, and a seed decides everything."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from simulator.campaign import runs
from simulator.campaign.draw import (
    RECORDS_FAULTS,
    RECORDS_SHORT,
    RECORDS_STANDARD,
    STANDARD,
    Until,
    decided,
)
from simulator.campaign.schedule import read_schedule
from simulator.checks.violation import Violation
from simulator.faults.decision import Decision
from simulator.main import run
from simulator.records import run as run_module
from simulator.records.marks import RECORDS_MARKS
from simulator.records.run import run_records
from tests.selection import thinned
from tests.test_tidy import ROOT

OPTIONS = replace(RECORDS_STANDARD, node_count=3, observer_count=0)
SHORT = replace(RECORDS_SHORT, node_count=3, observer_count=0, duration_us=2_500_000)
PRINTED = """
from msgspec.structs import replace
from simulator.records.run import OPTIONS, run_records
options = replace(OPTIONS, node_count=3, observer_count=0, duration_us=3_000_000, write_count=4)
print(run_records(4, options).digest)
"""


@pytest.mark.parametrize("seed", thinned(range(1, 9), every=8))
def test_a_seed_holds(seed):
    outcome = run_records(seed, SHORT)
    assert outcome.invariant is None, outcome.text
    assert outcome.event_count > 100


def test_a_cluster_without_faults_acknowledges_everything():
    outcome = run_records(1, replace(SHORT, faults=()))
    assert (outcome.invariant, outcome.faults) == (None, {}), outcome.text
    assert outcome.marks.keys() <= set(RECORDS_MARKS)
    assert "isr_lost_power" not in outcome.marks
    assert outcome.operations >= outcome.definite > 100
    assert outcome.acknowledged > 50


def down(at_us, kind, *targets):
    return Decision(at_us=at_us, kind=kind, targets=targets, length_us=500_000)


def test_nodes_that_end_lose_nothing():
    plan = [
        down(1_500_000, "kill", 1),
        down(2_200_000, "terminate", 2),
        down(2_900_000, "power_failure", 3),
    ]
    outcome = run_records(13, replace(OPTIONS, duration_us=3_600_000), plan=plan)
    assert outcome.invariant is None, outcome.text
    assert outcome.faults == {"kill": 1, "terminate": 1, "power_failure": 1}
    assert outcome.marks["leader_changed_with_records"] >= 1
    assert outcome.acknowledged > 50


def test_replicas_without_power_all_at_once_may_lose_records_and_say_so():
    """The first seed in which records had a leader then: another one after a change of a step."""
    plan = [down(1_500_000, "all_down", 1, 2, 3)]
    for seed in range(2, 10):
        outcome = run_records(seed, replace(OPTIONS, duration_us=2_500_000), plan=plan)
        assert outcome.invariant is None, outcome.text
        if "isr_lost_power" in outcome.marks:
            break
    assert outcome.marks["isr_lost_power"] >= 1


WORK = {
    "alter_topic": "topic_altered",
    "reassign": "replicas_reassigned",
    "delete_records": "log_start_rose_by_asked",
    "move_replica": "replica_moved",
    "directory_failure": "directory_failed",
    "recreate_topic": "topic_recreated",
}


def test_work_of_administrators_is_done():
    plan = [
        Decision(at_us=at_us, kind=kind, targets=(1 + amount,), length_us=300_000, amount=amount)
        for at_us, kind in enumerate(WORK)
        for amount in (0, 1)
    ]
    plan = [replace(decision, at_us=1_000_000 + 150_000 * n) for n, decision in enumerate(plan)]
    outcome = run_records(3, replace(SHORT, duration_us=2_500_000), plan=plan)
    assert outcome.invariant is None, outcome.text
    assert outcome.effective_faults.keys() == WORK.keys()
    assert outcome.marks.keys() >= set(WORK.values())


def test_the_same_seed_gives_the_same_bytes():
    short = replace(SHORT, duration_us=SHORT.duration_us // 4)
    digests = [run_records(seed, short).digest for seed in (5, 5, 6)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_whatever_the_hashes():
    digests = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PRINTED],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env=dict(os.environ, PYTHONHASHSEED=hash_seed, PYTHONPATH=str(ROOT)),
            text=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.fixture
def short_runs(monkeypatch, tmp_path):
    """The command runs a short time of each seed."""
    monkeypatch.chdir(tmp_path)
    ran = []

    def run_short(seed, options, **given):
        ran.append((seed, options))
        return run_records(seed, replace(options, duration_us=300_000), **given)

    monkeypatch.setattr(runs, "run_records", run_short)
    return ran


def test_the_command_is_that_of_other_runs(capsys, short_runs):
    words = ["records", "--seeds", "4..4", "--faults", "none", "--short", "--ledger", "done"]
    assert run([*words, "--twice"]) == 0
    options = replace(RECORDS_SHORT, faults=())
    assert short_runs == [(seed, options) for seed in (4, 4)]
    printed = capsys.readouterr().out
    assert "1 seed, 0 failed" in printed
    assert re.search(r"[1-9]\d* writes acknowledged", printed)
    assert "Records " in printed
    assert f" of {len(RECORDS_MARKS)}: sent_with_acks_0" in printed
    assert run([*words, "--twice", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operations"] >= found["definite"] > found["acknowledged"] / 3 > 0
    assert len(short_runs) == 2
    assert run(["records", "--seed", "4", "--faults", "none", "--require-marks"]) == 1
    assert "marks never met: isr_lost_power" in capsys.readouterr().out
    assert short_runs[-1] == (4, replace(RECORDS_STANDARD, faults=()))


def test_a_failure_is_told_with_its_command_and_made_smaller(capsys, short_runs, monkeypatch):
    def broken(_):
        raise Violation("D1", "gone")

    monkeypatch.setattr(run_module, "come_to_rest", broken)
    assert run(["records", "--seed", "0x5", "--short", "--shrink-seconds", "20"]) == 10
    printed = capsys.readouterr().out
    assert "SIM-FAIL seed=0x5" in printed
    assert "replay: kraftline sim records --seed 0x5 --short\n  D1: gone\n" in printed
    assert " to 0 faults" in printed
    schedule = read_schedule(Path("sim-0x5.jsonl"))
    assert schedule.options.has_records
    assert run(["--schedule", "sim-0x5.jsonl"]) == 10
    assert short_runs[-1][1] == schedule.options


def test_the_command_refuses_what_runs_with_records_have_not(capsys):
    assert run(["records", "--draws", "3"]) == 2
    assert run(["records", "--faults", "kill,bit_rot"]) == 2
    assert "unknown fault 'bit_rot': all, none, or of kill, " in capsys.readouterr().err


def test_every_second_pair_of_seeds_has_three_nodes_with_both_roles():
    nodes = [decided(seed, RECORDS_SHORT).node_count for seed in range(6)]
    assert nodes == [3, 3, None, None, 3, 3]
    assert decided(0, RECORDS_SHORT).observer_count == 0
    given = replace(RECORDS_SHORT, observer_count=2)
    assert decided(0, given) == replace(given, faults=RECORDS_FAULTS)
    assert decided(0, STANDARD) is STANDARD


def test_a_run_stops_where_it_is_asked_to():
    stopped = run_records(1, SHORT, until=Until(event=50))
    assert (stopped.event_count, stopped.is_complete, stopped.invariant) == (50, False, None)
