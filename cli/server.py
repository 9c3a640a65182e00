"""`kraftline server start [PROPERTIES]`: a node in this process, until it is stopped."""

from collections.abc import Sequence
from pathlib import Path

from cli.arguments import Parser


def run(arguments: Sequence[str]) -> int:
    """Start the node and return its exit code when it ends."""
    parser = Parser("kraftline server", "Run a node.")
    parser.add_argument("command", choices=["start"], help="what to do")
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
        "--format", metavar="CLUSTER_ID", help="first format the folders that are not formatted"
    )
    options = parser.parse_args(arguments)
    from node.main import start  # noqa: PLC0415  # a usage error must not wait for it

    path = None if options.properties is None else Path(options.properties)
    return start(path, options.override, options.format, environment=options.environment)
