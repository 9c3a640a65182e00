"""`kraftline console-producer`: lines of standard input as records (kafka-console-producer)."""

from collections.abc import Sequence
from typing import Final

from cli.arguments import INT32_MAX, INT64_MAX, integer
from cli.connect import Connect, open_cluster
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.tool_parser import ToolParser

LINE_READER: Final = "org.apache.kafka.tools.LineMessageReader"
MERGED: Final[dict[str, tuple[str, str]]] = {
    "timeout": ("linger.ms", "1000"),
    "request-required-acks": ("acks", "-1"),
    "request-timeout-ms": ("request.timeout.ms", "1500"),
    "message-send-max-retries": ("retries", "3"),
    "retry-backoff-ms": ("retry.backoff.ms", "100"),
    "socket-buffer-size": ("send.buffer.bytes", "102400"),
    "max-memory-bytes": ("buffer.memory", "33554432"),
    "batch-size": ("batch.size", "16384"),
    "max-partition-memory-bytes": ("batch.size", "16384"),
    "metadata-expiry-ms": ("metadata.max.age.ms", "300000"),
    "max-block-ms": ("max.block.ms", "60000"),
}
"""Flag -> config and default; the flag takes precedence over a property if it is given."""
INTS: Final = ("request.timeout.ms", "retries", "send.buffer.bytes", "batch.size")
"""Configs of 32 bits."""


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the command and return the exit code."""
    command_parser().parse_args(arguments)  # help and refusals come before the protocol is loaded
    from cli.records import producing  # noqa: PLC0415  # loads the protocol

    return producing.run(arguments, connect, clock)


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser("kraftline console-producer", "Lines of standard input as records.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--producer.config", dest="producer_config", help="as --command-config")
    parser.add_argument("--topic", help="name of the topic")
    for name, text in {
        "command-property": "config of the producer, key=value",
        "producer-property": "as --command-property",
        "reader-property": "parse.key, key.separator, parse.headers, headers.delimiter, "
        "headers.separator, headers.key.separator, ignore.error, null.marker: key=value",
        "property": "as --reader-property",
    }.items():
        parser.add_argument(f"--{name}", action="append", default=[], metavar="P", help=text)
    parser.add_argument("--reader-config", metavar="FILE", help="properties of the reader")
    parser.add_argument("--line-reader", default=LINE_READER, help=f"only {LINE_READER}")
    parser.add_argument(
        "--compression-codec", nargs="?", const="gzip", default="none", metavar="CODEC",
        help="none, gzip, snappy, lz4, zstd; gzip without a value",
    )  # fmt: skip
    parser.add_argument("--request-required-acks", metavar="ACKS", help="0, 1, all (default)")
    for name in MERGED:
        if name != "request-required-acks":
            config, default = MERGED[name]
            high = INT32_MAX if config in INTS else INT64_MAX
            low = -1 if config == "send.buffer.bytes" else 0
            parser.add_argument(
                f"--{name}", type=integer(low, high), help=f"{config}; {default} without it"
            )
    parser.flags({
        "sync": "wait for each record, stop at the first that fails",
        "json": "a JSON object for each record",
    })  # fmt: skip
    return parser
