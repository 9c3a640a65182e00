"""`kraftline server`: `start` runs a node in this process, `ready` asks one whether it serves."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from cli.arguments import Parser, UsageError, add_voter_flags, integer

if TYPE_CHECKING:
    from node.identity import InitialVoters

VOTERS_WITHOUT_FORMAT: Final = (
    "--standalone, --initial-controllers and --no-initial-controllers say what folders are "
    "formatted with: --format CLUSTER_ID is missing"
)
WAIT_SECONDS: Final = 5
"""In which a node has to answer, unless --timeout says otherwise."""


def run(arguments: Sequence[str]) -> int:
    """Start the node and return its exit code when it ends; or that of the question."""
    options = _parse(arguments)
    path = None if options.properties is None else Path(options.properties)
    if options.command == "ready":
        from cli.readiness import tell  # noqa: PLC0415  # a usage error must not wait for it

        return tell(
            path, options.override, options.timeout, is_environment_stronger=options.environment
        )
    from node.main import start  # noqa: PLC0415  # a usage error must not wait for it

    try:
        return start(
            path,
            options.override,
            options.format,
            environment=options.environment,
            initial_voters=_initial_voters(options),
        )
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _initial_voters(options: Namespace) -> "InitialVoters | None":
    """Return what gives the voters to format with; None where no flag is about them."""
    if not (options.standalone or options.initial_controllers or options.no_initial_controllers):
        return None
    if options.format is None:
        raise UsageError(VOTERS_WITHOUT_FORMAT)
    from cli.initial_controllers import asked_voters  # noqa: PLC0415  # as above
    from wire.random_ids import random_uuid  # noqa: PLC0415

    return partial(asked_voters, options, new_uuid=partial(random_uuid, SystemRandom()))


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline server", "Run a node, or ask whether it serves.")
    parser.add_argument(
        "command", choices=["start", "ready"], help="ready: is the node of these settings ready?"
    )
    parser.add_argument(
        "properties",
        nargs="?",
        help="server.properties; without one: KAFKA_* variables, CLUSTER_ID",
    )
    parser.add_argument(
        "--environment",
        action="store_true",
        help="KAFKA_* variables are stronger than the file, as in the apache/kafka image",
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="repeatable"
    )
    parser.add_argument(
        "--format",
        metavar="CLUSTER_ID",
        help="start: first format the folders that are not formatted",
    )
    add_voter_flags(parser)
    parser.add_argument(
        "--timeout",
        type=integer(1, 3600),
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="ready: time for each answer; default: %(default)s",
    )
    return parser.parse_args(arguments)
