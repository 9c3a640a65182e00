"""`kraftline jepsen verify`: linearizability check of recorded histories.

`kraftline jepsen run` and `check` are in jepsen_run.py.

Exit code 0 when every history is linearizable, 1 when one is not, 2 when none was refuted but one
is unknown: a budget was spent, a file cannot be read, the command line is wrong.
"""

import json
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cli.arguments import INT64_MAX, Parser, integer, shortened
from jepsen.linearizability import (
    ILLEGAL,
    MODELS,
    OK,
    UNKNOWN,
    Budget,
    Counterexample,
    HistoryError,
    Progress,
    Result,
    check,
    explain,
    model_named,
    read_history,
)
from jepsen.linearizability.picture import page_of
from jepsen.linearizability.values import thawed, to_plain

EXIT_CODES: Final = {OK: 0, ILLEGAL: 1}
EXIT_UNKNOWN: Final = 2
USAGE: Final = (
    "usage: kraftline jepsen verify --model MODEL FILE...\n"
    "       kraftline jepsen run --workload WORKLOAD [--nemesis KINDS] [--seed N] ...\n"
    "       kraftline jepsen check DIR [--json]\n"
)
PROGRESS_INTERVAL_S: Final = 0.2


class _Parser(Parser):
    """Parser whose refusal gives no verdict: exit code 2, as 1 means illegal."""

    refusal_code = EXIT_UNKNOWN
    shows_usage = False


def run(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    if arguments and arguments[0] == "run":
        from cli.jepsen_run import run_command  # noqa: PLC0415  # verify starts without kio

        return run_command(arguments[1:])
    if arguments and arguments[0] == "check":
        from cli.jepsen_run import check_command  # noqa: PLC0415

        return check_command(arguments[1:])
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0
    if not arguments or arguments[0] != "verify":
        given = f"unknown command '{shortened(arguments[0])}'" if arguments else "no command"
        return _refuse(f"kraftline jepsen: {given}, allowed: verify, run, check")
    options = _parse(arguments[1:])
    if options.html is not None:
        try:
            _check_writable(Path(options.html))
        except OSError as error:
            return _refuse(f"{shortened(options.html)}: {error.strerror or error}")
    codes = [_verify(Path(name), options) for name in options.files]
    return 1 if 1 in codes else max(codes)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = _Parser("kraftline jepsen verify", "Judge whether histories are linearizable.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="histories; any format, gzip too")
    parser.add_argument("--model", required=True, choices=MODELS, help="the sequential model")
    parser.add_argument("--json", action="store_true", help="one JSON object per file")
    parser.add_argument(
        "--cache-entries",
        type=integer(1, INT64_MAX),
        default=Budget().cache_entries,
        metavar="N",
        help="configurations held in memory before the verdict is unknown (default %(default)s)",
    )
    parser.add_argument(
        "--time-limit", type=_seconds, metavar="S", help="seconds per file before it is unknown"
    )
    parser.add_argument(
        "--steps", type=integer(1, INT64_MAX), metavar="N", help="steps per file before unknown"
    )
    parser.add_argument("--explain", action="store_true", help="show a minimal counterexample")
    parser.add_argument("--html", metavar="FILE", help="write a picture of an illegal history")
    options = parser.parse_args(arguments)
    if options.html is not None and len(options.files) != 1:
        parser.error("--html draws one history: name one file")
    return options


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"'{shortened(text)}' is no number of seconds above 0")
    return number


def _check_writable(path: Path) -> None:
    """Check before the work that the file can be written at its end; raises OSError."""
    is_new = not path.exists()
    path.open("ab").close()
    if is_new:
        path.unlink()


def _verify(path: Path, options: Namespace) -> int:
    started = time.perf_counter()
    budget = Budget(
        cache_entries=options.cache_entries, steps=options.steps, seconds=options.time_limit
    )
    show = _progress_line(path.name) if sys.stderr.isatty() else None
    model = model_named(options.model)
    try:
        history = read_history(path)
        result = check(history, model, budget=budget, on_progress=show)
    except HistoryError as error:
        return _give_up(path, str(error), time.perf_counter() - started, options)
    except OSError as error:
        text = f"{shortened(str(path))}: {error.strerror or error}"
        return _give_up(path, text, time.perf_counter() - started, options)
    finally:
        if show is not None:
            sys.stderr.write("\r\x1b[K")
    seconds = time.perf_counter() - started
    found = None
    if result.verdict == ILLEGAL and (options.explain or options.html):
        found = explain(history, model, result=result)
        assert found is not None, "an illegal history has a counterexample"
    if found is not None and options.html:
        Path(options.html).write_text(page_of(history, model, result, found), encoding="utf-8")
    shown = found if options.explain else None
    if options.json:
        _print_json(path, result, seconds, shown)
    else:
        _print(path, result, seconds, shown)
    return EXIT_CODES.get(result.verdict, EXIT_UNKNOWN)


def _give_up(path: Path, text: str, seconds: float, options: Namespace) -> int:
    """Report a file that is no history: a line on standard error, with `--json` an object too."""
    if options.json:
        line = _object(path, UNKNOWN, operations=0, steps=0, seconds=seconds) | {"error": text}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return _refuse(text)


def _refuse(text: str) -> int:
    sys.stderr.write(f"{_line(text)}\n")
    return EXIT_UNKNOWN


def _line(text: str) -> str:
    """The text as one line that can be encoded; lone surrogates and line ends become escapes."""
    joined = text.replace("\n", "\\n").replace("\r", "\\r")
    return joined.encode("utf-8", "backslashreplace").decode("utf-8")


def _progress_line(name: str) -> Callable[[Progress], None]:
    shown = time.perf_counter()
    started = shown

    def show(progress: Progress) -> None:
        nonlocal shown
        now = time.perf_counter()
        if now - shown < PROGRESS_INTERVAL_S:
            return
        shown = now
        sys.stderr.write(
            f"\r\x1b[K{name}: {progress.decided} of {progress.searches} searches decided, "
            f"{progress.steps:,} steps, {now - started:.0f} s"
        )
        sys.stderr.flush()

    return show


def _print(
    path: Path, result: Result, seconds: float, counterexample: Counterexample | None
) -> None:
    reason = f" ({result.reason})" if result.reason else ""
    what = f"{path}: {result.verdict}{reason}"
    sys.stdout.write(
        f"{_line(what)}  "
        f"{result.operations:,} operations, {result.steps:,} steps, {seconds:.3f} s\n"
    )
    lines = [] if counterexample is None else counterexample.text()
    sys.stdout.writelines(f"  {_line(line)}\n" for line in lines)
    sys.stdout.flush()


def _object(
    path: Path, verdict: str, *, operations: int, steps: int, seconds: float
) -> dict[str, Any]:
    """Common fields of every object of `--json`."""
    return {
        "file": str(path),
        "verdict": verdict,
        "operations": operations,
        "steps": steps,
        "seconds": round(seconds, 6),
    }


def _print_json(
    path: Path, result: Result, seconds: float, counterexample: Counterexample | None
) -> None:
    line = _object(
        path,
        result.verdict,
        operations=result.operations,
        steps=result.steps,
        seconds=seconds,
    )
    if result.reason is not None:
        line["reason"] = result.reason
    if counterexample is not None:
        shown = msgspec.structs.replace(
            counterexample, keys=tuple(to_plain(thawed(key)) for key in counterexample.keys)
        )
        line["counterexample"] = msgspec.to_builtins(shown)
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
