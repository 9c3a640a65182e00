"""Tables of `kraftline transactions`: text as kafka-transactions prints it, or JSON.

Source of the form: apache/kafka: tools/.../ToolsUtils.java (prettyPrintTable), 4.3.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from cli.command import Output
from cli.connect import json_line
from cli.records.clients.topic_metadata import Partition

NOTHING: Final = "None"
"""Text of a value that is not there."""


class Column(NamedTuple):
    """A column: its heading, and its name in JSON."""

    heading: str
    name: str


def printed(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], what: str, *, as_json: bool
) -> Output:
    """The output of a command.

    Args:
        columns: Of the table.
        rows: A value for each column; None for one that is not there.
        what: Name of the rows in JSON.
        as_json: One JSON object instead of the table.
    """
    if as_json:
        names = [column.name for column in columns]
        found = [dict(zip(names, map(_value, row), strict=True)) for row in rows]
        return Output(json_line({what: found}))
    lines = [[column.heading for column in columns], *(list(map(_text, row)) for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return Output(
        "".join(
            "".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)) + "\n"
            for line in lines
        )
    )


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return NOTHING if value is None else str(value)


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return (
            [_value(each) for each in value]
            if not isinstance(value, Partition)
            else ({"topic": value.topic, "partition": value.number})
        )
    return value
