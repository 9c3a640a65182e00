"""`quorum add-node` and `remove-node`: nodes that come and go while the quorum serves (KIP-853).

An id is used once. A controller joins as an observer, and is a voter when the quorum has committed
that; a removed one is stopped when the quorum goes on without it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from node.configs.properties import PropertiesError, parse_properties
from scripts.launcher import processes
from scripts.launcher.description import save_cluster
from scripts.launcher.environment import ROOT
from scripts.launcher.kafka_client import QuorumView
from scripts.launcher.layout import (
    FIRST_BROKER_ID,
    HTTP_PORT_DISTANCE,
    NODES_MAX,
    PORT_MAX,
    AddedNode,
    Cluster,
    NodePlan,
)
from scripts.launcher.refusal import RefusalError
from scripts.launcher.report import find_quorum

STATIC = (
    "its voters are static (controller.quorum.voters in every server.properties), and stay as they "
    "are; a quorum that `quorum up` makes anew has dynamic ones"
)
SHOWN_PARTITIONS = 3
NOT_REGISTERED = "is not currently registered"
"""Answer about a broker that never registered, or whose removal was interrupted."""


def planned_node(cluster: Cluster, role: str | None) -> AddedNode:
    """The next node of a cluster; refuses one that cannot be.

    Args:
        cluster: as it is.
        role: combined, controller or broker; None: as its other nodes, a broker beside dedicated
            controllers.
    """
    if role is None:
        role = "combined" if cluster.broker_count is None else "broker"
    roles = ("broker", "controller") if role == "combined" else (role,)
    if "controller" in roles and cluster.voters is None:
        raise RefusalError(f"a controller cannot join {cluster.folder}: {STATIC}")
    ids = cluster.ids_ever
    if len(ids) >= NODES_MAX:
        raise RefusalError(f"{cluster.folder} has had {len(ids)} nodes; {NODES_MAX} are allowed")
    is_broker = roles == ("broker",)
    alike = [node_id for node_id in ids if (node_id >= FIRST_BROKER_ID) == is_broker]
    node_id = max(alike, default=FIRST_BROKER_ID - 1) + 1
    slot = len(ids)
    if cluster.base_port + HTTP_PORT_DISTANCE + slot > PORT_MAX:
        raise RefusalError(
            f"node {node_id} needs port {cluster.base_port + HTTP_PORT_DISTANCE + slot}; "
            f"the highest is {PORT_MAX}"
        )
    return AddedNode(node_id, roles, slot)


def serving_quorum(cluster: Cluster) -> QuorumView:
    """View of the leader; refuses a quorum that has none."""
    quorum = find_quorum([n for n in cluster.nodes if processes.is_awake(cluster, n.id)])
    if quorum is None:
        raise RefusalError(f"{cluster.folder} has no leader; nodes come and go while it serves")
    return quorum


def add_voter(cluster: Cluster, node: NodePlan, python: Path) -> None:
    """Make a controller that has joined a voter; on a refusal it stays an observer."""
    properties = cluster.node_folder(node.id) / "server.properties"
    words = ["--bootstrap-controller", _controllers(cluster, node), "--command-config",
             str(properties), "add-controller"]  # fmt: skip
    try:
        run_tool(python, ["quorum", *words])
    except RefusalError as error:
        raise RefusalError(
            f"node {node.id} runs and is no voter: {error}; "
            f"try `kraftline quorum {' '.join(words)}` again, or quorum remove-node {node.id}"
        ) from error


def check_removable(cluster: Cluster, node: NodePlan, quorum: QuorumView, python: Path) -> None:
    """Refuse what the cluster would miss: static voters, the last controller, replicas."""
    if "controller" in node.roles:
        if cluster.voters is None:
            raise RefusalError(f"node {node.id} cannot leave {cluster.folder}: {STATIC}")
        if len(cluster.controllers) == 1:
            raise RefusalError(f"node {node.id} is the only controller of {cluster.folder}")
        if set(quorum.voter_ends) == {node.id}:
            raise RefusalError(f"node {node.id} is the only voter of {cluster.folder}")
    if "broker" in node.roles:
        held = held_partitions(_described(cluster, node, python), node.id)
        if held:
            shown = ", ".join(held[:SHOWN_PARTITIONS])
            more = "" if len(held) <= SHOWN_PARTITIONS else ", ..."
            raise RefusalError(
                f"node {node.id} holds replicas of {len(held)} partitions ({shown}{more}); "
                "move them first: kraftline reassign-partitions"
            )


def remove_voter(cluster: Cluster, node: NodePlan, quorum: QuorumView, python: Path) -> None:
    """Remove a controller from the voters; nothing if it is none.

    Refused where too few of the others follow: the record would hold once it is written, and could
    not be committed, so that the quorum would have no leader until one of the dead is back.
    """
    if node.id not in quorum.voter_ends:
        return
    words = [
        "quorum", "--bootstrap-controller", _controllers(cluster, node),
        "remove-controller", "--controller-id", str(node.id),
        "--controller-directory-id", _directory_id(cluster, node),
    ]  # fmt: skip
    try:
        run_tool(python, [*words, "--dry-run"])
    except RefusalError as error:
        raise RefusalError(f"node {node.id} stays a voter: {error}") from error
    run_tool(python, words)


def unregister(cluster: Cluster, node: NodePlan, python: Path) -> None:
    """Remove the registration of a broker that is stopped; one without has left already."""
    if "broker" in node.roles:
        servers = _brokers(cluster, node)
        try:
            run_tool(python, ["cluster", "unregister", *servers, "--id", str(node.id)])
        except RefusalError as error:
            if NOT_REGISTERED not in str(error):
                raise


def forget_added(cluster: Cluster, node: NodePlan) -> None:
    """Undo the plan of a node that did not start: the cluster is as before."""
    save_cluster(cluster)
    shutil.rmtree(cluster.node_folder(node.id), ignore_errors=True)


def without(cluster: Cluster, node: NodePlan) -> Cluster:
    """The cluster without a node, whose id is not used again."""
    return replace(cluster, removed=(*cluster.removed, node.id))


def held_partitions(topics: Sequence[Any], node_id: int) -> list[str]:
    """Partitions with a replica on a broker, as `topic-number`, of `topics --describe --json`."""
    return [
        f"{topic['name']}-{partition['index']}"
        for topic in topics
        for partition in topic["partitions"]
        if node_id in partition["replicas"]
    ]


def run_tool(python: Path, words: Sequence[str]) -> str:
    """Run a command of kraftline; its output. Refuses with its last line where it fails."""
    done = subprocess.run(
        [str(python), "-m", "cli.main", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RefusalError(lines[0] if lines else f"exit code {done.returncode}")
    sys.stderr.write(done.stderr)
    return done.stdout


def _described(cluster: Cluster, node: NodePlan, python: Path) -> Sequence[Any]:
    words = ["topics", *_brokers(cluster, node), "--describe", "--json"]
    found: Sequence[Any] = json.loads(run_tool(python, words))["topics"]
    return found


def _controllers(cluster: Cluster, node: NodePlan) -> str:
    return ",".join(each.controller for each in cluster.controllers if each.id != node.id)


def _brokers(cluster: Cluster, node: NodePlan) -> list[str]:
    others = [each for each in cluster.nodes if each.kafka and each.id != node.id]
    if not others:
        raise RefusalError(f"node {node.id} is the only broker of {cluster.folder}")
    return ["--bootstrap-server", ",".join(each.kafka for each in others)]


def _directory_id(cluster: Cluster, node: NodePlan) -> str:
    path = cluster.data_folder(node.id) / "meta.properties"
    try:
        found = parse_properties(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, PropertiesError) as error:
        raise RefusalError(
            f"cannot read {path}: {error}; the directory id of a voter is in `kraftline quorum "
            "describe --replication`, remove it with `kraftline quorum remove-controller`"
        ) from error
    if "directory.id" not in found:
        raise RefusalError(f"{path} has no directory.id")
    return found["directory.id"]
