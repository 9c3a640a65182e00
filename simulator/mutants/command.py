"""`kraftline sim mutate`: seeds and seconds that each mutant needs to die.

Exit code: 0 every mutant died within its budget (or the unmutated tree held), 1 not, 2 bad input.
"""

import multiprocessing
import sys
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Final

import msgspec

from simulator.arguments import Parser
from simulator.campaign import results
from simulator.mutants.arguments import Count
from simulator.mutants.catalogue import MUTANTS, NOT_APPLICABLE
from simulator.mutants.hunt import BASES, Hunt, Verdict, hunt, judge, option_sets

SURVIVED: Final = 1
ROW: Final = "{:<4} {:<24} {:>6} {:>6} {:>8}  {}"


def perform(parser: Parser, given: Namespace) -> int:
    """Does what a parsed command line says; returns the exit code."""
    try:
        numbers = _numbers(parser, given.mutants)
    except SystemExit as stop:
        return int(stop.code or 0)
    if given.unmutated is not None:
        return _control(given.unmutated, numbers, given.jobs, is_json=given.json)
    if not given.json:
        _say(ROW.format("", "mutant", "seeds", "of", "seconds", "killed by"))
    is_clean = True
    for verdict in _verdicts(numbers, BASES[: given.bases], given.budget, given.jobs):
        is_clean = is_clean and verdict.is_killed
        _say(msgspec.json.encode(verdict).decode() if given.json else _row(verdict))
    return 0 if is_clean else SURVIVED


def _say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _row(verdict: Verdict) -> str:
    """A verdict as a line of the table."""
    killers = ", ".join(dict.fromkeys(verdict.invariants))
    end = killers if verdict.is_killed else f"SURVIVED ({killers})"
    seconds = f"{verdict.seconds:.1f}"
    return ROW.format(verdict.mutant, verdict.name, verdict.seeds, verdict.seeds_max, seconds, end)


def _numbers(parser: Parser, text: str | None) -> list[int]:
    """The mutants of `--mutants`; none given: all."""
    known = {mutant.key: mutant.number for mutant in MUTANTS}
    not_applicable = {f"M{number}": reason for number, (_, reason) in NOT_APPLICABLE.items()}
    if text is None:
        return list(known.values())
    numbers = []
    for key in text.split(","):
        if key in known:
            numbers.append(known[key])
        elif key in not_applicable:
            parser.error(f"{key} does not apply: {not_applicable[key]}")
        else:
            parser.error(f"'{key[:80]}' is no mutant, only {', '.join(known)}")
    return numbers


def _verdicts(
    numbers: list[int], bases: tuple[int, ...], seconds_max: float, job_count: int
) -> Iterator[Verdict]:
    """In the order of the numbers, each as soon as its attempts are over."""
    if job_count == 1:
        for number in numbers:
            yield judge(number, [hunt(number, base, seconds_max) for base in bases])
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job_count, mp_context=context) as pool:
        waiting: dict[int, list[Future[Hunt]]] = {
            number: [pool.submit(hunt, number, base, seconds_max) for base in bases]
            for number in numbers
        }
        for number, futures in waiting.items():
            yield judge(number, [future.result() for future in futures])


def _control(count: Count, numbers: list[int], job_count: int, *, is_json: bool) -> int:
    """The tree as it is, under the options of these mutants."""
    failed = 0
    for options, budget in option_sets(numbers).items():
        seeds = range(BASES[0], BASES[0] + count.of(budget))
        found = list(results(seeds, options, is_twice=False, job_count=job_count))
        broken = [result for result in found if result.invariant is not None]
        failed += len(broken)
        line = {
            "options": msgspec.to_builtins(options),
            "seeds": len(found),
            "failed": [f"{r.seed} {r.invariant}: {r.text}" for r in broken],
            "seconds": round(sum(result.cpu_seconds for result in found), 1),
        }
        fixed = f"faults {options.faults or 'all'}, nodes {options.node_count or 'drawn'}"
        text = f"{fixed}: {line['seeds']} seeds, failed {line['failed']}"
        _say(msgspec.json.encode(line).decode() if is_json else text)
    return SURVIVED if failed else 0
