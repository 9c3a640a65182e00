"""`kraftline server ready`: is the node of these settings, on this machine, ready for clients?

A node with `inspection.listener` is asked for /readyz, which knows most. Without one a broker has
to be among the brokers that it lists, which fenced ones are not, and a controller has to know the
active one. The answer is one line; the exit code 0 or 1.
"""

import http.client
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cli.connect import (
    DESCRIBE_CLUSTER,
    ENDPOINT_BROKERS,
    ENDPOINT_CONTROLLERS,
    Cluster,
    ClusterError,
    check,
    describe_cluster_request,
)
from cli.connection_config import ConnectionConfig
from kernel.config import NodeConfig
from node.configs.sources import configuration
from node.errors import ConfigError
from wire.types import Endpoint

Address = tuple[str, int]
"""Host and port."""
MS_PER_S: Final = 1_000
NO_CONTROLLER: Final = -1
ON_ALL: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Address at which a listener on all interfaces is reached from its own machine."""


def tell(
    properties: Path | None,
    overrides: Sequence[str],
    timeout_s: int,
    *,
    is_environment_stronger: bool,
) -> int:
    """Print whether the node is ready and return the exit code: 0 ready, 1 not.

    Args:
        properties: as of its start.
        overrides: as of its start.
        timeout_s: for each answer.
        is_environment_stronger: as of its start.
    """
    try:
        config = configuration(
            properties, overrides, os.environ, is_environment_stronger=is_environment_stronger
        )
    except ConfigError as refused:
        sys.stderr.write(f"{refused}\n")
        return 1
    reason = next(reasons(config, timeout_s), None)
    if reason is None:
        sys.stdout.write(f"node {config.node_id} is ready\n")
        return 0
    sys.stdout.write(f"node {config.node_id} is not ready: {reason}\n")
    return 1


def reasons(config: NodeConfig, timeout_s: int) -> Iterator[str]:
    """Ask the node; yield why it is not ready, nothing if it is."""
    if config.inspection_listener is not None:
        yield from _by_http(reachable(config.inspection_listener), timeout_s)
        return
    for address, kind in asked(config):
        yield from _by_protocol(address, kind, config.node_id, timeout_s)


def asked(config: NodeConfig) -> list[tuple[Address, int]]:
    """A listener of each role of the node, with the kind of endpoints that it can describe."""
    of_kinds = (
        (config.broker_listeners, ENDPOINT_BROKERS),
        (config.controller_listeners, ENDPOINT_CONTROLLERS),
    )
    return [(reachable(listeners[0]), kind) for listeners, kind in of_kinds if listeners]


def reachable(at: Endpoint) -> Address:
    """The address of a listener for who is on its machine."""
    return ON_ALL.get(at.host, at.host), at.port


def connection(timeout_s: int) -> ConnectionConfig:
    """Settings of a connection whose answers are waited for so long."""
    return ConnectionConfig(request_timeout_ms=timeout_s * MS_PER_S)


def of_health(status: int, body: bytes) -> str | None:
    """Reason for which a node that answered /readyz so is not ready; None if it is."""
    if status == http.client.OK:
        return None
    try:
        failed = msgspec.json.decode(body, type=Mapping[str, Any]).get("failed", [])
    except msgspec.DecodeError:
        failed = []
    return ", ".join(map(str, failed)) or f"HTTP status {status}"


def of_cluster(answer: Any, kind: int, node_id: int) -> str | None:
    """Reason for which a node that described the cluster so is not ready; None if it is."""
    if kind == ENDPOINT_CONTROLLERS:
        return "no active controller" if answer.controller_id == NO_CONTROLLER else None
    is_listed = any(broker.broker_id == node_id for broker in answer.brokers)
    return None if is_listed else "the broker is fenced"


def _by_http(at: Address, timeout_s: int) -> Iterator[str]:
    host, port = at
    client = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        client.request("GET", "/readyz")
        response = client.getresponse()
        reason = of_health(response.status, response.read())
    except (OSError, http.client.HTTPException) as error:
        reason = f"{host}:{port}: {error}"
    finally:
        client.close()
    if reason is not None:
        yield reason


def _by_protocol(at: Address, kind: int, node_id: int, timeout_s: int) -> Iterator[str]:
    try:
        with Cluster([at], is_controllers=False, config=connection(timeout_s)) as cluster:
            answer = check(cluster.call(DESCRIBE_CLUSTER, describe_cluster_request(kind)))
            reason = of_cluster(answer, kind, node_id)
    except ClusterError as error:
        reason = str(error)
    if reason is not None:
        yield reason
