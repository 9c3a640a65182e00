"""Command line of the simulator; any error in it is one line and exit code 2."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from typing_extensions import override

from simulator.campaign.draw import (
    FAULT_CLASSES,
    FSYNC_LIE,
    GROUPS_FAULTS,
    NAMES,
    NEWEST_DRAWS,
    RECORDS_SHORT,
    RECORDS_STANDARD,
    SHORT,
    STANDARD,
    VARIATIONS,
    Options,
    Until,
)
from simulator.faults.kinds import GROUPS_KINDS

USAGE: Final = 2
VOTERS_MAX: Final = 9
OBSERVERS_MAX: Final = 20
JOBS_MAX: Final = 256
SEED_MAX: Final = 2**64 - 1
SEED_COUNT_MAX: Final = 1_000_000_000
LINE_CHARACTERS: Final = 600
SHOWN_CHARACTERS: Final = 80
SHRINK_SECONDS: Final = 60.0
SEEDS: Final = range(1, 101)
RECORDS_FAULTS_HELP: Final = f"all, none, or of: {','.join(GROUPS_FAULTS)}"
FAULTS_HELP: Final = (
    f"all, none, or of: {','.join((*FAULT_CLASSES, *VARIATIONS))}; {FSYNC_LIE} alone: has to fail"
)
DRAWS: Final = {
    1: "seeds as drawn before faults were added",
    2: "before lookups were",
    3: "before lost messages were",
    4: "before faults of client links were",
    5: "before bodies stayed in memory",
    6: "before disks were quick after a send",
    7: "before voters lost their disks",
    8: "before transfers were",
    9: "before linearizable reads",
    10: "with all of these",
}
"""Value of `--draws` -> how its seeds differ from those of the next one."""
DRAWS_HELP: Final = f"{'; '.join(f'{n}: {text}' for n, text in DRAWS.items())} ({NEWEST_DRAWS})"


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A valid command line, parsed."""

    seeds: tuple[int, ...] | range
    options: Options
    until: Until | None
    is_traced: bool
    is_twice: bool
    job_count: int
    is_json: bool
    html: Path | None
    schedule: Path | None
    ledger: Path | None
    requires_marks: bool
    shrink_seconds: float


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations; an error is one line."""

    @override
    def error(self, message: str) -> NoReturn:
        shown = message if len(message) <= LINE_CHARACTERS else f"{message[:LINE_CHARACTERS]}..."
        shown = shown.replace("\n", "\\n")
        sys.stderr.write(f"{self.prog}: {shown}\n")
        raise SystemExit(USAGE)


def parse(words: list[str], *, has_records: bool = False) -> Parsed:
    """Read a command line, that of `sim records` if it has records.

    Raises:
        SystemExit: 2 with one line on standard error, 0 after --help.
    """
    parser = _parser(has_records=has_records)
    given = vars(parser.parse_args(words))  # only what the line names
    _check_together(parser, given)
    _check_kinds(parser, given.get("faults"), has_groups="groups" in given)
    fixed = {
        field: given[name]
        for field, name in (
            ("node_count", "nodes"),
            ("observer_count", "observers"),
            ("faults", "faults"),
            ("draws", "draws"),
        )
        if name in given
    }
    if "transactions" in given:
        fixed["has_transactions"] = True
    standard, short = (RECORDS_STANDARD, RECORDS_SHORT) if has_records else (STANDARD, SHORT)
    base = short if "short" in given else standard
    return Parsed(
        seeds=(given["seed"],) if "seed" in given else given.get("seeds", SEEDS),
        options=msgspec.structs.replace(base, **fixed, has_groups="groups" in given),
        until=given.get("until"),
        is_traced="trace" in given,
        is_twice="twice" in given,
        job_count=given.get("jobs", 1),
        is_json="json" in given,
        html=given.get("html"),
        schedule=given.get("schedule"),
        ledger=given.get("ledger"),
        requires_marks="require_marks" in given,
        shrink_seconds=given.get("shrink_seconds", SHRINK_SECONDS),
    )


def _check_together(parser: Parser, given: Mapping[str, object]) -> None:
    """Refuse arguments that do not go together: exit code 2 with one line."""
    if "seed" in given and "seeds" in given:
        parser.error("--seed and --seeds exclude each other")
    if "schedule" in given:
        for name in ("seed", "seeds", "nodes", "observers", "faults", "draws", "short", "groups"):
            if name in given:
                parser.error(f"--schedule holds seed, settings and faults: leave --{name} out")
    for name in ("trace", "until"):
        if name in given and not given.keys() & {"seed", "schedule"}:
            parser.error(f"--{name} shows one run: give --seed N or --schedule FILE")
    for name in ("schedule", "trace", "until"):
        for many in ("twice", "ledger", "jobs"):
            if name in given and many in given:
                parser.error(f"--{name} is one run, once: leave --{many} out")


def _check_kinds(parser: Parser, faults: tuple[str, ...] | None, *, has_groups: bool) -> None:
    """Refuse faults of members of groups where there are none."""
    strange = [name for name in faults or () if name in GROUPS_KINDS and not has_groups]
    if strange:
        parser.error(f"--faults {','.join(strange)} need --groups")


def _parser(*, has_records: bool) -> Parser:
    parser = Parser(
        "kraftline sim records" if has_records else "kraftline sim",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        description="Run clusters whose brokers keep records, with producers and consumers."
        if has_records
        else "Run whole clusters in one process: one seed, one run, always the same.",
        epilog="Exit code: 0 all held, 10 safety, 11 liveness, 12 crash, 13 nondeterminism, "
        "1 a mark is missing, 2 bad input, 130 Ctrl-C, 143 SIGTERM, 255 a process of --jobs died.",
    )
    add = parser.add_argument
    add("--seeds", type=seed_range, metavar="A..B", help="from A to B, both included (1..100)")
    add("--seed", type=seed, metavar="N", help="only this one; hexadecimal with 0x")
    add("--nodes", type=between(1, VOTERS_MAX), metavar="N", help="voters (the seed decides)")
    add("--observers", type=between(0, OBSERVERS_MAX), metavar="N", help="brokers that do not vote")
    _add_kind(parser, has_records=has_records)
    add(
        "--until",
        type=_until,
        metavar="EVENT|TIME",
        help="stop at an event (48211) or virtual time (12.5s) of any phase",
    )
    add("--trace", action="store_true", help="print what happens, a line each")
    add("--twice", action="store_true", help="run each seed twice and compare the digests")
    add("--jobs", type=between(1, JOBS_MAX), metavar="N", help="processes (1)")
    add("--ledger", type=Path, metavar="FILE", help="remember finished seeds, skip them next time")
    add("--require-marks", action="store_true", help="fail if a coverage mark was never met")
    add("--schedule", type=Path, metavar="FILE", help="run the faults of a file again")
    add("--shrink-seconds", type=_seconds, metavar="S",
        help="how long to make the first failure smaller; 0 = not (60)")  # fmt: skip
    add("--html", type=Path, metavar="FILE", help="draw the run (the first failed one of many)")
    add("--json", action="store_true", help="the last line is one object")
    return parser


def _add_kind(parser: Parser, *, has_records: bool) -> None:
    """Add the arguments that differ between runs of metadata alone and runs with records."""
    add = parser.add_argument
    if has_records:
        add("--faults", type=_records_faults, metavar="LIST", help=RECORDS_FAULTS_HELP)
        add("--groups", action="store_true", help="consumers in groups too")
        add("--short", action="store_true", help="5 virtual seconds, not 15")
        add("--transactions", action="store_true", help="clients with transactional ids too")
        return
    add("--faults", type=_faults, metavar="LIST", help=FAULTS_HELP)
    add("--draws", type=between(1, NEWEST_DRAWS), metavar="N", help=DRAWS_HELP)
    add("--short", action="store_true", help="10 virtual seconds and 30 writes, not 60 and 200")


def seed(text: str) -> int:
    """Parse a seed."""
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= SEED_MAX:
        message = f"'{_short(text)}' is no seed: a number from 0 to {SEED_MAX}"
        raise argparse.ArgumentTypeError(message)
    return number


def seed_range(text: str) -> range:
    """Parse `1..20`, both included."""
    first, dots, last = text.partition("..")
    if not dots:
        raise argparse.ArgumentTypeError(f"'{_short(text)}' is no range: A..B, both included")
    start, end = seed(first), seed(last)
    if end < start:
        raise argparse.ArgumentTypeError(f"'{text}' is empty: A..B with A <= B")
    if end - start >= SEED_COUNT_MAX:
        message = f"'{text}' has more than {SEED_COUNT_MAX} seeds"
        raise argparse.ArgumentTypeError(message)
    return range(start, end + 1)


def between(least: int, most: int) -> Callable[[str], int]:
    """Make a type for argparse: a whole number, both ends included."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            message = f"'{_short(text)}' is not a number from {least} to {most}"
            raise argparse.ArgumentTypeError(message)
        return number

    return convert


def _faults(text: str) -> tuple[str, ...] | None:
    names = _names_of(text, NAMES)
    if names is not None and FSYNC_LIE in names and len(names) > 1:
        message = f"{FSYNC_LIE} is asked for alone: the run has to fail by it"
        raise argparse.ArgumentTypeError(message)
    return names


def _records_faults(text: str) -> tuple[str, ...] | None:
    return _names_of(text, GROUPS_FAULTS)


def _names_of(text: str, allowed: tuple[str, ...]) -> tuple[str, ...] | None:
    """Parse `all`, `none` or some names; None for all."""
    if text in ("all", "none"):
        return None if text == "all" else ()
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in allowed:
            message = f"unknown fault '{_short(name)}': all, none, or of {', '.join(allowed)}"
            raise argparse.ArgumentTypeError(message)
    return names


def _until(text: str) -> Until:
    try:
        if text.endswith("s"):
            return Until(time_us=int(_positive(text[:-1]) * 1e6))
        return Until(event=_count(text))
    except (ValueError, OverflowError) as error:
        message = (
            f"'{_short(text)}' is neither an event (48211), a whole number from 1 on, "
            "nor a time (12.5s)"
        )
        raise argparse.ArgumentTypeError(message) from error


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    try:
        return 0.0 if float(text) == 0 else _positive(text)
    except ValueError as error:
        message = f"'{_short(text)}' is no number of seconds from 0 on"
        raise argparse.ArgumentTypeError(message) from error


def _short(text: str) -> str:
    """A value for an error line; a huge one is cut."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
