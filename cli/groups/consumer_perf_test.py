"""`kraftline consumer-perf-test`: rate of a member of a group (kafka-consumer-perf-test)."""

from collections.abc import Sequence
from typing import Final

from cli.arguments import INT32_MAX, INT64_MAX, integer, text
from cli.connect import Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.tool_parser import ToolParser

FETCH_BYTES: Final = 1024 * 1024
SOCKET_BYTES: Final = 2 * 1024 * 1024
TIMEOUT_MS: Final = 10_000
INTERVAL_MS: Final = 5_000
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the command and return the exit code."""
    command_parser().parse_args(arguments)  # help and refusals come before the protocol is loaded
    from cli.groups import consuming_rate  # noqa: PLC0415  # loads the protocol

    return consuming_rate.run(arguments, connect, clock)


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser(
        "kraftline consumer-perf-test", "Rate of consuming, as a member of a group."
    )
    parser.bootstrap(controllers=False)
    parser.add_argument("--consumer.config", dest="consumer_config", help="as --command-config")
    parser.add_argument(
        "--command-property", action="append", default=[], metavar="P", help="key=value; repeatable"
    )
    parser.add_argument("--topic", type=text, help="name of the topic")
    parser.add_argument("--include", metavar="REGEX", help="topics whose whole names match")
    parser.add_argument("--group", type=text, help="name of the group; by chance without it")
    for name in ("num-records", "messages"):
        parser.add_argument(
            f"--{name}", type=integer(0, INT64_MAX), metavar="COUNT",
            help="stop behind so many records" if name == "num-records" else "as --num-records",
        )  # fmt: skip
    parser.add_argument(
        "--fetch-size", type=integer(0, INT32_MAX), default=FETCH_BYTES, metavar="BYTES",
        help="of a partition in a request",
    )  # fmt: skip
    parser.add_argument(
        "--socket-buffer-size", type=integer(-1, INT32_MAX), default=SOCKET_BYTES, metavar="BYTES",
        help="the system's is used; taken for the sake of scripts",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", nargs="?", type=integer(0, INT64_MAX), default=TIMEOUT_MS, const=TIMEOUT_MS,
        metavar="MS", help="stop when no record came for so long, 10000 without it",
    )  # fmt: skip
    parser.add_argument(
        "--reporting-interval", type=integer(1, INT64_MAX), default=INTERVAL_MS, metavar="MS",
        help="of --show-detailed-stats, 5000 without it",
    )  # fmt: skip
    parser.add_argument(
        "--date-format", default=DATE_FORMAT, metavar="FORMAT",
        help="of times: y, M, d, H, m, s, S and 'quoted text'",
    )  # fmt: skip
    parser.flags({
        "from-latest": "without committed offsets begin at the end",
        "hide-header": "no line with the names of the columns",
        "show-detailed-stats": "a line for each interval, none at the end",
        "json": "one JSON object",
    })  # fmt: skip
    return parser
