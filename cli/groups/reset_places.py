"""Places that offsets are reset to: times, durations and CSV files as Kafka's tool reads them.

apache/kafka: clients/.../utils/Utils.java getDateTime, tools/.../OffsetsUtils.java, CsvUtils.java
"""

import csv
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from typing import Final

from cli.arguments import INT32_MAX, INT64_MAX, shortened
from cli.connect import ClusterError
from cli.records.clients.topic_metadata import Partition

_TIME: Final = re.compile(
    r"([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})T([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})\.([0-9]{1,3})"
    r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)"
)
_NUMBER: Final = r"([-+]?[0-9]{1,18})"
_DURATION: Final = re.compile(
    rf"([-+]?)P(?:{_NUMBER}D)?(?:T(?=[-+0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?"
    rf"(?:{_NUMBER}(?:[.,]([0-9]{{0,9}}))?S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = (24 * 3600, 3600, 60, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WITH_GROUP: Final = 4
_WITHOUT_GROUP: Final = 3


class PlaceError(ClusterError):
    """A time, duration or file that cannot be read; the text is shown behind Kafka's words."""


def time_ms(text: str) -> int:
    """Milliseconds since 1970 of `YYYY-MM-DDTHH:mm:SS.sss`, UTC unless a zone follows.

    Raises:
        PlaceError: not such a time.
    """
    date, has_time, clock = text.partition("T")
    if not has_time or not clock or not date:
        raise PlaceError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' "
            "according to ISO8601 format"
        )
    whole = text if any(sign in clock for sign in "+-Z") else f"{text}Z"
    matched = _TIME.fullmatch(whole)
    at = None if matched is None else _moment(*matched.groups())
    if at is None:
        shown = shortened(whole)
        raise PlaceError(f'java.text.ParseException: Unparseable date: "{shown}"')
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _moment(*words: str | None) -> datetime | None:
    """The time of the groups of _TIME; None if there is no such day, hour or zone."""
    *fields, sign, hours, minutes = words
    year, month, day, hour, minute, second, ms = (int(field or 0) for field in fields)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        return datetime(year, month, day, hour, minute, second, ms * 1000, zone)
    except ValueError:
        return None


def duration_ms(text: str) -> int:
    """Milliseconds of `PnDTnHnMn.nS`; negative is a time to come.

    Raises:
        PlaceError: not such a duration.
    """
    matched = _DURATION.fullmatch(text)
    if matched is None or not any(matched.groups()[1:5]):
        raise PlaceError("Text cannot be parsed to a Duration")
    sign, *numbers, fraction = matched.groups()
    seconds = sum(int(n or 0) * unit for n, unit in zip(numbers, _SECONDS, strict=True))
    ms = int(f"{fraction or 0:0<9}"[:9]) // 1_000_000
    is_negative_second = (numbers[-1] or "").startswith("-")
    total = seconds * 1000 + (-ms if is_negative_second else ms)
    return -total if sign == "-" else total


def plan_of_file(path: str, groups: Sequence[str]) -> dict[str, dict[Partition, int]]:
    """The offsets of a CSV file by group.

    Args:
        path: Of the file: lines `topic,partition,offset` for one group, or with the group before.
        groups: Of the command line.

    Raises:
        PlaceError: the file cannot be read, or a line has another form.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PlaceError(f"java.io.IOException: Unable to read file {shortened(path)}") from error
    plan: dict[str, dict[Partition, int]] = {}
    rows = list(csv.reader(StringIO(text)))
    is_short = len(groups) == 1 and bool(rows) and len(rows[0]) == _WITHOUT_GROUP
    for number, row in enumerate(rows, 1):
        cells = [groups[0], *row] if is_short else row
        numbers = _numbers(cells[2:]) if len(cells) == _WITH_GROUP else None
        if numbers is None:
            form = "topic,partition,offset" if is_short else "group,topic,partition,offset"
            raise PlaceError(f"{shortened(path)}: line {number} is not {form}")
        plan.setdefault(cells[0], {})[Partition(cells[1], numbers[0])] = numbers[1]
    return plan


def _numbers(cells: Sequence[str]) -> tuple[int, int] | None:
    """Partition and offset."""
    limits = INT32_MAX, INT64_MAX
    found = []
    for cell, limit in zip(cells, limits, strict=True):
        digits = cell.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or int(digits) > limit:
            return None
        found.append(int(digits))
    return found[0], found[1]


def csv_lines(offsets: Mapping[str, Mapping[Partition, int]], *, has_group: bool) -> str:
    """Lines for `plan_of_file`."""
    output = StringIO()
    writer = csv.writer(output, lineterminator="\n")
    for group, of_group in offsets.items():
        for partition, offset in of_group.items():
            row = (partition.topic, partition.number, offset)
            writer.writerow((group, *row) if has_group else row)
    return output.getvalue()
