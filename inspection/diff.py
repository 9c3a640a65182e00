"""Differences between two images, as a flat list of changes for a reader."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from inspection.views import (
    CONFIG_TYPES,
    View,
    acl_views,
    broker_views,
    controller_views,
    partition_view,
    quota_views,
    scram_views,
    shown_configs,
    topic_view,
)
from metadata.delta import MetadataDelta, delta_between
from metadata.image import Image

_TYPE_NAMES = {number: name for name, number in CONFIG_TYPES.items()}


class Change(View, frozen=True, kw_only=True):
    """One added, removed or changed object."""

    kind: str
    """feature, broker, controller, topic, partition, config, quota, acl, scram, producer_ids,
    delegation_token."""
    key: str
    change: Literal["added", "removed", "changed"]
    fields: list[str]
    """Names of the differing fields, for `changed`."""
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class DiffView(View, frozen=True, kw_only=True):
    """All changes between two offsets, grouped by kind, within a kind sorted by key."""

    from_offset: int
    to_offset: int
    change_count: int
    changes: list[Change]
    next_after: int | None
    """Value for `after` in the request of the next page; None at the end."""


def diff_changes(before: Image, after: Image) -> list[Change]:
    """Every change, grouped by kind in a fixed order, within a kind sorted by key."""
    delta = delta_between(before, after)
    changes = [
        *_mapped("feature", delta.features, before.features, after.features, _level),
        *_rows("broker", broker_views(before), broker_views(after), _id),
        *_rows("controller", controller_views(before), controller_views(after), _id),
        *_topic_changes(before, after, delta),
        *_config_changes(before, after, delta),
        *_rows("quota", quota_views(before), quota_views(after), _entity),
        *_rows("acl", acl_views(before), acl_views(after), _id),
        *_rows("scram", scram_views(before), scram_views(after), _scram_key),
        *_mapped(
            "delegation_token",
            delta.delegation_tokens,
            before.delegation_tokens,
            after.delegation_tokens,
            lambda token: {
                "owner": token.owner,
                "expiration_timestamp_ms": token.expiration_timestamp_ms,
                "max_timestamp_ms": token.max_timestamp_ms,
            },
        ),
    ]
    if delta.producer_ids:
        changes.append(
            _change(
                "producer_ids",
                "next",
                _next_producer_id(before),
                _next_producer_id(after),
            )
        )
    return changes


def _next_producer_id(image: Image) -> dict[str, Any] | None:
    return None if image.producer_ids is None else {"next_producer_id": image.producer_ids}


def _level(level: int) -> dict[str, Any]:
    return {"level": level}


def _id(row: dict[str, Any]) -> Any:
    return row["id"]


def _scram_key(row: dict[str, Any]) -> str:
    return f"{row['user']}/{row['mechanism']}"


def _entity(row: dict[str, Any]) -> str:
    parts = (
        f"{kind}={'<default>' if name is None else name}" for kind, name in row["entity"].items()
    )
    return ",".join(parts)


def _change(
    kind: str, key: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> Change:
    fields: list[str] = []
    if before is None:
        change: Literal["added", "removed", "changed"] = "added"
    elif after is None:
        change = "removed"
    else:
        change = "changed"
        names = sorted(before.keys() | after.keys())
        fields = [name for name in names if before.get(name) != after.get(name)]
    return Change(kind=kind, key=key, change=change, fields=fields, before=before, after=after)


def _rows(
    kind: str, before: list[Any], after: list[Any], key: Callable[[dict[str, Any]], Any]
) -> Iterator[Change]:
    old = {key(row): _shown(row) for row in map(msgspec.to_builtins, before)}
    new = {key(row): _shown(row) for row in map(msgspec.to_builtins, after)}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield _change(kind, str(name), old.get(name), new.get(name))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a broker without its counts: partitions have changes of their own."""
    return {name: value for name, value in row.items() if not name.endswith("_count")}


def _mapped(
    kind: str, ids: set[Any], before: Any, after: Any, view: Callable[[Any], dict[str, Any]]
) -> Iterator[Change]:
    for name in sorted(ids):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        yield _change(
            kind,
            str(name),
            None if old is None else view(old),
            None if new is None else view(new),
        )


def _topic_changes(before: Image, after: Image, delta: MetadataDelta) -> Iterator[Change]:
    ids = delta.topics_created | delta.topics_deleted | delta.topics_changed
    named = sorted(((after.topics.get(i) or before.topics[i]).name, i) for i in ids)
    partitions: list[Change] = []
    for name, topic_id in named:
        old, new = before.topics.get(topic_id), after.topics.get(topic_id)
        old_row = None if old is None else msgspec.to_builtins(topic_view(old))
        new_row = None if new is None else msgspec.to_builtins(topic_view(new))
        if old_row != new_row:
            yield _change("topic", name, old_row, new_row)
        old_parts = {} if old is None else dict(old.partitions)
        new_parts = {} if new is None else dict(new.partitions)
        for number in sorted(old_parts.keys() | new_parts.keys()):
            was, now = old_parts.get(number), new_parts.get(number)
            if was == now:
                continue
            was_row = None if was is None or old is None else _row(old, number, was)
            now_row = None if now is None or new is None else _row(new, number, now)
            partitions.append(_change("partition", f"{name}-{number}", was_row, now_row))
    yield from partitions


def _row(topic: Any, number: int, partition: Any) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(partition_view(topic, number, partition))
    return row


def _config_changes(before: Image, after: Image, delta: MetadataDelta) -> Iterator[Change]:
    for resource_type, name in sorted(delta.configs):
        old = shown_configs(resource_type, before.config(resource_type, name))
        new = shown_configs(resource_type, after.config(resource_type, name))
        # A changed hidden value still counts as a change of its resource.
        if before.config(resource_type, name) == after.config(resource_type, name):
            continue
        kind = _TYPE_NAMES.get(resource_type, str(resource_type))
        yield _change("config", f"{kind}/{name}", dict(old) or None, dict(new) or None)
