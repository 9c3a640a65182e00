"""Content of a quorum folder, and the addresses of its nodes.

    DIR/cluster.json              cluster id, ports, nodes, settings given with --set
    DIR/nodeN/server.properties   Kafka's keys, rewritten by every `up`
    DIR/nodeN/data/               log.dirs of the node: its metadata log and partitions
    DIR/nodeN/node.log            its output
    DIR/nodeN/node.pid            pid and start time of its process

Ports: the k-th node that serves clients listens at base port + k (k from 0), the controller with
id n at base port + 1000 + n - 1, the inspection API of the k-th node at base port + 2000 + k. Nodes
are combined (broker and controller, ids 1..n), or controllers are 1..n and brokers 101...
"""

import base64
import errno
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node.configs.properties import PropertiesError, format_properties, parse_properties
from scripts.launcher.refusal import RefusalError, UsageError

HOST = "127.0.0.1"
CLUSTER_FILE = "cluster.json"
CONTROLLER_PORT_DISTANCE = 1000
HTTP_PORT_DISTANCE = 2000
FIRST_BROKER_ID = 101
NODES_MAX = 100
PORT_MAX = 65535
BASE_PORT_MAX = PORT_MAX - HTTP_PORT_DISTANCE
"""Of a quorum of one node."""
JSON_TYPES = {str: "a text", int: "a whole number", bool: "true or false", dict: "an object"}
SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class NodePlan:
    """One node of the quorum; a port is None where it has no such listener."""

    id: int
    roles: tuple[str, ...]
    kafka_port: int | None
    controller_port: int | None
    http_port: int

    @property
    def kafka(self) -> str:
        """Address for clients, empty if it serves none."""
        return f"{HOST}:{self.kafka_port}" if self.kafka_port else ""

    @property
    def controller(self) -> str:
        """Address of its controller listener, empty if it has none."""
        return f"{HOST}:{self.controller_port}" if self.controller_port else ""

    @property
    def http(self) -> str:
        """Address of its inspection API."""
        return f"http://{HOST}:{self.http_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """All ports it will listen at."""
        ports = (self.kafka_port, self.controller_port, self.http_port)
        return tuple(port for port in ports if port)


@dataclass(frozen=True)
class Cluster:
    """A quorum folder."""

    folder: Path
    cluster_id: str
    node_count: int
    """Combined nodes, or controllers."""
    broker_count: int | None
    """Brokers beside dedicated controllers, 0 of them too; None: the nodes are combined."""
    base_port: int
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[NodePlan, ...]:
        """All nodes, by id."""
        return plan_nodes(self.node_count, self.broker_count, self.base_port)

    def node(self, node_id: int) -> NodePlan:
        """One node; refuses an unknown id."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise RefusalError(f"there is no node {node_id} in {self.folder}; {self._known}")

    def node_of(self, text: str) -> NodePlan:
        """Node that the argument NODE names; refuses any text but an id of the quorum."""
        try:
            node_id = int(text)
        except ValueError:
            shown = repr(text[:SHOWN_CHARACTERS])
            raise UsageError(
                f"NODE {shown} is not the id of a node in {self.folder}; {self._known}"
            ) from None
        return self.node(node_id)

    @property
    def _known(self) -> str:
        return f"its nodes are {', '.join(str(node.id) for node in self.nodes)}"

    def node_folder(self, node_id: int) -> Path:
        """Folder of a node."""
        return self.folder / f"node{node_id}"

    def data_folder(self, node_id: int) -> Path:
        """`log.dirs` of a node."""
        return self.node_folder(node_id) / "data"


def plan_nodes(node_count: int, broker_count: int | None, base_port: int) -> tuple[NodePlan, ...]:
    """Ids, roles and ports; refuses counts and ports that cannot work.

    Args:
        node_count: Combined nodes, or controllers.
        broker_count: Dedicated brokers; None makes the nodes combined.
        base_port: First Kafka port.
    """
    dedicated_count = broker_count or 0
    for flag, least, count in (("--nodes", 1, node_count), ("--brokers", 0, dedicated_count)):
        if not least <= count <= NODES_MAX:
            raise RefusalError(f"{flag} {count} is not between {least} and {NODES_MAX}")
    first_http_port = base_port + HTTP_PORT_DISTANCE
    highest = first_http_port + node_count + dedicated_count - 1
    if base_port < 1 or highest > PORT_MAX:
        raise RefusalError(
            f"--base-port {base_port} is not between 1 and {PORT_MAX + base_port - highest}: "
            f"these nodes need ports up to {highest}"
        )
    first_controller_port = base_port + CONTROLLER_PORT_DISTANCE
    if broker_count is None:
        return tuple(
            NodePlan(
                k + 1,
                ("broker", "controller"),
                base_port + k,
                first_controller_port + k,
                first_http_port + k,
            )
            for k in range(node_count)
        )
    controllers = [
        NodePlan(k + 1, ("controller",), None, first_controller_port + k, first_http_port + k)
        for k in range(node_count)
    ]
    brokers = [
        NodePlan(
            FIRST_BROKER_ID + k, ("broker",), base_port + k, None, first_http_port + node_count + k
        )
        for k in range(broker_count)
    ]
    return (*controllers, *brokers)


def server_properties(cluster: Cluster, node: NodePlan) -> dict[str, str]:
    """Kafka's keys for one node; settings given with --set come last and win."""
    voters = [n for n in cluster.nodes if n.controller_port is not None]
    listeners = []
    if node.kafka_port is not None:
        listeners.append(f"PLAINTEXT://{node.kafka}")
    if node.controller_port is not None:
        listeners.append(f"CONTROLLER://{node.controller}")
    properties = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{n.id}@{n.controller}" for n in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(cluster.data_folder(node.id)),
        "inspection.listener": f"{HOST}:{node.http_port}",
    }
    if "broker" in node.roles:
        properties["inter.broker.listener.name"] = "PLAINTEXT"
    return {**properties, **cluster.settings}


def new_cluster_id() -> str:
    """16 random bytes as Kafka writes them; never with a leading '-', which looks like a flag."""
    while True:
        text = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


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
