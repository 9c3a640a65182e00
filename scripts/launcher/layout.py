"""Content of a quorum folder, and the addresses of its nodes.

    DIR/cluster.json              cluster id, ports, nodes, first voters, settings given with --set
    DIR/nodeN/server.properties   Kafka's keys, rewritten by every `up`
    DIR/nodeN/data/               log.dirs of the node: its metadata log and partitions
    DIR/nodeN/node.log            its output
    DIR/nodeN/node.pid            pid and start time of its process

Ports: the k-th node that serves clients listens at base port + k (k from 0), the controller with
id n at base port + 1000 + n - 1, the inspection API of the k-th node at base port + 2000 + k. Nodes
are combined (broker and controller, ids 1..n), or controllers are 1..n and brokers 101...
"""

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path

from scripts.launcher.refusal import RefusalError, UsageError

HOST = "127.0.0.1"
CONTROLLER_PORT_DISTANCE = 1000
HTTP_PORT_DISTANCE = 2000
FIRST_BROKER_ID = 101
NODES_MAX = 100
PORT_MAX = 65535
BASE_PORT_MAX = PORT_MAX - HTTP_PORT_DISTANCE
"""Of a quorum of one node."""
ROLES = ("broker", "controller")
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
class Voters:
    """The voters that a dynamic quorum begins with (KIP-853)."""

    directory_ids: dict[int, str]
    """Of each controller's metadata directory."""
    has_begun: bool = False
    """True once it has served: a folder that is empty after that has lost its votes, and must not
    be given the directory id that had them."""


@dataclass(frozen=True)
class AddedNode:
    """A node of `quorum add-node`; `slot` counts all nodes there have ever been, from 0."""

    id: int
    roles: tuple[str, ...]
    slot: int

    def plan(self, base_port: int) -> NodePlan:
        """Its ports."""
        return NodePlan(
            self.id,
            self.roles,
            base_port + self.slot if "broker" in self.roles else None,
            base_port + CONTROLLER_PORT_DISTANCE + self.slot
            if "controller" in self.roles
            else None,
            base_port + HTTP_PORT_DISTANCE + self.slot,
        )


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
    voters: Voters | None = None
    """Beginning of a dynamic quorum; None: static voters, of `controller.quorum.voters`."""
    added: tuple[AddedNode, ...] = ()
    removed: tuple[int, ...] = ()
    """Ids that no other node gets."""

    @property
    def nodes(self) -> tuple[NodePlan, ...]:
        """All nodes: those of the beginning by id, then the added ones, without the removed."""
        first = plan_nodes(self.node_count, self.broker_count, self.base_port)
        later = [each.plan(self.base_port) for each in self.added]
        return tuple(node for node in (*first, *later) if node.id not in self.removed)

    @property
    def ids_ever(self) -> tuple[int, ...]:
        """The ids of all nodes that there have ever been."""
        first = plan_nodes(self.node_count, self.broker_count, self.base_port)
        return (*(node.id for node in first), *(each.id for each in self.added))

    @property
    def controllers(self) -> tuple[NodePlan, ...]:
        """The nodes that have a controller listener."""
        return tuple(node for node in self.nodes if node.controller_port is not None)

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
    listeners = []
    if node.kafka_port is not None:
        listeners.append(f"PLAINTEXT://{node.kafka}")
    if node.controller_port is not None:
        listeners.append(f"CONTROLLER://{node.controller}")
    properties = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.id),
        **quorum_properties(cluster),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(cluster.data_folder(node.id)),
        "inspection.listener": f"{HOST}:{node.http_port}",
    }
    if "broker" in node.roles:
        properties["inter.broker.listener.name"] = "PLAINTEXT"
    return {**properties, **cluster.settings}


def quorum_properties(cluster: Cluster) -> dict[str, str]:
    """The key by which a node finds the quorum: its voters, or controllers to ask for them."""
    if cluster.voters is None:
        voters = ",".join(f"{node.id}@{node.controller}" for node in cluster.controllers)
        return {"controller.quorum.voters": voters}
    servers = ",".join(node.controller for node in cluster.controllers)
    return {"controller.quorum.bootstrap.servers": servers}


def format_flags(cluster: Cluster, node: NodePlan) -> list[str]:
    """Flags of `server start` for a folder that is formatted."""
    if cluster.voters is None or node.controller_port is None:
        return []
    ids = cluster.voters.directory_ids
    if cluster.voters.has_begun or node.id not in ids:
        return ["--no-initial-controllers"]
    first = plan_nodes(cluster.node_count, cluster.broker_count, cluster.base_port)
    entries = [f"{each.id}@{each.controller}:{ids[each.id]}" for each in first if each.id in ids]
    return ["--initial-controllers", ",".join(entries)]


def new_id() -> str:
    """16 random bytes as Kafka writes them; never with a leading '-', which looks like a flag."""
    while True:
        text = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text
