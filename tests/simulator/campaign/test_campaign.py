"""Campaigns of many seeds: the ledger, and the seed that does not return."""

import json
import re

import pytest
from msgspec.structs import replace

from cli.main import main
from simulator.campaign import campaign, run, session
from simulator.campaign.campaign import Result, Totals, run_campaign
from simulator.campaign.draw import Options
from simulator.campaign.probes import MARKS, Probes
from simulator.campaign.run import World
from simulator.campaign.schedule import read_schedule
from simulator.campaign.seed_ledger import LedgerError, SeedLedger
from simulator.campaign.shrink import Shrinker
from simulator.checks.violation import Violation

RESULT = Result(
    seed=1, invariant=None, text="", at_us=1, events=1, cpu_seconds=0.1, virtual_us=1,
    elections=1, acknowledged=1, operations=1, definite=1, verdict="ok", messages=1, digest=1,
    events_by_kind={}, faults={}, marks={},
)  # fmt: skip
TINY = Options(node_count=1, observer_count=0, faults=(), duration_us=100_000, write_count=1)


def ledger(path, commit="one", options=TINY):
    return SeedLedger(path, commit, options, is_twice=False)


def test_a_result_behind_a_line_that_was_cut_off_counts(tmp_path):
    path = tmp_path / "done.jsonl"
    ledger(path).add(RESULT)
    ledger(path).add(replace(RESULT, seed=2))
    path.write_bytes(path.read_bytes()[:-50])
    ledger(path).add(replace(RESULT, seed=3))
    known = ledger(path)
    assert sorted(known.known()) == [1, 3]
    assert known.cut_off == 1


def test_a_line_from_before_felt_faults_were_counted_is_a_result(tmp_path):
    path = tmp_path / "ledger"
    ledger(path).add(RESULT)
    line = json.loads(path.read_bytes())
    del line["result"]["effective_faults"], line["result"]["is_complete"]
    path.write_text(json.dumps(line) + "\n")
    assert ledger(path).known() == {1: RESULT}


def test_results_of_other_code_or_options_do_not_count(tmp_path):
    path = tmp_path / "done.jsonl"
    ledger(path).add(RESULT)
    assert ledger(path, commit="two").known() == {}
    assert ledger(path, options=replace(TINY, write_count=2)).known() == {}
    assert ledger(path).known() == {1: RESULT}


@pytest.mark.parametrize("content", ["{}\n", "a\nb\n", "[]"])
def test_a_file_without_a_result_is_no_ledger(tmp_path, capsys, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(LedgerError, match=r"other\.json is no ledger of seeds"):
        ledger(path).known()
    assert main(["sim", "--seed", "1", "--ledger", str(path)]) == 2
    assert "other.json is no ledger of seeds: no line of it is a result" in capsys.readouterr().err
    assert path.read_text() == content


def test_a_ledger_is_gone_on_with_and_says_what_was_cut_off(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["--nodes", "1", "--observers", "0", "--faults", "none", "--short", "--json"]
    words += ["--ledger", "done.jsonl"]
    assert main(["sim", "--seeds", "1..1", *words]) == 0
    with (tmp_path / "done.jsonl").open("a") as file:
        file.write('{"commit": "cut off')
    assert main(["sim", "--seeds", "1..2", *words]) == 0
    printed = capsys.readouterr()
    both = [json.loads(line)["seeds"] for line in printed.out.splitlines()]
    assert both == [1, 2]
    assert printed.err == "kraftline sim: done.jsonl: a line is cut off and left out\n"
    lines = (tmp_path / "done.jsonl").read_text().splitlines()
    assert [json.loads(line)["result"]["seed"] for line in (lines[0], lines[2])] == [1, 2]


def test_of_a_billion_seeds_none_is_made_before_its_turn(monkeypatch):
    monkeypatch.setattr(campaign, "run_one", lambda seed, *_, **__: replace(RESULT, seed=seed))
    seen = []

    def on_result(result: Result, _: Totals) -> None:
        seen.append(result.seed)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(
            range(10**9), TINY, is_twice=False, job_count=1, ledger=None, on_result=on_result
        )
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("words", [[], ["--trace"], ["--twice"], ["--html", "run.html"]])
def test_i20_a_step_that_does_not_return(monkeypatch, capsys, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "CPU_SECONDS_MAX", 0.02)

    def endless(_):
        while True:
            pass

    monkeypatch.setattr(World, "start", endless)
    assert main(["sim", "--seed", "1", "--short", *words]) == 12
    printed = capsys.readouterr().out
    assert "invariant=I20" in printed
    assert "more than 0.02 s of processor time: an endless step" in printed
    assert "1 seed, 1 failed" in printed
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("phase", ["converge", "endure"])
def test_i20_a_step_after_the_digest_that_does_not_return(monkeypatch, phase):
    def endless(_):
        while True:
            pass

    monkeypatch.setattr(run, "CPU_SECONDS_MAX", 0.05)
    monkeypatch.setattr(World, "start", lambda _: None)
    monkeypatch.setattr(run, "_run", lambda *_: True)
    monkeypatch.setattr(run, "converge", lambda _: None)
    monkeypatch.setattr(run, phase, endless)
    outcome = run.run_seed(1, TINY)
    assert outcome.invariant == "I20"
    assert "an endless step" in outcome.text


FAILED = replace(RESULT, invariant="I10", text="made up")


@pytest.mark.parametrize(("found", "code"), [(FAILED, 10), (RESULT, 130)])
def test_a_failure_is_told_by_the_exit_code_of_an_interrupted_campaign_too(
    monkeypatch, capsys, tmp_path, found, code
):
    monkeypatch.chdir(tmp_path)

    def interrupted(*_, on_result, **__):
        totals = Totals()
        totals.add(found)
        on_result(found, totals)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "run_campaign", interrupted)
    assert main(["sim", "--seeds", "1..2", "--html", "run.html"]) == code
    assert "1 seed, " in capsys.readouterr().out
    assert (tmp_path / "run.html").read_bytes() == b""  # opened at the start, nothing drawn


def test_an_interrupted_search_leaves_the_smallest_schedule_so_far(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_run", lambda *_: broken())

    def broken():
        raise Violation("I10", "made up")

    def interrupted(self):
        assert self.options.write_count
        raise KeyboardInterrupt

    monkeypatch.setattr(Shrinker, "shrink", interrupted)
    assert main(["sim", "--seed", "1", "--short"]) == 10
    printed = capsys.readouterr().out
    assert "kraftline sim --schedule sim-0x1.jsonl" in printed
    assert "1 seed, 1 failed" in printed
    assert read_schedule(tmp_path / "sim-0x1.jsonl").invariant == "I10"


def stopped_after(limit):
    """A search that ends with this run as if Ctrl-C came then."""
    whole = Shrinker._try

    def stopped(self, *candidate):
        if self.run_count == limit:
            raise KeyboardInterrupt
        return whole(self, *candidate)

    return stopped


@pytest.mark.parametrize("period_s", [0.0, session.PLAIN_PERIOD_S])
def test_a_search_says_that_it_goes_on(monkeypatch, capsys, tmp_path, period_s):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "PLAIN_PERIOD_S", period_s)
    monkeypatch.setattr(Shrinker, "_try", stopped_after(2))

    def broken(*_):
        raise Violation("I10", "made up")

    monkeypatch.setattr(run, "_run", broken)
    assert main(["sim", "--seed", "1", "--short", "--json"]) == 10
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "  making it smaller, up to 60 s, Ctrl-C keeps the best\n" in err
    assert "  shrunk in 2 runs from " in err
    plain = [line for line in err.splitlines() if line.startswith("making it smaller: run ")]
    assert len(plain) == (2 if period_s == 0 else 0)
    for number, line in enumerate(plain, start=1):
        assert re.fullmatch(rf".*: run {number}, \d+ faults? and 30 writes left, \d+ s to go", line)


def test_checks_that_could_not_be_made_are_no_marks():
    probes = Probes()
    probes.hit("snapshot_not_compared")
    assert probes.marks == dict.fromkeys(MARKS, 0)
    assert probes.skips == {"snapshot_not_compared": 1}


def test_a_schedule_replaces_none_of_an_earlier_failure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(session._free("sim-0x1")) == "sim-0x1.jsonl"
    (tmp_path / "sim-0x1.jsonl").touch()
    (tmp_path / "sim-0x1-2.jsonl").touch()
    assert str(session._free("sim-0x1")) == "sim-0x1-3.jsonl"
