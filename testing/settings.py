"""The settings of the nodes of a test cluster: properties as in server.properties, pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
NODES_MAX: Final = 9
REPLICAS_MAX: Final = 3
FIXED: Final = frozenset(
    {
        "node.id",
        "process.roles",
        "controller.quorum.voters",
        "listeners",
        "advertised.listeners",
        "controller.listener.names",
        "listener.security.protocol.map",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)
"""Keys that make the cluster one; the caller does not set them."""


class NodePorts(NamedTuple):
    """Ports of one node on `HOST`."""

    broker: int
    controller: int


class SettingsError(ValueError):
    """A cluster that cannot be made as asked; one line."""


def check(nodes: int, configs: Mapping[str, str]) -> None:
    """Check what a caller asks for, before a process or folder exists.

    Raises:
        SettingsError: too few or many nodes, or a key that the cluster sets itself.
    """
    if not 1 <= nodes <= NODES_MAX:
        raise SettingsError(f"nodes={nodes}; allowed: 1 to {NODES_MAX}")
    if taken := sorted(FIXED & configs.keys()):
        raise SettingsError(f"the cluster sets {', '.join(taken)} itself")
    for key, value in configs.items():
        if not key or set(key) & set(" =\n\r") or "\n" in value or "\r" in value:
            raise SettingsError(f"{key[:80]!r}={value[:80]!r} is not one line KEY=VALUE")


def properties(
    node_id: int, ports: Sequence[NodePorts], folder: str, configs: Mapping[str, str]
) -> str:
    """Content of the server.properties of a node; ids count from 1, `configs` are the last word."""
    assert 1 <= node_id <= len(ports)
    mine = ports[node_id - 1]
    voters = ",".join(f"{i}@{HOST}:{one.controller}" for i, one in enumerate(ports, 1))
    values = {
        **defaults(len(ports)),
        **configs,
        "node.id": str(node_id),
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{HOST}:{mine.broker},CONTROLLER://{HOST}:{mine.controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder,
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in values.items())


def defaults(nodes: int) -> dict[str, str]:
    """Settings that differ from Kafka's: small internal topics, short waits for others.

    Three replicas and two in sync where there are three nodes, as in production.
    """
    replicas = min(nodes, REPLICAS_MAX)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(max(1, replicas - 1)),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "2000",
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.election.backoff.max.ms": "200",
        "controller.quorum.fetch.timeout.ms": "1000",
        "controller.quorum.retry.backoff.ms": "5",  # the first to start finds the others refusing
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
