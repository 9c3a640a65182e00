"""`kraftline verifiable-producer`: growing numbers, a JSON line each, as Kafka's."""

from collections.abc import Sequence
from typing import Final

from cli.arguments import INT64_MAX, integer
from cli.connect import Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.tool_parser import ToolParser

_ACKS: Final = ("0", "1", "-1")


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the command and return the exit code."""
    command_parser().parse_args(arguments)  # help and refusals come before the protocol is loaded
    from cli.records import verifying  # noqa: PLC0415  # loads the protocol

    return verifying.run(arguments, connect, clock)


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser("kraftline verifiable-producer", "Growing numbers, a JSON line each.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--producer.config", dest="producer_config", help="as --command-config")
    parser.add_argument("--topic", help="name of the topic")
    parser.add_argument("--max-messages", type=integer(-1), default=-1, help="-1: until a signal")
    parser.add_argument("--throughput", type=integer(-1), default=-1, help="a second; -1: any")
    parser.add_argument("--acks", choices=_ACKS, default="-1", help="-1 without it")
    parser.add_argument(
        "--message-create-time", type=integer(-1, INT64_MAX), default=-1, metavar="MS",
        help="time stamp of the first record",
    )  # fmt: skip
    parser.add_argument("--value-prefix", type=integer(), help="number before each, with a dot")
    parser.add_argument("--repeating-keys", type=integer(1), help="keys from 0 to this, excluded")
    return parser
