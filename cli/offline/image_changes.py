"""Differences between two images, regardless of the order of lists without one."""

from typing import Any

import msgspec

from inspection.diff import diff_changes
from metadata.image import Image


def changes_between(before: Image, after: Image) -> list[dict[str, Any]]:
    """Every change as a plain object, grouped by kind, within a kind sorted by key.

    A snapshot of Kafka lists endpoints and features of a node in another order than the record that
    registered it; such a difference is left out.
    """
    changes = [msgspec.to_builtins(change) for change in diff_changes(before, after)]
    return [change for change in changes if not _is_order_only(change)]


def _is_order_only(change: dict[str, Any]) -> bool:
    if change["change"] != "changed" or change["kind"] not in ("broker", "controller"):
        return False
    return bool(_sorted(change["before"]) == _sorted(change["after"]))


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return sorted((_sorted(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    return value
