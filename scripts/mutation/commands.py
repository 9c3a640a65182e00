"""`scripts/mutants`: the mutation score of the quick tests over some packages.

Exit codes: 0 done, 1 the score is below the floor, nothing could be judged or the reader of the
output has left, 2 usage.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.mutation.modules import PACKAGES, ROOT
from scripts.mutation.points import Point
from scripts.mutation.run import Run, say, trace_of_tree
from scripts.mutation.sampling import Coverage, sample
from scripts.mutation.score import (
    Results,
    judged,
    read_equivalents,
    read_results,
    scores,
    survivor_text,
    table,
)
from scripts.mutation.servers import WorkerError

DONE: Final = 0
FAILED: Final = 1
SECONDS: Final = 30.0
"""Running time of the covering tests that are run for one mutant; the nearest to it come first."""
EXAMPLES: Final = """\
examples:
  scripts/mutants raft --sample 40               40 mutants of raft, drawn by the commit
  scripts/mutants raft storage --seed 7          every mutant of two packages
  scripts/mutants raft --results r.json          goes on where r.json ends
  scripts/mutants raft --results r.json --retry  runs its survivors again
"""


def main(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    arguments = _parser().parse_args(words)
    arguments.packages = arguments.packages or list(PACKAGES)
    try:
        results = _results(arguments)
        drawn = sample(results.packages, results.sample, results.seed)
        if arguments.list:
            lines = [f"{point.module}:{point.line} {point.id}\n" for point in drawn]
            return _print("".join(lines), DONE)
        waiting = _waiting(arguments, drawn, results)
        if waiting:
            trace = trace_of_tree(arguments.jobs)
            coverage = Coverage(trace, PACKAGES, seconds_max=arguments.seconds)
            Run(results, arguments.results, coverage).judge(waiting, arguments.jobs)
    except (WorkerError, ValueError) as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt:
        return 130
    return _report(results, arguments)


def _results(arguments: argparse.Namespace) -> Results:
    """Return the results to go on with: those of the file, or an empty set."""
    path: Path | None = arguments.results
    if path is None or not path.exists():
        commit = _commit()
        return Results(commit, arguments.seed or commit, arguments.sample, arguments.packages)
    results = read_results(path)
    wanted = (arguments.packages, arguments.sample, arguments.seed or results.seed)
    if (results.packages, results.sample, results.seed) != wanted:
        raise ValueError(
            f"{path} holds another sample: {results.sample or 'all'} of "
            f"{' '.join(results.packages)}, seed {results.seed}"
        )
    return results


def _waiting(arguments: argparse.Namespace, drawn: list[Point], results: Results) -> list[Point]:
    """Return the mutants to run: those of the sample without a result, or those that survived."""
    if not arguments.retry:
        return [point for point in drawn if point.id not in results.found]
    survivors = {r.id for r in results.found.values() if r.outcome == "survived"}
    for survivor in survivors:
        del results.found[survivor]
    return [point for point in sample(results.packages, None, "") if point.id in survivors]


def _report(results: Results, arguments: argparse.Namespace) -> int:
    equivalents = read_equivalents()
    found = scores(results.found.values(), equivalents)
    survivors = [
        result
        for result, outcome in judged(results.found.values(), equivalents)
        if outcome == "survived"
    ]
    if arguments.json:
        content = {
            "commit": results.commit,
            "seed": results.seed,
            "scores": {package: score.as_json() for package, score in found.items()},
            "survivors": [{"id": r.id, "line": r.line, "covering": r.covering} for r in survivors],
        }
        text = json.dumps(content, indent=2) + "\n"
    else:
        lines = [f"survived: {survivor_text(result)}\n" for result in survivors]
        text = f"{''.join(lines)}{table(found)}\nseed {results.seed}\n"
    is_below = found["all"].percent < arguments.floor
    exit_code = _print(text, FAILED if is_below else DONE)
    if is_below:
        say(f"the score is below {arguments.floor:g} %")
    return exit_code


def _print(text: str, exit_code: int) -> int:
    """Print the output of the command and return its exit code; 1 when the reader has left."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing more to say, not even at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return exit_code


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mutants",
        description="Break the code in one place at a time and see which quick tests notice.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "packages",
        nargs="*",
        type=_package,
        metavar="PACKAGE",
        help=f"of {', '.join(PACKAGES)} (all)",
    )
    parser.add_argument("--sample", type=_count, metavar="N", help="run N, not all")
    parser.add_argument("--seed", metavar="S", help="what draws them (the commit)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="results, kept and continued")
    parser.add_argument("--retry", action="store_true", help="run the survivors of FILE again")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"of tests a mutant ({SECONDS})"
    )
    parser.add_argument("--jobs", type=_count, default=1, metavar="N", help="processes (1)")
    parser.add_argument(
        "--floor", type=float, default=0.0, metavar="PERCENT", help="fail below this score"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON value")
    return parser


def _package(text: str) -> str:
    if text not in PACKAGES:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(PACKAGES)}")
    return text


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
