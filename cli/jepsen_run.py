"""`kraftline jepsen run`: real nodes, real faults, raw clients, a history and a verdict.

Exit codes: 0 valid, 1 invalid, 2 unknown, 254 the command line is wrong, 255 the run could not be
carried out or was interrupted. All started processes are stopped; a failure to stop is reported.

`kraftline jepsen check` judges a stored run again; a folder without one counts as a wrong command
line.
"""

import json
import sys
import time
import traceback
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cli.arguments import INT64_MAX, Parser, integer, shortened, text
from jepsen.names import (
    APPEND_LOG,
    GROUP,
    KINDS,
    LINEARIZABLE,
    LOCAL,
    NODES_MAX,
    OF_RECORDS,
    READS,
    TXN,
    UNCOMMITTED,
    WORKLOADS,
    kinds_of,
)

EXIT_USAGE: Final = 254
EXIT_FAILED: Final = 255
TIME_LIMIT_S: Final = 60.0
RATE: Final = 50.0
CONCURRENCY: Final = 8
CONCURRENCY_MAX: Final = 200
RATE_MAX: Final = 10_000.0
TIME_LIMIT_S_MAX: Final = 86_400.0
PORT_MAX: Final = 63_000
UNCLEAN_NODES_MIN: Final = 3
"""With one node down the quorum must live on."""


class _Parser(Parser):
    """Parser whose refusal is a harness error: 1 would mean invalid."""

    refusal_code = EXIT_USAGE
    shows_usage = False


def run_command(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    asked = _parse(arguments)
    from jepsen.run import EXIT_CODES, HarnessError, run  # noqa: PLC0415  # help is without it

    started_s = time.monotonic()

    def say(line: str) -> None:
        if not asked.json or sys.stderr.isatty():
            sys.stderr.write(f"{time.monotonic() - started_s:6.1f} s  {line}\n")
            sys.stderr.flush()

    try:
        results = run(_options(asked), say)
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything is undone\n")
        return EXIT_FAILED
    except Exception:  # noqa: BLE001  # exit code 1 would blame the nodes
        traceback.print_exc()
        sys.stderr.write("the harness failed; everything is undone\n")
        return EXIT_FAILED
    sys.stdout.write(json.dumps(results) + "\n" if asked.json else _text(results))
    sys.stdout.flush()
    return EXIT_CODES[results["verdict"]]


def check_command(arguments: Sequence[str]) -> int:
    """Judge a stored run again and return the exit code."""
    parser = _Parser("kraftline jepsen check", "Judge a stored run again, by all checks.")
    parser.add_argument("folder", type=_folder, metavar="DIR", help="what 'run --dir' named")
    parser.add_argument("--json", action="store_true", help="one object as the last line")
    asked = parser.parse_args(arguments)
    from jepsen.judgement import StoredRunError, judged_again  # noqa: PLC0415  # as above
    from jepsen.run import EXIT_CODES  # noqa: PLC0415

    try:
        results = judged_again(asked.folder) | {"dir": str(asked.folder)}
    except StoredRunError as error:
        parser.error(str(error))
    except OSError as error:  # a folder that cannot be read
        parser.error(f"{shortened(str(error.filename))}: {error.strerror}")
    sys.stdout.write(json.dumps(results) + "\n" if asked.json else _text(results))
    sys.stdout.flush()
    return EXIT_CODES[results["verdict"]]


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = _Parser("kraftline jepsen run", "Test real nodes under faults.")
    parser.add_argument("--workload", required=True, choices=WORKLOADS, help="what clients do")
    parser.add_argument(
        "--nemesis",
        type=_kinds,
        metavar="KINDS",
        help=f"faults, separated by commas: {', '.join(KINDS)}; or none (default: all that the "
        "workload has)",
    )
    limits = {
        "nodes": (int, 3, 1, NODES_MAX, "combined nodes"),
        "time-limit": (float, TIME_LIMIT_S, 1, TIME_LIMIT_S_MAX, "seconds of work and faults"),
        "seed": (int, 0, 0, INT64_MAX, "decides operations and faults"),
        "rate": (float, RATE, 0.1, RATE_MAX, "operations per second of all clients"),
        "concurrency": (int, CONCURRENCY, 1, CONCURRENCY_MAX, "clients at a time"),
        "base-port": (int, None, 1, PORT_MAX, "first port; default: free ones"),
    }
    for name, (kind, default, low, high, help_text) in limits.items():
        parser.add_argument(
            f"--{name}",
            type=integer(int(low), int(high)) if kind is int else _between(low, high),
            default=default,
            metavar="N",
            help=help_text,
        )
    parser.add_argument(
        "--reads",
        choices=READS,
        default=READS[0],
        help="quorum: behind a write of their own; linearizable: by the inspection API's promise; "
        "local: from a node's own image, which is not linearizable; uncommitted (txn): also what "
        "transactions aborted (controls)",
    )
    parser.add_argument(
        "--no-idempotence",
        action="store_true",
        help="append-log: a record may be there more than once",
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="append-log: topics may lose records, and do (a control)",
    )
    parser.add_argument(
        "--early-commits",
        action="store_true",
        help="group: members commit a record more than they have read (a control)",
    )
    parser.add_argument("--dir", type=_folder, help="new folder for everything, kept afterwards")
    parser.add_argument("--json", action="store_true", help="one object as the last line")
    asked = parser.parse_args(arguments)
    _check_together(parser, asked)
    return asked


def _check_together(parser: _Parser, asked: Namespace) -> None:
    """Refuse what the workload does not have; fill in its faults where none are named."""
    flags = {"no_idempotence": APPEND_LOG, "unclean": APPEND_LOG, "early_commits": GROUP}
    for flag, workload in flags.items():
        if getattr(asked, flag) and asked.workload != workload:
            parser.error(f"--{flag.replace('_', '-')} is about {workload}")
    is_of_metadata = asked.workload not in OF_RECORDS
    has_reads = {LOCAL: is_of_metadata, LINEARIZABLE: is_of_metadata}
    has_reads[UNCOMMITTED] = asked.workload == TXN
    if not has_reads.get(asked.reads, True):
        parser.error(f"--reads {asked.reads} is none of {asked.workload}")
    if asked.unclean and asked.nodes < UNCLEAN_NODES_MIN:
        parser.error(f"--unclean needs at least {UNCLEAN_NODES_MIN} nodes")
    allowed = kinds_of(asked.workload, is_unclean=asked.unclean)
    if asked.nemesis is None:
        asked.nemesis = allowed
    for kind in asked.nemesis:
        if kind not in allowed:
            parser.error(f"fault '{kind}' is none of this run: none, or of {', '.join(allowed)}")


def _between(low: float, high: float) -> Callable[[str], float]:
    """An argparse type: a number from `low` to `high`, both inclusive."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ArgumentTypeError(f"'{shortened(text)}' is not a number from {low:g} to {high:g}")
        return value

    return number


def _folder(name: str) -> Path:
    return Path(text(name))


def _kinds(text: str) -> tuple[str, ...]:
    kinds = () if text == "none" else tuple(dict.fromkeys(text.split(",")))
    for kind in kinds:
        if kind not in KINDS:
            allowed = ", ".join(KINDS)
            raise ArgumentTypeError(f"unknown fault '{shortened(kind)}': none, or of {allowed}")
    return kinds


def _options(asked: Namespace) -> Any:
    """Options of `jepsen.run.run`."""
    from jepsen.run import Options  # noqa: PLC0415  # help is without it

    return Options(
        workload=asked.workload,
        nemesis=asked.nemesis,
        nodes=asked.nodes,
        time_limit_s=asked.time_limit,
        seed=asked.seed,
        rate=asked.rate,
        concurrency=asked.concurrency,
        reads=asked.reads,
        is_committed_only=asked.reads != "uncommitted",
        commits_early=asked.early_commits,
        is_idempotent=not asked.no_idempotence,
        is_unclean=asked.unclean,
        base_port=asked.base_port,
        folder=asked.dir,
    )


def _text(results: dict[str, Any]) -> str:
    faults = ", ".join(f"{count} {kind}" for kind, count in results["faults"].items()) or "none"
    lines = [
        f"{results['verdict']}: {results['workload']}, seed {results['seed']}",
        f"  operations: {results['ok']} ok, {results['fail']} fail, {results['info']} info",
        f"  faults: {faults}; leaders seen: {len(results['leaders'])}",
    ]
    lines += [
        f"  {check['name']}: {check['verdict']} {check['reason'] or ''}".rstrip()
        for check in results["checks"]
    ]
    lines += [f"    {line}" for line in results["linearizability"].get("counterexample", [])]
    lines += [f"    {found['kind']}: {found['text']}" for found in results.get("findings", [])]
    lines += [
        f"    {found['kind']}: {found['text']}" for found in results.get("group_findings", [])
    ]
    if results.get("findings"):
        named = results.get("transactions", {})
        lines += [f"      {name}: {text}" for name, text in named.items()]
    for group, counts in results.get("groups", {}).items():
        counted = ", ".join(f"{count} {what}" for what, count in counts.items())
        lines.append(f"  {group}: {counted}")
    if permitted := results.get("permitted"):
        counted = ", ".join(f"{count} {kind}" for kind, count in permitted.items())
        lines.append(f"  permitted anomalies: {counted}")
    if results["dir"] is not None:
        lines.append(f"  everything is in {results['dir']}")
    return "\n".join(lines) + "\n"
