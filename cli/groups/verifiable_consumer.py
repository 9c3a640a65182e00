"""`kraftline verifiable-consumer`: a member of a group that tells all in JSON lines, as Kafka's."""

from collections.abc import Sequence
from typing import Final

from cli.arguments import INT32_MAX, integer, text
from cli.connect import Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.tool_parser import ToolParser

SESSION_TIMEOUT_MS: Final = 30_000
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the command and return the exit code."""
    command_parser().parse_args(arguments)  # help and refusals come before the protocol is loaded
    from cli.groups import verifying  # noqa: PLC0415  # loads the protocol

    return verifying.run(arguments, connect, clock)


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser("kraftline verifiable-consumer", "A member of a group, in JSON lines.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--consumer.config", dest="consumer_config", help="as --command-config")
    parser.add_argument("--topic", type=text, help="name of the topic")
    parser.add_argument("--group-id", type=text, help="name of the group")
    parser.add_argument("--group-instance-id", type=text, help="of a static member")
    parser.add_argument(
        "--group-protocol", choices=("classic", "consumer"), default="classic", help="classic"
    )
    parser.add_argument("--group-remote-assignor", help="of the coordinator: uniform, range")
    parser.add_argument("--max-messages", type=integer(-1), default=-1, help="-1: until a signal")
    parser.add_argument(
        "--session-timeout", type=integer(1, INT32_MAX), default=SESSION_TIMEOUT_MS, metavar="MS",
        help="of the classic protocol, 30000 without it",
    )  # fmt: skip
    parser.add_argument(
        "--reset-policy", choices=("earliest", "latest", "none"), default="earliest",
        help="where to begin without a committed offset",
    )  # fmt: skip
    parser.add_argument(
        "--assignment-strategy", metavar="CLASS", default=RANGE, help="of the classic protocol"
    )
    parser.flags({
        "verbose": "a line for each record",
        "enable-autocommit": "commit from time to time, not behind each poll",
    })  # fmt: skip
    return parser
