"""`kraftline delete-records`: raise the log start of partitions (kafka-delete-records)."""

from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from cli.arguments import UsageError, shortened
from cli.command import Output, execute
from cli.connect import Api, Connect, json_line, newest, open_cluster
from cli.kafka_errors import exception_text
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.leader_calls import Failed, Rows, answers_of_leaders
from cli.records.clients.topic_metadata import Partition, described_topics
from cli.records.tool_parser import ToolParser

DELETE_RECORDS: Final = 21
TIMEOUT: Final = timedelta(seconds=30)
_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Delete records and return the exit code."""
    return execute(arguments, _parse, partial(perform, clock=clock), connect)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ToolParser("kraftline delete-records", "Delete the records below an offset.")
    parser.bootstrap(controllers=False)
    parser.add_argument(
        "--offset-json-file",
        metavar="FILE",
        help='{"partitions": [{"topic": T, "partition": P, "offset": O}], "version": 1}; '
        "offset -1 is the high watermark",
    )
    parser.flags({"json": "one JSON object"})
    options = parser.parse_tool(arguments, "bootstrap-server", "offset-json-file")
    options.offsets = offsets_of_file(options.offset_json_file)
    return options


def offsets_of_file(path: str) -> dict[Partition, int]:
    """The offsets of a file, by partition.

    Raises:
        UsageError: it cannot be read, has another form or names a partition twice.
    """
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"Unable to read file {shortened(path)}") from error
    try:
        value = msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:
        raise UsageError("The input string is not a valid JSON") from error
    version = _object(value).get("version", 1)
    if not _is_whole(version) or version != 1:
        raise UsageError(f"Not supported version field value {shortened(str(version))}")
    if "partitions" not in value:
        raise UsageError("Missing partitions field")
    rows = value["partitions"]
    if not isinstance(rows, list):
        raise UsageError(f"Expected JSON array, received {_shown(rows)}")
    found: dict[Partition, int] = {}
    twice: list[str] = []
    for partition, offset in map(_partition_and_offset, rows):
        if partition in found:
            twice.append(str(partition))
        found[partition] = offset
    if twice:
        names = ",".join(dict.fromkeys(twice))
        raise UsageError(f"Offset json file contains duplicate topic partitions: {names}")
    return found


def _partition_and_offset(value: Any) -> tuple[Partition, int]:
    row = _object(value)
    topic, number, offset = (_field(row, name) for name in ("topic", "partition", "offset"))
    if not isinstance(topic, str):
        raise UsageError(f"Expected `String` value, received {_shown(topic)}")
    if not _is_whole(number) or number not in _INT32:
        raise UsageError(f"Expected `Integer` value, received {_shown(number)}")
    if not _is_whole(offset) or offset not in _INT64:
        raise UsageError(f"Expected `Long` value, received {_shown(offset)}")
    return Partition(topic, number), offset


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"Expected JSON object, received {_shown(value)}")
    return value


def _field(row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise UsageError(f"No such field exists: `{name}`")
    return row[name]


def _shown(value: Any) -> str:
    return shortened(msgspec.json.encode(value).decode())


def perform(api: Api, options: Namespace, clock: Clock) -> Output:
    """Send the deletions of the options to the leaders.

    Raises:
        ClusterError: no node can be reached.
    """
    offsets: dict[Partition, int] = options.offsets
    topics = described_topics(api, sorted({p.topic for p in offsets})) if offsets else {}
    module = newest(DELETE_RECORDS)

    def ask(leader: int, wanted: dict[str, list[int]]) -> Rows[int]:
        request = module.DeleteRecordsRequest(
            topics=tuple(
                module.DeleteRecordsTopic(
                    name=name,
                    partitions=tuple(
                        module.DeleteRecordsPartition(
                            partition_index=number, offset=offsets[Partition(name, number)]
                        )
                        for number in numbers
                    ),
                )
                for name, numbers in wanted.items()
            ),
            timeout=TIMEOUT,
        )
        for topic in api.call(DELETE_RECORDS, request, leader).topics:
            for row in topic.partitions:
                code = int(row.error_code)
                mark = int(row.low_watermark)
                partition = Partition(str(topic.name), int(row.partition_index))
                yield partition, Failed(code) if code else mark

    found = answers_of_leaders(api, topics, offsets, ask, clock)
    errors = {p: exception_text(a.code) for p, a in found.items() if isinstance(a, Failed)}
    marks = {p: a for p, a in found.items() if not isinstance(a, Failed)}
    return _output(options, marks, errors)


def _output(
    options: Namespace, marks: dict[Partition, int], errors: dict[Partition, str]
) -> Output:
    if options.json:
        low = {str(p): mark for p, mark in sorted(marks.items())}
        failed = {str(p): text for p, text in sorted(errors.items())}
        return Output(json_line({"low_watermarks": low, "errors": failed}))
    lines = ["Executing records delete operation\n", "Records delete operation completed:\n"]
    for p in sorted({*marks, *errors}):
        told = f"error: {errors[p]}" if p in errors else f"low_watermark: {marks[p]}"
        lines.append(f"partition: {p}\t{told}\n")
    return Output("".join(lines))
