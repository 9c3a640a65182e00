"""Work of the simulator for an event, in instructions: figures that no load changes.

python -m benchmarks.simulator_work [--seed N] [--seconds N] [--functions N] [--native] [--json]

One standard seed of 5 voters runs under a tracer that counts bytecode instructions by function. The
count is the same in every run, so that two trees can be compared to the last instruction on a
machine whose speed varies by half. What C does (attribute lookups, frames of calls, objects, kio's
codecs, checksums, dicts) is not in it: `--native` counts that too, under valgrind, as the
difference between two runs of the seed and one. The time of an event follows the native count. A
run takes some forty times as long as without the tracer, and the native ones a minute.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from benchmarks import report
from simulator.campaign.draw import Options
from simulator.campaign.run import Outcome, run_seed

ROOT: Final = Path(__file__).resolve().parent.parent
WRITES_PER_SECOND: Final = 200 / 60


class Count:
    """Calls and instructions by code object during `run`."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.instructions: Counter[CodeType] = Counter()

    def run(self, act: Callable[[], Outcome]) -> Outcome:
        """Count the calls and instructions of an act."""
        sys.settrace(self._entered)
        try:
            return act()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, kind: str, _: Any) -> Callable[..., Any]:
        assert kind == "call"
        code = frame.f_code
        self.calls[code] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def counted(_: FrameType, kind: str, __: Any) -> Callable[..., Any]:
            if kind == "opcode":
                self.instructions[code] += 1
            return counted

        return counted


def package_of(code: CodeType) -> str:
    """Import package of a function; "libraries" for code of others."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or "site-packages" in path.parts:
        return "libraries"
    return path.relative_to(ROOT).parts[0]


def repeat(seed: int, options: Options, times: int) -> None:
    """Run a seed repeatedly, for `native_instructions`."""
    for _ in range(times):
        run_seed(seed, options)


def native_instructions(seed: int, seconds: int) -> int:
    """Machine instructions for one run of a seed in a process that has run it before.

    Raises:
        SystemExit: valgrind is not installed.
    """
    counts = []
    for times in (1, 2):
        act = f"b.repeat({seed}, b.options_for({seconds}), {times})"
        python = [sys.executable, "-c", f"import benchmarks.simulator_work as b; {act}"]
        tool = [
            "valgrind",
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ]
        try:
            done = subprocess.run(
                tool + python,
                env=os.environ | {"PYTHONHASHSEED": "0"},
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
                check=True,
            )
        except FileNotFoundError:
            raise SystemExit("--native needs valgrind, which is not installed") from None
        found = re.search(r"I +refs: +([0-9,]+)", done.stderr)
        assert found is not None, done.stderr
        counts.append(int(found[1].replace(",", "")))
    return counts[1] - counts[0]


def options_for(seconds: int) -> Options:
    """A standard seed of 5 voters, shorter."""
    return Options(
        node_count=5,
        duration_us=seconds * 1_000_000,
        write_count=round(seconds * WRITES_PER_SECOND),
    )


def main() -> None:
    """Run the seed and print instructions per event, by package and by function."""
    parser = report.parser(__doc__)
    parser.add_argument("--seed", type=int, default=2, help="the seed (2)")
    parser.add_argument("--seconds", type=int, default=10, help="virtual seconds (10)")
    parser.add_argument("--functions", type=int, default=20, help="how many to show (20)")
    parser.add_argument("--native", action="store_true", help="count what C does too (valgrind)")
    options = parser.parse_args()
    seed = options_for(options.seconds)
    run_seed(options.seed, seed)  # one-time work of a process is not counted
    count = Count()
    outcome = count.run(lambda: run_seed(options.seed, seed))
    events = outcome.event_count
    packages: Counter[str] = Counter()
    for code, instructions in count.instructions.items():
        packages[package_of(code)] += instructions
    rows: dict[str, dict[str, Any]] = {
        "all": {
            "instructions": round(count.instructions.total() / events, 1),
            "calls": round(count.calls.total() / events, 2),
        }
    }
    if options.native:
        native = native_instructions(options.seed, options.seconds)
        rows["native"] = {"instructions": round(native / events, 1)}
    for package, instructions in packages.most_common():
        rows[package] = {"instructions": round(instructions / events, 1)}
    for code, instructions in count.instructions.most_common(options.functions):
        rows[f"{code.co_qualname} ({Path(code.co_filename).stem})"] = {
            "instructions": round(instructions / events, 1),
            "calls": round(count.calls[code] / events, 2),
        }
    if options.json:
        report.show("simulator_work", rows, as_json=True)
        return
    print(f"seed {options.seed}, {events:,} events; of one event:")
    print("instructions   calls")
    for name, row in rows.items():
        print(f"{row['instructions']:12,.1f} {row.get('calls', ''):>7}  {name}")


if __name__ == "__main__":
    main()
