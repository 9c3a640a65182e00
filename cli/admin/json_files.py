"""JSON files that commands read: partitions to elect leaders for, reassignments, topics to move."""

from pathlib import Path
from typing import Any

import msgspec

from cli.arguments import INT32_MAX, UsageError


def read_json(path: str) -> dict[str, Any]:
    """Read the JSON object of a file.

    Raises:
        UsageError: the file cannot be read or holds something else.
    """
    try:
        value = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path}: not a JSON object")
    return value


def rows_of(path: str, value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of objects under a key.

    Raises:
        UsageError: there is none, or it is empty.
    """
    version = value.get("version", 1)
    if version != 1:
        raise UsageError(f"{path}: Not supported version field value {version!r}")
    rows = value.get(key)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path}: '{key}' is not a list of objects with at least one")
    return rows


def partition_of(path: str, row: dict[str, Any]) -> tuple[str, int]:
    """`topic` and `partition` of an object, as a pair.

    Raises:
        UsageError: they are missing or of other types.
    """
    topic, partition = row.get("topic"), row.get("partition")
    if not isinstance(topic, str) or not topic:
        raise UsageError(f"{path}: 'topic' is {topic!r}, not a name")
    if not is_id(partition):
        raise UsageError(f"{path}: 'partition' of {topic} is {partition!r}, not a number from 0")
    assert isinstance(partition, int), "checked by is_id"
    return topic, partition


def is_id(value: Any) -> bool:
    """Return True if a value is a valid number of a partition or broker."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX


def partitions_of(path: str) -> dict[str, list[int]]:
    """Topic -> partitions of `{"partitions": [{"topic": T, "partition": P}]}`.

    Raises:
        UsageError: the file has another form, or names a partition twice.
    """
    found: dict[str, list[int]] = {}
    for row in rows_of(path, read_json(path), "partitions"):
        topic, partition = partition_of(path, row)
        if partition in found.setdefault(topic, []):
            raise UsageError(
                f"Replica election data contains duplicate partitions: {topic}-{partition}"
            )
        found[topic].append(partition)
    return found
