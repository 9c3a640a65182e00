"""Command line of `kraftline sim mutate`, without what it runs."""

import argparse
from typing import Final, NamedTuple

from simulator.campaign.arguments import (
    JOBS_MAX,
    SEED_COUNT_MAX,
    Parser,
    between,
)

SECONDS_MAX: Final = 300.0


def mutate_parser() -> Parser:
    """Make the parser, for the choice of mutants and the cost of an attempt."""
    parser = Parser(
        "kraftline sim mutate",
        allow_abbrev=False,
        description="Break one rule after the other and count the seeds until that is found.",
        epilog="Exit code: 0 all died within their budgets, at most two by I20 only, 1 not, 2 bad "
        "input, 3 seconds spent before seeds, 255 a mutant that does not fit, a process that died.",
    )
    add = parser.add_argument
    add("--mutants", metavar="M1,M7", help="only these (all that apply)")
    add("--budget", type=_seconds, default=SECONDS_MAX, metavar="SECONDS",
        help="of one core for an attempt, beside its budget of seeds (300)")  # fmt: skip
    add("--bases", type=int, choices=(1, 3), default=3, help="attempts; of three the middle counts")
    add("--jobs", type=between(1, JOBS_MAX), default=1, metavar="N",
        help="processes (1)")  # fmt: skip
    add("--unmutated", type=_count, metavar="N|Nx",
        help="instead: N seeds of each kind without any mutant, or N times the largest budget of "
        "seeds of its mutants; all must hold")  # fmt: skip
    add("--json", action="store_true", help="one object a line")
    return parser


class Count(NamedTuple):
    """Number of seeds, or multiple of a budget."""

    number: int
    is_times: bool

    def of(self, budget: int) -> int:
        """Number of seeds for a budget."""
        return self.number * budget if self.is_times else self.number


def _count(text: str) -> Count:
    """Parse `12` or `10x`."""
    number = between(1, SEED_COUNT_MAX)(text.removesuffix("x"))
    return Count(number, text.endswith("x"))


def _seconds(text: str) -> float:
    """Parse a number above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text[:80]}' is no number of seconds above 0")
    return seconds
