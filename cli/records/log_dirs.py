"""`kraftline log-dirs`: sizes of the partitions in the brokers' directories (kafka-log-dirs)."""

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from cli.arguments import UsageError, shortened
from cli.command import Output, execute
from cli.connect import Api, ClusterError, Connect, check, described_cluster, newest, open_cluster
from cli.connect import json_line as json_of
from cli.kafka_errors import exception_class
from cli.records.tool_parser import REQUIRED, ToolParser

DESCRIBE_LOG_DIRS: Final = 35
_INT32_DIGITS: Final = 10


def run(arguments: Sequence[str], connect: Connect = open_cluster) -> int:
    """Print the directories and return the exit code."""
    return execute(arguments, _parse, perform, connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ToolParser("kraftline log-dirs", "Sizes of the partitions in log directories.")
    parser.bootstrap(controllers=False)
    parser.flags({"describe": "describe the log directories", "json": "the JSON object alone"})
    parser.add_argument("--topic-list", default="", help="separated by commas; all without it")
    parser.add_argument("--broker-list", default="", help="ids separated by commas; all without it")
    options = parser.parse_tool(arguments, "bootstrap-server")
    if not options.describe:
        parser.error(REQUIRED.format("describe"))
    options.topics = {name for name in options.topic_list.split(",") if name}
    options.brokers = {_id(word) for word in options.broker_list.split(",") if word}
    return options


def _id(word: str) -> int:
    digits = word.removeprefix("-").removeprefix("+")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _INT32_DIGITS
    if not is_number or word.startswith("-+"):
        raise UsageError(f'For input string: "{shortened(word)}"')
    return int(word)


def perform(api: Api, options: Namespace) -> Output:
    """Ask the brokers of the options.

    Raises:
        ClusterError: a broker does not exist, cannot be reached or refuses.
    """
    known = sorted(int(node.broker_id) for node in described_cluster(api).brokers)
    missing = sorted(options.brokers.difference(known))
    if missing:
        raise ClusterError(
            "ERROR: The given brokers do not exist from --broker-list: "
            f"{_commas(missing)}. Current existent brokers: {_commas(known)}"
        )
    asked = sorted(options.brokers) or known
    described = {"brokers": [_broker(api, node, options.topics) for node in asked], "version": 1}
    if options.json:
        return Output(json_of(described))
    return Output(
        "Querying brokers for log directories information\n"
        f"Received log directory information from brokers {_commas(asked)}\n" + json_of(described)
    )


def _broker(api: Api, node: int, topics: set[str]) -> dict[str, Any]:
    request = newest(DESCRIBE_LOG_DIRS).DescribeLogDirsRequest(topics=None)
    answer = check(api.call(DESCRIBE_LOG_DIRS, request, node))
    return {
        "broker": node,
        "logDirs": [
            {
                "partitions": [
                    {
                        "partition": f"{topic.name}-{int(row.partition_index)}",
                        "size": int(row.partition_size),
                        "offsetLag": int(row.offset_lag),
                        "isFuture": bool(row.is_future_key),
                    }
                    for topic in sorted(result.topics, key=lambda topic: str(topic.name))
                    if not topics or str(topic.name) in topics
                    for row in sorted(topic.partitions, key=lambda row: int(row.partition_index))
                ],
                "error": exception_class(int(result.error_code))
                if int(result.error_code)
                else None,
                "logDir": str(result.log_dir),
            }
            for result in sorted(answer.results, key=lambda result: str(result.log_dir))
        ],
    }


def _commas(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
