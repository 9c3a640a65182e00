"""`python -m tests.fuzz [--target T] [--cases N] [--seed S]`: fuzz one decoder, or all of them.

With all targets, `--cases` is shared out by their weights. `--input HEX` runs one input. Exit code
0: nothing found; 1: an input breaks a property, and the command that repeats it is printed.
"""

import argparse
import gc
import sys
import time
from random import Random

from tests.fuzz.engine import FoundError, Report, check_one, run
from tests.fuzz.registry import all_targets

PROGRESS_S = 2.0


def main() -> int:
    targets = all_targets()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=[*targets, "all"], default="all")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", metavar="HEX", help="one input of --target")
    asked = parser.parse_args()
    chosen = list(targets) if asked.target == "all" else [asked.target]
    if asked.input is not None:
        data = b"" if asked.input == "-" else bytes.fromhex(asked.input)
        return _one(asked.target, data)
    gc.collect()
    gc.freeze()  # or a collection is counted as the time of an input
    weights = sum(targets[name].weight for name in chosen)
    total, seconds, found = 0, 0.0, 0
    for name in chosen:
        cases = max(1, round(asked.cases * targets[name].weight / weights))
        try:
            report = run(targets[name], cases, asked.seed, _progress(cases))
        except FoundError as error:
            sys.stdout.write(f"\r\x1b[K{error}\n")
            found += 1
            continue
        total += report.cases
        seconds += report.seconds
        _print(report)
    sys.stdout.write(f"{total:,} cases, {seconds:.0f} s, {found} targets with a finding\n")
    return 1 if found else 0


def _one(name: str, data: bytes) -> int:
    report = Report(name)
    try:
        accepted = check_one(all_targets()[name], data, Random(0), report)
    except FoundError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{'accepted' if accepted else f'refused: {report.kinds}'}\n")
    return 0


def _progress(cases: int):
    shown = time.perf_counter()

    def show(report: Report) -> None:
        nonlocal shown
        if time.perf_counter() - shown < PROGRESS_S or not sys.stderr.isatty():
            return
        shown = time.perf_counter()
        rate = report.cases / report.seconds
        sys.stderr.write(f"\r\x1b[K{report.target}: {report.cases:,} of {cases:,}, {rate:.0f}/s")
        sys.stderr.flush()

    return show


def _print(report: Report) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    refusals = ", ".join(f"{count:,} {name}" for name, count in sorted(report.kinds.items()))
    sys.stdout.write(
        f"{report.target:<20} {report.cases:>9,} cases {report.seconds:>7.1f} s "
        f"{report.accepted:>9,} accepted, slowest {report.slowest_s * 1000:.1f} ms; {refusals}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
