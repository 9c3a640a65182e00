"""`kraftline get-offsets`: offsets of partitions at a time (kafka-get-offsets)."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Final

from cli.arguments import UsageError, shortened
from cli.command import Output, execute
from cli.connect import Api, ClusterError, Connect, json_line, open_cluster
from cli.kafka_errors import exception_text
from cli.records.clients import offsets
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.leader_calls import Failed, Rows, answers_of_leaders
from cli.records.clients.topic_metadata import Partition, described_topics
from cli.records.partition_rules import Rule, rules_of, topic_and_numbers
from cli.records.tool_parser import ToolParser

PREFIX: Final = "Error occurred: "
TIMES: Final = {
    "latest": offsets.LATEST,
    "earliest": offsets.EARLIEST,
    "max-timestamp": offsets.MAX_TIMESTAMP,
    "earliest-local": offsets.EARLIEST_LOCAL,
    "latest-tiered": offsets.LATEST_TIERED,
    "earliest-pending-upload": offsets.EARLIEST_PENDING_UPLOAD,
}
_INT64: Final = range(-(2**63), 2**63)
_DIGITS_MAX: Final = 20


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Print the offsets and return the exit code."""
    return execute(arguments, _parse, partial(perform, clock=clock), connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ToolParser("kraftline get-offsets", "Offsets of partitions at a time.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--topic", help="a regular expression; all topics without it")
    parser.add_argument("--partitions", help="numbers separated by commas; all without it")
    parser.add_argument(
        "--topic-partitions",
        metavar="RULES",
        help="TOPIC:NUMBER or TOPIC:FROM-TO (TO excluded), separated by commas, each part optional",
    )
    parser.add_argument(
        "--time",
        default="latest",
        help=f"a time stamp in ms, or {', '.join(TIMES)} (-1 to -6); latest without it",
    )
    parser.flags({
        "exclude-internal-topics": "leave out internal topics",
        "json": "one JSON object",
    })  # fmt: skip
    options = parser.parse_tool(arguments)
    if not arguments:
        parser.error("An interactive shell for getting topic-partition offsets.")
    parser.require(options, "bootstrap-server")
    try:
        options.timestamp, options.rule = _meant(options)
    except UsageError as error:
        raise UsageError(f"{PREFIX}{error}") from error
    return options


def _meant(options: Namespace) -> tuple[int, Rule]:
    is_both = options.topic_partitions is not None and (
        options.topic is not None or options.partitions is not None
    )
    if is_both:
        raise UsageError("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = timestamp_of(options.time)
    if options.topic_partitions is None:
        return timestamp, topic_and_numbers(options.topic, options.partitions)
    return timestamp, rules_of(options.topic_partitions)


def timestamp_of(text: str) -> int:
    """The number that ListOffsets takes for the value of --time.

    Raises:
        UsageError: neither a name nor a number of 64 bits.
    """
    if text in TIMES:
        return TIMES[text]
    digits = text.removeprefix("-").removeprefix("+")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < _DIGITS_MAX
    if not is_number or text.startswith("-+") or int(text) not in _INT64:
        raise UsageError(
            f"Malformed time argument {shortened(text)}. Please use -1 or latest / -2 or earliest "
            "/ -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or "
            "earliest-pending-upload, or a specified long format timestamp"
        )
    return int(text)


def perform(api: Api, options: Namespace, clock: Clock) -> Output:
    """Ask for the offsets of the options.

    Raises:
        ClusterError: no partition is meant, or no node can be reached.
    """
    topics = described_topics(api)
    partitions = [
        partition
        for topic in topics.values()
        if not (options.exclude_internal_topics and topic.is_internal)
        for partition in (Partition(topic.name, number) for number in topic.leaders)
        if options.rule(partition)
    ]
    if not partitions:
        raise ClusterError(
            f"{PREFIX}Could not match any topic-partitions with the specified filters"
        )

    def ask(leader: int, wanted: dict[str, list[int]]) -> Rows[offsets.Listed]:
        listed = offsets.offsets_of_leader(api, leader, wanted, options.timestamp)
        for partition, answer in listed.items():
            yield partition, Failed(answer.error_code) if answer.error_code else answer

    found = answers_of_leaders(api, topics, partitions, ask, clock)
    return _output(options, dict(sorted(found.items(), key=lambda item: str(item[0]))))


def _output(options: Namespace, found: dict[Partition, offsets.Listed | Failed]) -> Output:
    errors = {p: exception_text(a.code) for p, a in found.items() if isinstance(a, Failed)}
    known = {
        p: a
        for p, a in found.items()
        if not isinstance(a, Failed) and a.offset != offsets.NO_OFFSET
    }
    if options.json:
        rows = [
            {"topic": p.topic, "partition": p.number, "offset": listed.offset,
             "timestamp": listed.timestamp_ms}
            for p, listed in known.items()
        ]  # fmt: skip
        return Output(
            json_line({"offsets": rows, "errors": {str(p): text for p, text in errors.items()}})
        )
    lines = [f"{p.topic}:{p.number}:{listed.offset}\n" for p, listed in known.items()]
    skipped = [
        f"Skip getting offsets for topic-partition {p} due to error: {text}\n"
        for p, text in errors.items()
    ]
    return Output("".join(lines), "".join(skipped))
