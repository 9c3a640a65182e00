"""Command line parsing as Kafka's tools do it: a refused flag is one line and exit code 1."""

import argparse
import sys
from typing import NoReturn

from typing_extensions import override


class UsageError(Exception):
    """The command line asks for something impossible; the text is for the person."""


class Parser(argparse.ArgumentParser):
    """argparse that exits with 1 (Kafka's tools), does not guess abbreviations, prints the line."""

    def __init__(self, prog: str, description: str = "") -> None:
        """Makes an empty parser.

        Args:
            prog: The words that call the command, for the usage text.
            description: One line that says what it does.
        """
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    @override
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{message}\n{self.format_usage()}")
        raise SystemExit(1)
