"""Every mutant of the lists fits the code; the quick ones die here, all with `long`."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from kernel.kernel import Kernel
from quorum_controller.controller import Controller
from simulator.campaign.campaign import Result, WorkerDiedError, run_one
from simulator.campaign.run import run_seed
from simulator.cluster.memory_vfs import MemoryVfs
from simulator.main import run
from simulator.mutants import command, registry
from simulator.mutants import hunt as hunting
from simulator.mutants.arguments import Count
from simulator.mutants.catalogue import MUTANTS, NOT_APPLICABLE
from simulator.mutants.hunt import BASES, Hunt, State, hunt, judge, mutant_of, option_sets
from simulator.mutants.records import RECORDS
from simulator.mutants.registry import SHORT, Mutant, MutantError, Patches
from simulator.mutants.tally import Tally
from simulator.scenarios.records import RecordsScenario
from tests.selection import thinned

QUICK = (
    "M16",
    "M17",
    "M22",
    "M28",
    "M32",
    "M38",
    "M43",
    "M50",
    "M52",
    "M1",
    "M2",
    "M6",
    "M8",
    "M65",
    "M66",
)
"""Those that die within a second or two, the quickest first."""


SLOW: tuple[str, ...] = ()
"""Minutes: `kraftline sim mutate` has them, not the tests."""
SURVIVORS: tuple[str, ...] = ()
"""Mutants that the simulator does not find yet; the table says why."""


def number_of(key: str) -> int:
    return int(key[1:])


def test_the_list_is_whole() -> None:
    numbers = {mutant.number for mutant in MUTANTS} | set(NOT_APPLICABLE)
    assert set(range(1, 44)) <= numbers, "those of the published list, and the first of our own"
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.key)
def test_a_mutant_finds_its_target_and_leaves_nothing_behind(mutant) -> None:
    with mutant.apply() as first:
        pass
    with mutant.apply() as second:  # what the first one replaced is back, or this would not fit
        assert first.unreached == second.unreached != set()


@pytest.mark.parametrize("key", thinned(QUICK, every=8))
def test_a_mutant_dies(key: str) -> None:
    mutant = mutant_of(number_of(key))
    found = hunt(mutant.number, BASES[0], seconds_max=60.0)
    assert found.invariant in mutant.expected, found
    assert run_seed(BASES[0] + found.seeds - 1, mutant.options).invariant is None


@pytest.mark.long
@pytest.mark.parametrize(
    "mutant",
    [m for m in MUTANTS if m.key not in {*QUICK, *SLOW, *SURVIVORS} and m not in RECORDS],
    ids=lambda mutant: mutant.key,
)
def test_a_mutant_dies_within_its_budget_of_seeds(mutant) -> None:
    found = hunt(mutant.number, BASES[0], seconds_max=120.0)
    assert found.invariant in mutant.expected, found


def test_the_tables_name_rule_and_killers_of_every_mutant() -> None:
    lines = Path("docs/simulator/mutants.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = {row[0]: row[1:] for row in cells if re.fullmatch(r"M\d+", row[0])}
    shown = {key: (row[0], row[1], row[2].split()[-1]) for key, row in rows.items() if len(row) > 2}
    assert shown == {m.key: (m.text, ", ".join(m.expected), str(m.seeds_max)) for m in MUTANTS}
    reasons = {int(key[1:]): tuple(row) for key, row in rows.items() if len(row) == 2}
    assert reasons == NOT_APPLICABLE


def test_who_survives_stands_in_the_table() -> None:
    table = Path("docs/simulator/mutants.md").read_text(encoding="utf-8").splitlines()
    surviving = {line.split("|")[1].strip() for line in table if "**not killed yet**" in line}
    assert surviving == set(SURVIVORS)


def test_a_target_that_is_gone_is_an_error() -> None:
    from raft.elections import vote
    from raft.state import RaftState

    def patch(patches: Patches) -> None:
        patches.function(vote, "no_such_function", lambda original: original)

    gone = _mutant_with(patch)
    with pytest.raises(MutantError, match="defines no no_such_function"), gone.apply():
        pass
    gone = _mutant_with(
        lambda patches: patches.method(RaftState, "no_such_method", lambda original: original)
    )
    with pytest.raises(MutantError, match="has no no_such_method"), gone.apply():
        pass


def test_a_function_is_replaced_in_the_modules_of_either_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the wheel every package has `kraftline.` before its name."""
    from raft.elections import vote

    vote_function = vote.on_vote_request
    users = {name: ModuleType(name) for name in ("raft.one", "kraftline.raft.one", "x.raft.one")}
    for name, user in users.items():
        vars(user)["on_vote_request"] = vote.on_vote_request
        monkeypatch.setitem(sys.modules, name, user)
    for layout, replaced in (
        ("", {"raft.one"}),
        ("kraftline.", {"raft.one", "kraftline.raft.one"}),
    ):
        monkeypatch.setattr(registry, "LAYOUT", layout)
        with ExitStack() as stack:
            Patches(stack).function(vote, "on_vote_request", lambda original: original)
            assert {
                n for n, user in users.items() if user.on_vote_request is not vote_function
            } == replaced


def test_a_replacement_with_other_arguments_is_an_error() -> None:
    """It would raise at its first call, and be counted as found by I20."""
    too_few = _mutant_with(
        lambda patches: patches.method(Controller, "submit", lambda _: lambda _self, _request: None)
    )
    text = r"Controller\.submit takes 4 arguments, not 2"
    with pytest.raises(MutantError, match=text), too_few.apply():
        pass


def _mutant_with(patch):
    return replace(MUTANTS[0], patch=patch)


def attempt(invariant: str | None, seeds: int = 100, *, is_over: bool = False) -> Hunt:
    """On M3, which has 100 seeds and dies by I4 or I7."""
    return Hunt(number=3, base=0, seeds=seeds, seconds=1.0, invariant=invariant, is_over=is_over)


def test_the_attempt_in_the_middle_counts() -> None:
    verdict = judge(3, [attempt("I4", 7), attempt("I4", 90), attempt("I7", 2)])
    assert (verdict.state, verdict.seeds) == (State.KILLED, 7)


OVER = attempt(None, 1, is_over=True)
SURVIVAL = attempt(None)


@pytest.mark.parametrize(
    ("hunts", "state"),
    [
        ([attempt("I4"), SURVIVAL, attempt("I7")], State.KILLED),
        ([SURVIVAL, SURVIVAL, attempt("I7")], State.SURVIVED),
        ([attempt("I8"), attempt("I8"), attempt("I7")], State.OTHERWISE),
        ([attempt("I8"), attempt("I4"), attempt("I7")], State.KILLED),
        ([attempt("I20"), attempt("I20"), attempt("I20")], State.CRASHED),
        ([attempt("I20"), attempt("I20"), attempt("I4")], State.CRASHED),
        ([attempt("I20"), attempt("I4"), attempt("I7")], State.KILLED),
        ([attempt("I20"), attempt("I8"), attempt("I4")], State.OTHERWISE),
        ([OVER, OVER, attempt("I4")], State.OVER),
        ([OVER, SURVIVAL, attempt("I4")], State.OVER),
        ([OVER, attempt("I4"), attempt("I4")], State.KILLED),
        ([OVER, SURVIVAL, SURVIVAL], State.SURVIVED),
        ([OVER], State.OVER),
        ([SURVIVAL], State.SURVIVED),
        ([attempt("I20")], State.CRASHED),
    ],
)
def test_every_end_has_a_state_of_its_own(hunts: list[Hunt], state: State) -> None:
    assert judge(3, hunts).state is state


def test_a_crash_is_one_where_it_is_expected_too() -> None:
    crashes = [mutant for mutant in MUTANTS if mutant.expected == ("I20",)]
    assert crashes
    for crash in crashes:
        assert judge(crash.number, [attempt("I20", 1)]).state is State.CRASHED


def crashing(patches: Patches) -> None:
    """Every process ends with its first event."""

    def make(_: object) -> object:
        def take(*_: object) -> None:
            raise AssertionError("by the mutant")

        return take

    patches.method(Kernel, "take", make)


def harmless(patches: Patches) -> None:
    """Replace a method that is called by itself: nothing changes."""
    patches.method(Kernel, "take", lambda original: original)


def half_reached(patches: Patches) -> None:
    """Every process ends with its first event; no seed without faults calls the other part."""
    crashing(patches)
    unreached(patches)


def unreached(patches: Patches) -> None:
    """No seed without faults calls it."""
    patches.method(MemoryVfs, "damage", lambda original: original)


def mutate(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mutants: tuple[Mutant, ...],
    *words: str,
) -> tuple[int, list[str], list[str]]:
    """Exit code, lines and lines on standard error of one attempt on each of these."""
    for module in (command, hunting):
        monkeypatch.setattr(module, "MUTANTS", mutants)
    code = run(["mutate", "--bases", "1", *words])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err.splitlines()


def mutants_with(patch: Callable[[Patches], None], count: int = 1) -> tuple[Mutant, ...]:
    return tuple(
        replace(MUTANTS[0], number=900 + number, patch=patch, seeds_max=1)
        for number in range(count)
    )


def test_two_mutants_may_die_by_i20_only(monkeypatch, capsys) -> None:
    code, lines, complaints = mutate(monkeypatch, capsys, mutants_with(crashing, 2))
    assert (code, complaints) == (0, [])
    assert lines[1].endswith("I20 (I20 only)")
    assert "2 I20 only (M900, M901)" in lines[-1]


def test_more_than_two_that_die_by_i20_only_are_a_failure(monkeypatch, capsys) -> None:
    code, lines, complaints = mutate(monkeypatch, capsys, mutants_with(crashing, 3), "--json")
    assert [json.loads(line)["state"] for line in lines] == ["I20 only"] * 3
    assert complaints == [
        "kraftline sim mutate: 3 mutants died by I20 only (M900, M901, M902), 2 at most may"
    ]
    assert code == 1


def test_a_survivor_is_said(monkeypatch, capsys) -> None:
    code, lines, complaints = mutate(monkeypatch, capsys, mutants_with(harmless))
    assert (code, complaints) == (1, [])
    assert lines[1].endswith("SURVIVED (-)")
    assert lines[-1].endswith("1 survived (M900), 0 budget over")


def test_another_invariant_than_the_expected_is_said(monkeypatch, capsys) -> None:
    other = replace(mutant_of(16), expected=("I3",))
    code, lines, _ = mutate(monkeypatch, capsys, (other,))
    assert code == 0
    assert lines[1].endswith("I9 (another invariant than I3)")
    assert "0 killed, 1 by another invariant (M16)" in lines[-1]


def test_seconds_that_are_spent_are_no_survival(monkeypatch, capsys) -> None:
    late = replace(mutants_with(unreached)[0], seeds_max=1000, options=replace(SHORT, faults=()))
    code, lines, complaints = mutate(monkeypatch, capsys, (late,), "--budget", "0.001")
    assert (code, complaints) == (3, [])
    assert lines[1].split()[2:4] == ["1", "1000"]
    assert lines[1].endswith("BUDGET OVER (-)")
    assert lines[-1].endswith("0 survived, 1 budget over (M900)")


def test_a_mutant_that_does_not_fit_is_one_line_and_the_others_are_judged(
    monkeypatch, capsys
) -> None:
    def gone(patches: Patches) -> None:
        patches.method(Kernel, "gone", lambda original: original)

    mutants = (*mutants_with(gone), mutant_of(16))
    code, lines, complaints = mutate(monkeypatch, capsys, mutants)
    said = "kraftline sim mutate: M900 vote-unsynced: kernel.kernel.Kernel has no gone"
    assert complaints == [said]
    assert lines[-1].startswith("1 killed, ")
    assert code == 255


def test_a_mutant_that_never_ran_is_one_line(monkeypatch, capsys) -> None:
    never = replace(mutants_with(unreached)[0], options=replace(SHORT, faults=()))
    code, _, complaints = mutate(monkeypatch, capsys, (never,))
    (complaint,) = complaints
    assert complaint.endswith("never ran: simulator.cluster.memory_vfs.MemoryVfs.damage")
    assert code == 255


def test_a_mutant_that_dies_by_a_part_of_itself_is_one_line(monkeypatch, capsys) -> None:
    half = replace(mutants_with(half_reached)[0], options=replace(SHORT, faults=()))
    code, _, complaints = mutate(monkeypatch, capsys, (half,))
    (complaint,) = complaints
    assert complaint.endswith("never ran: simulator.cluster.memory_vfs.MemoryVfs.damage")
    assert code == 255


@pytest.mark.long
def test_a_killed_process_of_a_pool_is_said(monkeypatch, capsys) -> None:
    def kill_one(*_: object) -> None:
        for child in multiprocessing.active_children()[:1]:
            child.kill()

    monkeypatch.setattr(command, "_say", kill_one)
    code, _, (complaint,) = mutate(monkeypatch, capsys, (mutant_of(16), mutant_of(30)), "--jobs=2")
    assert complaint.startswith("kraftline sim mutate: a process of --jobs 2 died, killed or out ")
    assert complaint.endswith("mutants without a verdict: M30")
    assert code == 255


@pytest.mark.long
def test_ctrl_c_ends_a_pool_at_once() -> None:
    words = ["sim", "mutate", "--mutants", "M16,M56,M31", "--jobs", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "cli", *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert "M16" in [process.stdout.readline(), process.stdout.readline()][1]
        os.killpg(process.pid, signal.SIGINT)
        try:
            assert process.wait(8.0) == 130  # the attempts under way would take longer
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


@pytest.mark.parametrize(
    ("states", "is_unjudged", "code"),
    [
        ((State.KILLED, State.OTHERWISE), False, 0),
        ((State.KILLED, State.OVER), False, 3),
        ((State.OVER, State.SURVIVED), True, 1),
        ((State.OVER, State.CRASHED, State.CRASHED, State.CRASHED), True, 1),
        ((State.OVER,), True, 255),
    ],
)
def test_what_is_certain_decides_first(
    states: tuple[State, ...], is_unjudged: bool, code: int
) -> None:
    tally = Tally()
    tally.is_unjudged = is_unjudged
    for state in states:
        tally.add(replace(judge(3, [attempt("I4")]), state=state))
    assert tally.exit_code == code


def test_a_mutant_that_does_not_apply_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutate", "--mutants", "M1,M18"]) == 2
    said = capsys.readouterr().err
    assert "M18 does not apply: voters of seeds are static" in said
    assert run(["mutate", "--mutants", "M99"]) == 2
    assert "'M99' is no mutant, only M1, M2" in capsys.readouterr().err


def test_the_command_prints_one_object_per_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutate", "--mutants", "M16,M17", "--bases", "1", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["mutant"] for line in lines] == ["M16", "M17"]
    assert all(line["state"] == "killed" for line in lines)
    assert all(line["invariants"][0] in line["expected"] for line in lines)


@pytest.mark.long
def test_seeds_without_a_mutant_hold_and_are_counted_per_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["mutate", "--unmutated", "2", "--mutants", "M1,M25", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seeds"] for line in lines] == [2, 2]
    assert [line["options"]["node_count"] for line in lines] == [None, 3]
    assert [line["failed"] for line in lines] == [[], []]


def test_seeds_without_a_mutant_are_told_while_they_run(monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "PLAIN_PERIOD_S", 0.0)
    words = ("--unmutated", "2", "--json")
    code, lines, told = mutate(monkeypatch, capsys, (mutant_of(16),), *words)
    assert (code, len(lines)) == (0, 1)
    assert [line.partition(" seeds, ")[0] for line in told] == [
        "faults all, nodes drawn: 1/2",
        "faults all, nodes drawn: 2/2",
    ]


@pytest.mark.parametrize("invariant", [None, "I9"])
def test_a_process_that_dies_leaves_what_was_run(monkeypatch, capsys, invariant) -> None:
    found = run_one(0, SHORT, is_twice=False)

    def results(*_: object, **__: object) -> Iterator[Result]:
        yield replace(found, invariant=invariant)
        raise WorkerDiedError("a process died")

    monkeypatch.setattr(command, "results", results)
    words = ("--unmutated", "2", "--json")
    code, (line,), told = mutate(monkeypatch, capsys, (mutant_of(16),), *words)
    assert told == ["kraftline sim mutate: a process died"]
    assert json.loads(line)["seeds"] == 1
    assert code == (255 if invariant is None else 1)


def test_seeds_of_mutants_that_scenarios_find_are_none(capsys) -> None:
    found_by_scenario = next(mutant for mutant in RECORDS if mutant.scenario is not None)
    assert option_sets([found_by_scenario.number]) == {}
    assert run(["mutate", "--unmutated", "2", "--mutants", found_by_scenario.key]) == 0
    assert capsys.readouterr().out == ""


def test_a_scenario_that_is_not_there_is_an_error(monkeypatch, capsys, tmp_path) -> None:
    found_by_scenario = next(mutant for mutant in RECORDS if mutant.scenario is not None)
    monkeypatch.setattr(hunting, "SCENARIOS", tmp_path)
    code, _, complaints = mutate(monkeypatch, capsys, (found_by_scenario,))
    assert complaints[0].endswith("is in the source tree alone")
    assert code == 255


@pytest.mark.parametrize(
    ("text", "killer"), [("fly 101\n----\nok", "scenario"), ("kill 101\n----\nok", "I20")]
)
def test_a_scenario_that_cannot_be_performed_kills(monkeypatch, tmp_path, text, killer) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("by the mutant")

    monkeypatch.setattr(RecordsScenario, "_kill", fail)
    monkeypatch.setattr(hunting, "SCENARIOS", tmp_path / "records")
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "one.txt").write_text(f"# One.\n{text}\n")
    harmless_one = replace(MUTANTS[0], patch=lambda _: None, seeds_max=1, scenario="one")
    monkeypatch.setattr(hunting, "MUTANTS", (harmless_one,))
    assert hunt(harmless_one.number, 0, seconds_max=60.0).invariant == killer


def test_budgets_are_those_of_the_mutants_with_the_same_seeds() -> None:
    sets = option_sets([1, 7, 25])
    assert list(sets.values()) == [1000, 200]
    assert [Count(10, is_times=True).of(budget) for budget in sets.values()] == [10_000, 2_000]
    assert Count(10, is_times=False).of(1_000) == 10


@pytest.mark.parametrize("text", ["x", "0x", "-1x", "10y", "2xx"])
def test_a_count_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutate", f"--unmutated={text}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
