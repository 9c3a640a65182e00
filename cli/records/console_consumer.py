"""`kraftline console-consumer`: records to standard output (kafka-console-consumer)."""

from collections.abc import Sequence

from cli.arguments import INT64_MAX, integer
from cli.connect import Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.formats.formatter_names import DEFAULT
from cli.records.tool_parser import ToolParser


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the command and return the exit code."""
    command_parser().parse_args(arguments)  # help and refusals come before the protocol is loaded
    from cli.records import consuming  # noqa: PLC0415  # loads the protocol

    return consuming.run(arguments, connect, clock)


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser("kraftline console-consumer", "Records to standard output.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--consumer.config", dest="consumer_config", help="as --command-config")
    parser.add_argument("--topic", help="name of the topic")
    parser.add_argument("--include", help="topics by a regular expression")
    parser.add_argument("--partition", type=integer(), help="only this one")
    parser.add_argument("--offset", help="of --partition: a number, earliest, latest (default)")
    parser.add_argument("--max-messages", type=integer(-1), help="end after so many")
    parser.add_argument(
        "--timeout-ms", type=integer(-1, INT64_MAX), help="end when none came for so long"
    )
    parser.add_argument(
        "--formatter", default=DEFAULT,
        help="Default-, Logging-, NoOp-, Offsets-, GroupMetadata-, TransactionLogMessageFormatter",
    )  # fmt: skip
    for name, text in {
        "formatter-property": "print.timestamp, print.key, print.offset, print.partition, "
        "print.headers, print.value, key.separator, line.separator, headers.separator, "
        "null.literal, key.deserializer, value.deserializer, headers.deserializer: key=value",
        "property": "as --formatter-property",
        "command-property": "config of the consumer, key=value",
        "consumer-property": "as --command-property",
    }.items():
        parser.add_argument(f"--{name}", action="append", default=[], metavar="P", help=text)
    parser.add_argument("--formatter-config", metavar="FILE", help="properties of the formatter")
    parser.add_argument("--key-deserializer", metavar="CLASS", help="class for keys")
    parser.add_argument("--value-deserializer", metavar="CLASS", help="class for values")
    parser.add_argument("--isolation-level", help="read_committed, read_uncommitted (default)")
    parser.add_argument("--group", help="read as a member of it, commit what is printed")
    parser.flags({
        "from-beginning": "begin at the earliest offset, not at the end",
        "skip-message-on-error": "leave out what cannot be printed, do not end",
        "enable-systest-events": "print shutdown_complete at the end",
        "json": "a JSON object for each record",
    })  # fmt: skip
    return parser
