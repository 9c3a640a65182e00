"""Rules that choose the partitions of `get-offsets`, as GetOffsetShell reads them."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from cli.arguments import INT32_MAX, UsageError, shortened
from cli.records.clients.topic_metadata import Partition

Rule = Callable[[Partition], bool]
_SPECIFICATION: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")


def topic_pattern(expression: str) -> re.Pattern[str]:
    """A list of topics as Kafka's IncludeList reads it: `,` between regular expressions.

    Raises:
        UsageError: not a regular expression.
    """
    try:
        return re.compile(expression.strip().strip("'\"").replace(" ", "").replace(",", "|"))
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{shortened(expression)} is an invalid regex.") from error


def rules_of(text: str) -> Rule:
    """Any of the comma-separated rules `TOPIC:NUMBER`, `TOPIC:FROM-TO`, each part optional.

    Raises:
        UsageError: one of them has another form.
    """
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:  # as Java's split
        parts.pop()
    rules = [_rule(part) for part in parts]
    return lambda partition: any(rule(partition) for rule in rules)


def topic_and_numbers(topic: str | None, numbers: str | None) -> Rule:
    """The partitions of --topic and --partitions; without them all.

    Raises:
        UsageError: not numbers, or not a regular expression.
    """
    pattern = topic_pattern(".*" if topic is None else topic)
    wanted = _numbers(numbers or "")
    return lambda partition: (
        pattern.fullmatch(partition.topic) is not None
        and (not wanted or partition.number in wanted)
    )


def _numbers(text: str) -> frozenset[int]:
    parts: Iterable[str] = text.rstrip(",").split(",") if text else ()
    if not all(_NUMBER.fullmatch(part) for part in parts):
        raise UsageError(
            "--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {shortened(text)}"
        )
    return frozenset(map(int, parts))


def _rule(specification: str) -> Rule:
    matched = _SPECIFICATION.fullmatch(specification)
    if matched is None:
        raise UsageError(f"Invalid rule specification: {shortened(specification)}")
    topic, number, lower, upper = matched.groups()
    pattern = topic_pattern(topic or ".*")
    low, high = _int(number or lower) or 0, _int(upper)
    if number:
        high = low + 1
    elif high is None:
        high = INT32_MAX
    return lambda partition: (
        pattern.fullmatch(partition.topic) is not None and low <= partition.number < high
    )


def _int(digits: str | None) -> int | None:
    if not digits:
        return None
    if len(digits.lstrip("0")) > 10 or int(digits) > INT32_MAX:
        raise UsageError(f'For input string: "{shortened(digits)}"')
    return int(digits)
