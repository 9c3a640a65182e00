"""The description of a quorum folder, `cluster.json`: read with every value checked, and written.

Written with it: every node's server.properties. Nothing is half-written: each file is replaced.
"""

import errno
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.configs.properties import PropertiesError, format_properties, parse_properties
from scripts.launcher.layout import (
    ROLES,
    SHOWN_CHARACTERS,
    AddedNode,
    Cluster,
    Voters,
    plan_nodes,
    server_properties,
)
from scripts.launcher.refusal import RefusalError

CLUSTER_FILE = "cluster.json"
JSON_TYPES = {
    str: "a text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list",
}  # fmt: skip


def load_cluster(folder: Path) -> Cluster | None:
    """The quorum in a folder, None if there is none; refuses a damaged description."""
    path = folder / CLUSTER_FILE
    try:
        text = path.read_text(encoding="utf-8")
        content = _field({"the content": json.loads(text)}, "the content", dict)
        cluster = Cluster(
            folder=folder,
            cluster_id=_field(content, "cluster_id", str),
            node_count=_field(content, "nodes", int),
            broker_count=_broker_count(content),
            base_port=_field(content, "base_port", int),
            settings=_field(content, "settings", dict),
            voters=_voters(content),
            added=tuple(_added(each) for each in _list(content, "added", dict)),
            removed=tuple(_list(content, "removed", int)),
        )
        for key in cluster.settings:
            _check_text(key, "a setting")
            _check_text(_field(cluster.settings, key, str), f"setting '{key[:SHOWN_CHARACTERS]}'")
        _check_text(cluster.cluster_id, "'cluster_id'")
        plan_nodes(cluster.node_count, cluster.broker_count, cluster.base_port)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError, OSError, RefusalError) as error:
        raise RefusalError(f"cannot read {path}: {error}") from error
    return cluster


def _broker_count(content: dict[str, Any]) -> int | None:
    """None for combined nodes; a description without `combined` has them where it has no broker."""
    count: int = _field(content, "brokers", int)
    is_combined = _field(content, "combined", bool) if "combined" in content else count == 0
    if is_combined and count != 0:
        raise ValueError(f"'brokers' is {count}, and combined nodes have none beside them")
    return None if is_combined else count


def _voters(content: dict[str, Any]) -> Voters | None:
    """None in a description from before dynamic voters, and for static ones."""
    if content.get("voters") is None:
        return None
    found = _field(content, "voters", dict)
    texts = _field(found, "directory_ids", dict)
    ids = {int(node_id): _field(texts, node_id, str) for node_id in texts}
    for text in ids.values():
        _check_text(text, "a directory id")
    return Voters(ids, _field(found, "has_begun", bool))


def _added(content: dict[str, Any]) -> AddedNode:
    roles = tuple(_list(content, "roles", str))
    if not roles or not set(roles) <= set(ROLES):
        raise ValueError(f"'roles' is {str(roles)[:SHOWN_CHARACTERS]}, not of {', '.join(ROLES)}")
    return AddedNode(_field(content, "id", int), roles, _field(content, "slot", int))


def _list(content: dict[str, Any], name: str, kind: type) -> list[Any]:
    """A list of values of one JSON type; empty where there is none."""
    values = _field(content, name, list) if name in content else []
    what = f"an entry of '{name}'"
    return [_field({what: each}, what, kind) for each in values]


def _field(content: dict[str, Any], name: str, kind: type) -> Any:
    """A value of one JSON type; ValueError if it is missing or another."""
    shown = f"'{name[:SHOWN_CHARACTERS]}'"
    if name not in content:
        raise ValueError(f"{shown} is missing")
    value = content[name]
    if type(value) is not kind:  # True is an int elsewhere
        raise ValueError(f"{shown} is {str(value)[:SHOWN_CHARACTERS]!r}, not {JSON_TYPES[kind]}")
    return value


def _check_text(text: str, what: str) -> None:
    """Refuses what no file can hold: half of a UTF-16 pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has {text[error.start]!r}, which is no character") from error


def save_cluster(cluster: Cluster) -> None:
    """Write the description and every node's server.properties."""
    content = {
        "cluster_id": cluster.cluster_id,
        "nodes": cluster.node_count,
        "brokers": cluster.broker_count or 0,
        "combined": cluster.broker_count is None,
        "base_port": cluster.base_port,
        "settings": cluster.settings,
        "voters": None if cluster.voters is None else asdict(cluster.voters),
        "added": [asdict(each) for each in cluster.added],
        "removed": cluster.removed,
    }
    try:
        for node in cluster.nodes:
            cluster.data_folder(node.id).mkdir(parents=True, exist_ok=True)
            text = format_properties(server_properties(cluster, node))
            _write(cluster.node_folder(node.id) / "server.properties", text)
        _write(cluster.folder / CLUSTER_FILE, json.dumps(content, indent=2) + "\n")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise RefusalError(f"disk full: cannot write to {cluster.folder}") from error
        raise RefusalError(f"cannot write to {cluster.folder}: {error.strerror}") from error


def check_cluster_ids(cluster: Cluster) -> None:
    """Refuse folders that were formatted for another cluster or node."""
    for node in cluster.nodes:
        path = cluster.data_folder(node.id) / "meta.properties"
        if not path.exists():
            continue
        try:
            found = parse_properties(path.read_text(encoding="utf-8", errors="replace"))
        except PropertiesError as error:
            raise RefusalError(f"cannot read {path}: {error}") from error
        for key, wanted in (("cluster.id", cluster.cluster_id), ("node.id", str(node.id))):
            if found.get(key) != wanted:
                raise RefusalError(
                    f"{path.parent} belongs to another cluster or node: "
                    f"{key}={found.get(key)}, expected {wanted}"
                )


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that a full disk leaves the old one."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
