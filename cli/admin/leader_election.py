"""`kraftline leader-election`: elect preferred or unclean leaders (kafka-leader-election)."""

from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from cli.admin.json_files import partitions_of
from cli.arguments import Parser, UsageError, check_bootstrap, exactly_one, integer, text
from cli.command import Output, execute
from cli.connect import Api, Connect, check, json_line, newest, open_cluster
from cli.kafka_errors import exception_text

ELECT_LEADERS: Final = 43
ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}
ELECTION_NOT_NEEDED: Final = 84
TIMEOUT: Final = timedelta(seconds=30)
_WHICH: Final = ("topic", "all-topic-partitions", "path-to-json-file")


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Elect leaders and return the exit code."""
    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline leader-election", "Elect preferred or unclean leaders.")
    parser.bootstrap()
    parser.add_argument("--admin.config", dest="admin_config", help="as --command-config")
    parser.add_argument("--election-type", type=str.lower, help="preferred or unclean")
    parser.add_argument("--topic", type=text, help="with --partition")
    parser.add_argument("--partition", type=integer(), help="a partition of --topic")
    parser.add_argument(
        "--path-to-json-file", help='{"partitions": [{"topic": T, "partition": P}]}'
    )
    parser.flags({"all-topic-partitions": "every partition that needs it", "json": "a JSON object"})
    options = parser.parse_args(arguments)
    check_bootstrap(options)
    if options.election_type is None:
        raise UsageError("Missing required option(s): election-type")
    if options.election_type not in ELECTION_TYPES:
        raise UsageError(
            f"Unknown election type '{options.election_type[:80]}': it is preferred or unclean"
        )
    exactly_one(
        parser, options, _WHICH,
        "One and only one of the following options is required: topic, all-topic-partitions, "
        "path-to-json-file",
    )  # fmt: skip
    if (options.topic is None) != (options.partition is None):
        missing = "partition" if options.partition is None else "topic"
        raise UsageError(f"Missing required option(s): {missing}")
    options.partitions = None
    if options.topic is not None:
        options.partitions = {options.topic: [options.partition]}
    elif options.path_to_json_file is not None:
        options.partitions = partitions_of(options.path_to_json_file)
    return options


def perform(api: Api, options: Namespace) -> Output:
    """Send the election of the options.

    Raises:
        ClusterError: the whole request was refused.
    """
    module = newest(ELECT_LEADERS)
    wanted = None
    if options.partitions is not None:
        wanted = tuple(
            module.TopicPartitions(topic=topic, partitions=tuple(numbers))
            for topic, numbers in options.partitions.items()
        )
    request = module.ElectLeadersRequest(
        election_type=ELECTION_TYPES[options.election_type],
        topic_partitions=wanted,
        timeout=TIMEOUT,
    )
    answer = check(api.call(ELECT_LEADERS, request))
    rows = [
        (f"{row.topic}-{result.partition_id}", result)
        for row in answer.replica_election_results
        for result in row.partition_result
    ]
    return _output_of(options, rows)


def _output_of(options: Namespace, rows: Sequence[tuple[str, Any]]) -> Output:
    kind = options.election_type.upper()
    elected = [name for name, row in rows if not int(row.error_code)]
    valid = [name for name, row in rows if int(row.error_code) == ELECTION_NOT_NEEDED]
    failed = [
        (name, exception_text(int(row.error_code), row.error_message))
        for name, row in rows
        if int(row.error_code) not in (0, ELECTION_NOT_NEEDED)
    ]
    error = f"{len(failed)} replica(s) could not be elected\n" if failed else ""
    if options.json:
        answer = {"elected": elected, "already_elected": valid, "failed": dict(failed)}
        return Output(json_line(answer), error, 1 if failed else 0)
    lines = []
    if elected:
        lines.append(
            f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}\n"
        )
    if valid:
        lines.append(f"Valid replica already elected for partitions {', '.join(valid)}\n")
    lines += [
        f"Error completing leader election ({kind}) for partition: {name}: {reason}\n"
        for name, reason in failed
    ]
    return Output("".join(lines), error, 1 if failed else 0)
