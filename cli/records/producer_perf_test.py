"""`kraftline producer-perf-test`: rate and latency of producing (kafka-producer-perf-test)."""

from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Final

from cli.arguments import INT64_MAX, integer, shortened, text
from cli.connect import Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.tool_parser import ToolParser

TRANSACTION_DURATION_MS: Final = 3_000
REPORTING_INTERVAL_MS: Final = 5_000


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the command and return the exit code."""
    command_parser().parse_args(arguments)  # help and refusals come before the protocol is loaded
    from cli.records import measuring  # noqa: PLC0415  # loads the protocol

    return measuring.run(arguments, connect, clock)


def rate(word: str) -> float:
    """An argparse type: records per second, below 0 for no limit."""
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if value == 0 or not -INT64_MAX < value < INT64_MAX:
        raise ArgumentTypeError(f"'{shortened(word)}' is not a rate: a number but 0, -1 for any")
    return value


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser("kraftline producer-perf-test", "Rate and latency of producing.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--producer.config", dest="producer_config", help="as --command-config")
    parser.add_argument("--topic", help="name of the topic")
    parser.add_argument("--num-records", type=integer(1, INT64_MAX), help="so many in all")
    parser.add_argument("--throughput", type=rate, help="records per second, -1 for any")
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument("--record-size", type=integer(), help="bytes of random letters")
    payload.add_argument("--payload-file", metavar="FILE", help="payloads, one of them by chance")
    payload.add_argument("--payload-monotonic", action="store_true", help="growing numbers")
    parser.add_argument("--payload-delimiter", default="\\n", help="in --payload-file: \\n")
    parser.add_argument("--warmup-records", type=integer(0, INT64_MAX), default=0, help="left out "
                        "of the second summary")  # fmt: skip
    parser.add_argument(
        "--reporting-interval", type=integer(1, INT64_MAX), default=REPORTING_INTERVAL_MS,
        metavar="MS", help=f"time between lines; {REPORTING_INTERVAL_MS} without it",
    )  # fmt: skip
    for name in ("command-property", "producer-props"):
        parser.add_argument(f"--{name}", nargs="+", default=[], metavar="P", help="key=value")
    parser.add_argument("--transactional-id", type=text, help="of transactions that hold the "
                        "records; by chance without it if they have a duration")  # fmt: skip
    parser.add_argument(
        "--transaction-duration-ms", type=integer(1, INT64_MAX), metavar="MS",
        help=f"commit after so long; {TRANSACTION_DURATION_MS} without it",
    )  # fmt: skip
    parser.flags({"json": "one JSON object"})
    return parser
