"""Command line parsing as in Kafka's tools: a refused flag gives one line and exit code 1."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from typing_extensions import override

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
TEXT_CHARACTERS_MAX: Final = 2**15 - 1
"""Limit of the 16-bit length of a string in Kafka's protocol."""
SHOWN_CHARACTERS: Final = 80
LINE_CHARACTERS: Final = 600


class UsageError(Exception):
    """A command line that asks for something impossible; the text is shown to the person."""


class Parser(argparse.ArgumentParser):
    """argparse with exit code 1 as Kafka's tools, no abbreviated flags, and one error line."""

    refusal_code: int = 1
    """Exit code of a wrong command line."""
    shows_usage: bool = True
    """False: a refusal prints its one line without the usage."""

    def __init__(self, prog: str, description: str = "", **more: Any) -> None:
        """Build an empty parser.

        Args:
            prog: Words that call the command, for the usage text.
            description: One line about the command.
            more: What argparse gives a parser of a subcommand, from Python 3.14 on `color`.
        """
        super().__init__(prog=prog, description=description, allow_abbrev=False, **more)
        self.color = False  # of Python 3.14: texts are the same on all, and as Kafka's

    @override
    def error(self, message: str) -> NoReturn:
        shown = shortened(message, LINE_CHARACTERS).replace("\n", "\\n")
        if self.shows_usage:
            sys.stderr.write(f"{shown}\n{self.format_usage()}")
        else:
            sys.stderr.write(f"{self.prog}: {shown}\n")
        raise SystemExit(self.refusal_code)

    def flags(self, texts: dict[str, str]) -> None:
        """Add flags without a value: name without dashes -> help text."""
        for name, text in texts.items():
            self.add_argument(f"--{name}", action="store_true", help=text)

    def bootstrap(self, *, controllers: bool = True) -> None:
        """Add the flags with the addresses of the cluster."""
        self.add_argument("--bootstrap-server", help="brokers, HOST:PORT separated by commas")
        if controllers:
            self.add_argument(
                "--bootstrap-controller", help="controllers, HOST:PORT separated by commas"
            )
        self.add_argument(
            "--command-config",
            metavar="FILE",
            help="properties of the client; only PLAINTEXT is spoken",
        )


def integer(low: int = 0, high: int = INT32_MAX) -> Callable[[str], int]:
    """An argparse type: a whole number from `low` to `high`, both inclusive."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise argparse.ArgumentTypeError(
                f"'{shortened(text)}' is not a whole number from {low} to {high}"
            )
        return number

    return parse


def text(value: str) -> str:
    """An argparse type: not empty, and short enough for Kafka's protocol."""
    if not value.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    if len(value) > TEXT_CHARACTERS_MAX:
        raise argparse.ArgumentTypeError(
            f"{len(value)} characters are more than {TEXT_CHARACTERS_MAX}"
        )
    return value


def shortened(value: str, characters: int = SHOWN_CHARACTERS) -> str:
    """A value cut to a length that fits an error line."""
    return value if len(value) <= characters else f"{value[:characters]}..."


def check_bootstrap(options: Any) -> None:
    """Check that exactly one of --bootstrap-server and --bootstrap-controller is given.

    Raises:
        UsageError: none or both of them.
    """
    given = [options.bootstrap_server, getattr(options, "bootstrap_controller", None)]
    if all(value is None for value in given):
        if not hasattr(options, "bootstrap_controller"):
            raise UsageError("--bootstrap-server must be specified")
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if None not in given:
        raise UsageError(
            "Only one of --bootstrap-server or --bootstrap-controller can be specified"
        )


def exactly_one(parser: Parser, options: Any, actions: tuple[str, ...], text: str) -> str:
    """The one action (a flag without dashes) that is given; else the parser refuses with `text`."""
    chosen = [name for name in actions if getattr(options, name.replace("-", "_"))]
    if len(chosen) != 1:
        parser.error(text)
    return chosen[0]


def add_voter_flags(parser: Parser) -> None:
    """Add the flags for the voters of a dynamic quorum that a folder is formatted with."""
    voters = parser.add_mutually_exclusive_group()
    voters.add_argument(
        "-s", "--standalone", action="store_true", help="this controller is the only voter"
    )
    voters.add_argument(
        "-N", "--no-initial-controllers", action="store_true", help="finds the voters at the quorum"
    )
    voters.add_argument(
        "-I",
        "--initial-controllers",
        metavar="LIST",
        help="the voters: ID@HOST:PORT:DIRECTORY_ID, the same list on every node",
    )
