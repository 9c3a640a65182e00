"""Execution of a command that talks to a cluster: connect, perform, print, exit code."""

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence

import msgspec

from cli.arguments import UsageError
from cli.connect import Api, ClusterError, Connect


class Output(msgspec.Struct, frozen=True):
    """Result of a command."""

    text: str
    """Text for standard output."""
    error: str = ""
    """Whole lines for standard error."""
    exit_code: int = 0


Parse = Callable[[Sequence[str]], Namespace]
Perform = Callable[[Api, Namespace], Output]


def execute(
    arguments: Sequence[str],
    parse: Parse,
    perform: Perform,
    connect: Connect,
    *,
    refusal: str | None = None,
) -> int:
    """Parse, connect, perform and print; returns the exit code.

    Args:
        arguments: Words after the command.
        parse: Returns the options; raises UsageError.
        perform: Does the work; raises ClusterError or UsageError.
        connect: Opens the cluster that the options name.
        refusal: Prefix of a refusal on standard output; None: refusals go to standard error.
    """
    try:
        options = parse(arguments)
        with connect(options) as api:
            output = perform(api, options)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except ClusterError as error:
        if refusal is None:
            sys.stderr.write(f"{error}\n")
        else:
            sys.stdout.write(f"{refusal}{error}\n")
        return 1
    sys.stdout.write(output.text)
    sys.stderr.write(output.error)
    return output.exit_code
