"""`kraftline dev`: a cluster for development in the foreground; its folder goes with it."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from cli.arguments import Parser, UsageError, integer

NODES_MAX: Final = 9
"""As in testing.settings, which is loaded when a cluster starts."""


def run(arguments: Sequence[str]) -> int:
    """Run the cluster until a signal; return the exit code."""
    try:
        options = _parse(arguments)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    from cli.dev_cluster import serve_until_signal  # noqa: PLC0415 (loads what a cluster needs)

    return serve_until_signal(options)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline dev", "Run a cluster for development until Ctrl-C.")
    parser.add_argument("--nodes", type=integer(1, NODES_MAX), default=1, help="default: 1")
    parser.add_argument(
        "--port", type=integer(1, 65535), help="of the first broker; default: a free one"
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="repeatable"
    )
    parser.add_argument("--dir", help="keep records and logs here; default: removed at the end")
    parser.add_argument("--json", action="store_true", help="the ready line as one JSON object")
    return parser.parse_args(arguments)
