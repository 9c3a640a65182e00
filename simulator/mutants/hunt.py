"""Hunt for mutants: seeds are run one after the other until an invariant breaks.

Some of the data plane change what a scenario says instead: that one is run, whatever the seed.
"""

import statistics
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from simulator.campaign.draw import Options
from simulator.campaign.runs import run_with
from simulator.mutants.catalogue import MUTANTS
from simulator.mutants.records_mutant import SCENARIO
from simulator.mutants.registry import Mutant, MutantError
from simulator.scenarios.command import ScenarioError
from simulator.scenarios.scenario import difference

BASES: Final = (0, 1_000_000, 2_000_000)
"""First seeds of the three attempts; the one in the middle counts."""


SCENARIOS: Final = Path(__file__).resolve().parents[2] / "tests" / "scenarios" / "records"
CRASH: Final = "I20"
"""An exception or an assertion of the code under test: it proves little about the checks."""


class State(StrEnum):
    """Result of the attempts on a mutant; each kind of end counts in more than half of them."""

    KILLED = "killed"
    """By an expected invariant."""
    OTHERWISE = "by another invariant"
    """Killed, but not by an expected invariant."""
    CRASHED = "I20 only"
    """Killed, but not if the attempts that ended by I20 were left out; expected or not."""
    SURVIVED = "survived"
    """All its seeds were run."""
    OVER = "budget over"
    """Neither: the seconds were spent before the seeds were."""


class Hunt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt on one mutant."""

    number: int
    base: int
    seeds: int
    """Seeds that were run, the killing one included."""
    seconds: float
    """Processor time of one core."""
    invariant: str | None
    """Invariant that broke, None if none did."""
    is_over: bool = False
    """True: its seconds were spent before its seeds were, and nothing broke."""
    text: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts on one mutant; seeds and seconds are each the median of the attempts."""

    mutant: str
    name: str
    text: str
    state: State
    seeds: int
    seeds_max: int
    seconds: float
    invariants: tuple[str, ...]
    """Invariant that killed it, per attempt; `-` where none did."""
    expected: tuple[str, ...]
    hunts: tuple[Hunt, ...]


def mutant_of(number: int) -> Mutant:
    """Mutant with a number.

    Raises:
        KeyError: there is none.
    """
    return {mutant.number: mutant for mutant in MUTANTS}[number]


def hunt(number: int, base: int, seconds_max: float) -> Hunt:
    """Run a mutant from a seed on until it dies or its budget is spent.

    Args:
        number: the mutant's.
        base: the first seed.
        seconds_max: of one core; at least one seed is run.

    Raises:
        MutantError: the mutant does not fit the code, or a part of it ran in none of its seeds.
    """
    mutant = mutant_of(number)
    started = time.process_time()
    invariant, text, seeds, is_over = None, "", 0, False
    with mutant.apply() as patches:
        while invariant is None and seeds < mutant.seeds_max:
            invariant, text = _attempt(mutant, base + seeds)
            seeds += 1
            if time.process_time() - started > seconds_max:
                is_over = invariant is None and seeds < mutant.seeds_max
                break
        if patches.unreached and not is_over:
            never = ", ".join(sorted(patches.unreached))
            raise MutantError(f"{mutant.key} {mutant.name}: what it replaced never ran: {never}")
    return Hunt(
        number=number,
        base=base,
        seeds=seeds,
        seconds=round(time.process_time() - started, 2),
        invariant=invariant,
        is_over=is_over,
        text=text,
    )


def _attempt(mutant: Mutant, seed: int) -> tuple[str | None, str]:
    """Run a seed, or the scenario of the mutant; what it is killed by, None if it is not."""
    if mutant.scenario is None:
        outcome = run_with(seed, mutant.options)
        return outcome.invariant, outcome.text
    path = SCENARIOS / f"{mutant.scenario}.txt"
    if not path.exists():
        raise MutantError(f"{mutant.key} {mutant.name}: {path} is in the source tree alone")
    try:
        changed = difference(path)
    except ScenarioError as error:  # a command that cannot be performed any more
        changed = str(error)
    except Exception as error:  # noqa: BLE001 - as in a run of a seed
        return CRASH, f"{type(error).__name__}: {error}"
    return SCENARIO if changed else None, changed


def judge(number: int, hunts: list[Hunt]) -> Verdict:
    """Judge all attempts on a mutant."""
    mutant = mutant_of(number)
    spent = [each.seeds if each.invariant else mutant.seeds_max + 1 for each in hunts]
    seeds = int(statistics.median_low(spent))
    return Verdict(
        mutant=mutant.key,
        name=mutant.name,
        text=mutant.text,
        state=_state_of(hunts, mutant.expected),
        seeds=seeds if seeds <= mutant.seeds_max else max(each.seeds for each in hunts),
        seeds_max=mutant.seeds_max,
        seconds=statistics.median_low([each.seconds for each in hunts]),
        invariants=tuple(each.invariant or "-" for each in hunts),
        expected=mutant.expected,
        hunts=tuple(hunts),
    )


def _state_of(hunts: list[Hunt], expected: tuple[str, ...]) -> State:
    """State that more than half of the attempts show."""
    killers = [each.invariant for each in hunts if each.invariant is not None]
    survivals = sum(each.invariant is None and not each.is_over for each in hunts)
    half = len(hunts) / 2
    if survivals > half:
        return State.SURVIVED
    if len(killers) <= half:
        return State.OVER
    if sum(killer != CRASH for killer in killers) <= half:
        return State.CRASHED
    if sum(killer in expected for killer in killers) <= half:
        return State.OTHERWISE
    return State.KILLED


def option_sets(numbers: Iterable[int]) -> dict[Options, int]:
    """Options of these mutants, each with the largest budget of seeds of its mutants.

    In the order of the list; those that scenarios find have none.
    """
    found: dict[Options, int] = {}
    for mutant in map(mutant_of, numbers):
        if mutant.scenario is not None:
            continue
        found[mutant.options] = max(mutant.seeds_max, found.get(mutant.options, 0))
    return found
