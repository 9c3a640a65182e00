"""Work of a `kraftline sim records` command line: seed after seed, and what they add up to."""

import sys
from argparse import Namespace
from collections import Counter
from typing import Final

import msgspec

from simulator.campaign.campaign import NONDETERMINISTIC, exit_code_of
from simulator.records.run import RecordsOutcome, options_of, run_records

TEXT_CHARACTERS: Final = 2_000


def perform(given: Namespace) -> int:
    """Run the seeds of a command line; return the exit code."""
    seeds = given.seeds if given.seed is None else (given.seed,)
    exit_code, failed = 0, 0
    sums: Counter[str] = Counter()
    for number in seeds:
        outcome = _run(number, given)
        sums.update(outcome.marks, events=outcome.event_count, acknowledged=outcome.acknowledged)
        if outcome.invariant is not None:
            failed += 1
            exit_code = exit_code or exit_code_of(outcome.invariant)
            _say(outcome)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(sums.items()))
    sys.stdout.write(f"{len(seeds)} seeds, {failed} failed: {counts}\n")
    return exit_code


def _run(number: int, given: Namespace) -> RecordsOutcome:
    options = options_of(number)
    if given.quiet:
        options = msgspec.structs.replace(options, faults=())
    trace = _print_line if given.trace else None
    outcome = run_records(number, options, trace=trace)
    if given.twice and outcome.invariant is None:
        digest = run_records(number, options).digest
        if digest != outcome.digest:
            text = f"digests {outcome.digest:#x} and {digest:#x}"
            return msgspec.structs.replace(outcome, invariant=NONDETERMINISTIC, text=text)
    return outcome


def _print_line(at_us: int, text: str) -> None:
    sys.stdout.write(f"{at_us / 1e6:12.6f} {text}\n")


def _say(outcome: RecordsOutcome) -> None:
    sys.stdout.write(
        f"SIM-FAIL seed={outcome.seed:#x} invariant={outcome.invariant} "
        f"t={outcome.at_us / 1e6:.6f}s event={outcome.event_count} "
        f"replay: kraftline sim records --seed {outcome.seed:#x}\n"
        f"  {outcome.text[:TEXT_CHARACTERS]}\n"
    )
