"""Clusters that serve records: what is acknowledged is kept, and a seed decides everything."""

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from simulator.faults.decision import Decision
from simulator.main import run
from simulator.records import command
from simulator.records.run import OPTIONS, run_records
from tests.selection import thinned
from tests.test_tidy import ROOT

SHORT = replace(OPTIONS, duration_us=5_000_000, write_count=4)
PRINTED = """
from msgspec.structs import replace
from simulator.records.run import OPTIONS, run_records
options = replace(OPTIONS, duration_us=3_000_000, write_count=4)
print(run_records(4, options).digest)
"""


@pytest.mark.parametrize("seed", thinned(range(1, 9), every=4))
def test_a_seed_holds(seed):
    outcome = run_records(seed, SHORT)
    assert outcome.invariant is None, outcome.text
    assert outcome.event_count > 100


def test_a_cluster_without_faults_acknowledges_everything():
    outcome = run_records(1, replace(SHORT, faults=()))
    assert (outcome.invariant, outcome.faults, outcome.marks) == (None, {}, {}), outcome.text
    assert outcome.acknowledged > 200


def down(at_us, kind, *targets):
    return Decision(at_us=at_us, kind=kind, targets=targets, length_us=500_000)


def test_nodes_that_end_lose_nothing():
    plan = [
        down(2_500_000, "kill", 1),
        down(3_500_000, "terminate", 2),
        down(4_500_000, "power_failure", 3),
    ]
    outcome = run_records(7, replace(OPTIONS, duration_us=6_000_000), plan=plan)
    assert outcome.invariant is None, outcome.text
    assert outcome.faults == {"kill": 1, "terminate": 1, "power_failure": 1}
    assert outcome.marks["leader_changed_with_records"] >= 1
    assert outcome.acknowledged > 50


def test_replicas_without_power_all_at_once_may_lose_records_and_say_so():
    plan = [down(3_000_000, "all_down", 1, 2, 3)]
    outcome = run_records(2, replace(OPTIONS, duration_us=5_000_000), plan=plan)
    assert outcome.invariant is None, outcome.text
    assert outcome.marks["isr_lost_power"] >= 1


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


def test_the_command_sums_up_and_says_how_to_repeat_a_failure(capsys, monkeypatch):
    short = replace(SHORT, duration_us=1_000_000)
    monkeypatch.setattr(command, "options_of", lambda _: short)
    assert run(["records", "--seeds", "1..1", "--quiet", "--twice"]) == 0
    assert "1 seeds, 0 failed: acknowledged " in capsys.readouterr().out
    outcome = run_records(1, replace(SHORT, duration_us=10_000))
    bad = replace(outcome, seed=5, invariant="D1", text="gone")
    monkeypatch.setattr(command, "run_records", lambda *_, **__: bad)
    assert run(["records", "--seed", "0x5"]) == 10
    printed = capsys.readouterr().out
    assert "SIM-FAIL seed=0x5 invariant=D1" in printed
    assert "replay: kraftline sim records --seed 0x5\n  gone\n" in printed
