"""Every mutant of the lists fits the code; the quick ones die here, all with `long`."""

import json
from pathlib import Path

import pytest

from simulator.main import run
from simulator.mutants.arguments import Count
from simulator.mutants.catalogue import MUTANTS, NOT_APPLICABLE
from simulator.mutants.hunt import BASES, Hunt, hunt, judge, mutant_of, option_sets
from simulator.mutants.registry import MutantError, Patches
from simulator.run import run_seed
from tests.selection import thinned

QUICK = ("M16", "M17", "M22", "M28", "M32", "M38", "M43", "M50", "M52", "M1", "M2", "M6", "M8")
"""Those that die within a second or two, the quickest first."""


SLOW: tuple[str, ...] = ()
"""Minutes: `kraftline sim mutate` has them, not the tests."""
SURVIVORS: tuple[str, ...] = ()
"""What the simulator does not find yet; the table says why."""


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
        assert first.calls == second.calls == 0


@pytest.mark.parametrize("key", thinned(QUICK, every=3))
def test_a_mutant_dies(key: str) -> None:
    mutant = mutant_of(number_of(key))
    found = hunt(mutant.number, BASES[0], seconds_max=60.0)
    assert found.invariant in mutant.expected, found
    assert run_seed(BASES[0] + found.seeds - 1, mutant.options).invariant is None


@pytest.mark.long
@pytest.mark.parametrize(
    "mutant",
    [m for m in MUTANTS if m.key not in {*QUICK, *SLOW, *SURVIVORS}],
    ids=lambda mutant: mutant.key,
)
def test_a_mutant_dies_within_its_budget_of_seeds(mutant) -> None:
    found = hunt(mutant.number, BASES[0], seconds_max=120.0)
    assert found.invariant in mutant.expected, found


def test_who_survives_stands_in_the_table() -> None:
    table = Path("docs/simulator/mutants.md").read_text(encoding="utf-8").splitlines()
    surviving = {line.split("|")[1].strip() for line in table if "**not killed yet**" in line}
    assert surviving == set(SURVIVORS)


def test_a_target_that_is_gone_is_an_error() -> None:
    from raft import vote
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


def _mutant_with(patch):
    from msgspec.structs import replace

    return replace(MUTANTS[0], patch=patch)


def test_the_attempt_in_the_middle_counts() -> None:
    def attempt(seeds: int, invariant: str | None) -> Hunt:
        return Hunt(number=3, base=0, seeds=seeds, seconds=1.0, invariant=invariant)

    assert judge(3, [attempt(7, "I4"), attempt(90, "I4"), attempt(2, "I7")]).seeds == 7
    assert judge(3, [attempt(7, "I4"), attempt(100, None), attempt(2, "I7")]).is_killed
    assert not judge(3, [attempt(100, None), attempt(100, None), attempt(2, "I7")]).is_killed


def test_a_mutant_that_does_not_apply_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutate", "--mutants", "M1,M18"]) == 2
    said = capsys.readouterr().err
    assert "M18 does not apply: voters are static" in said
    assert run(["mutate", "--mutants", "M99"]) == 2
    assert "'M99' is no mutant, only M1, M2" in capsys.readouterr().err


def test_the_command_prints_one_object_per_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutate", "--mutants", "M16,M17", "--bases", "1", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["mutant"] for line in lines] == ["M16", "M17"]
    assert all(line["is_killed"] and line["invariants"][0] in line["expected"] for line in lines)


@pytest.mark.long
def test_seeds_without_a_mutant_hold_and_are_counted_per_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["mutate", "--unmutated", "2", "--mutants", "M1,M25", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seeds"] for line in lines] == [2, 2]
    assert [line["options"]["node_count"] for line in lines] == [None, 3]
    assert [line["failed"] for line in lines] == [[], []]


def test_budgets_are_those_of_the_mutants_with_the_same_seeds() -> None:
    sets = option_sets([1, 7, 25])
    assert list(sets.values()) == [1000, 200]
    assert [Count(10, is_times=True).of(budget) for budget in sets.values()] == [10_000, 2_000]
    assert Count(10, is_times=False).of(1_000) == 10


@pytest.mark.parametrize("text", ["x", "0x", "-1x", "10y", "2xx"])
def test_a_count_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mutate", f"--unmutated={text}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
