"""Output of `status`: one object for machines, a table for people, an exit code."""

from typing import Any

from scripts.launcher.kafka_client import ClusterView, QuorumView, ask_cluster, ask_quorum
from scripts.launcher.layout import Cluster, NodePlan
from scripts.launcher.processes import is_paused, running_pid

HEALTHY = 0
FAILED = 1
USAGE = 2
DEGRADED = 3
COLUMNS = ("node", "pid", "roles", "leader", "state", "lag", "kafka", "controller", "http")
ASK_TIMEOUT_SECONDS = 1.0


def cluster_status(cluster: Cluster) -> dict[str, Any]:
    """Look at processes and ask the nodes; one object as `status --json` prints it."""
    pids = {node.id: running_pid(cluster, node.id) for node in cluster.nodes}
    paused = {node_id for node_id, pid in pids.items() if pid and is_paused(pid)}
    awake = [node for node in cluster.nodes if pids[node.id] and node.id not in paused]
    return status_object(cluster, pids, paused, find_quorum(awake), find_brokers(awake))


def find_quorum(nodes: list[NodePlan]) -> QuorumView | None:
    """The newest view of a leader that any of the nodes gives.

    Only a leader answers; when none of these nodes leads (a voter of another kind may), a broker
    among them asks for us.
    """
    for addresses in ([n.controller for n in nodes], [n.kafka for n in nodes]):
        asked = [ask_quorum(address, ASK_TIMEOUT_SECONDS) for address in addresses if address]
        views = [view for view in asked if view is not None]
        if views:
            return max(views, key=lambda view: view.leader_epoch)
    return None


def find_brokers(nodes: list[NodePlan]) -> ClusterView | None:
    """The brokers as the first node that answers sees them."""
    for node in nodes:
        if node.kafka:
            view = ask_cluster(node.kafka, ASK_TIMEOUT_SECONDS)
            if view is not None:
                return view
    return None


def status_object(
    cluster: Cluster,
    pids: dict[int, int | None],
    paused: set[int],
    quorum: QuorumView | None,
    brokers: ClusterView | None,
) -> dict[str, Any]:
    """The object of `status --json`; unknown values are null."""
    leader_end = -1
    if quorum is not None:
        leader_end = quorum.voter_ends.get(quorum.leader_id, -1)
    rows = []
    for node in cluster.nodes:
        end = None
        if quorum is not None:
            end = quorum.voter_ends.get(node.id, quorum.observer_ends.get(node.id))
        known_end = end if end is not None and end >= 0 else None
        pid = pids[node.id]
        rows.append(
            {
                "id": node.id,
                "pid": pid,
                "alive": pid is not None,
                "roles": list(node.roles),
                "state": _state(node, pid, paused, quorum, brokers),
                "kafka": node.kafka,
                "controller": node.controller,
                "http": node.http,
                "log_end_offset": known_end,
                "lag": None if known_end is None else max(0, leader_end - known_end),
            }
        )
    return {
        "cluster_id": cluster.cluster_id,
        "leader_id": None if quorum is None else quorum.leader_id,
        "leader_epoch": None if quorum is None else quorum.leader_epoch,
        "high_watermark": None if quorum is None else quorum.high_watermark,
        "nodes": rows,
    }


def exit_code(status: dict[str, Any]) -> int:
    """0 healthy; 3 without a leader, or with a node that is down or paused."""
    if status["leader_id"] is None:
        return DEGRADED
    down = [node for node in status["nodes"] if not node["alive"] or node["state"] == "paused"]
    return DEGRADED if down else HEALTHY


def table(status: dict[str, Any]) -> str:
    """The nodes as a table: a star for the leader; lag = records that a node is behind it."""
    rows = [COLUMNS]
    for node in status["nodes"]:
        is_leader = node["id"] == status["leader_id"]
        rows.append(
            (
                str(node["id"]),
                str(node["pid"] or "-"),
                ",".join(node["roles"]),
                "*" if is_leader else "",
                node["state"],
                "-" if node["lag"] is None else str(node["lag"]),
                node["kafka"] or "-",
                node["controller"] or "-",
                node["http"],
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def headline(status: dict[str, Any]) -> str:
    """One line above the table."""
    if status["leader_id"] is None:
        return f"cluster {status['cluster_id']}: no leader\n"
    return (
        f"cluster {status['cluster_id']}: leader {status['leader_id']}, "
        f"epoch {status['leader_epoch']}, high watermark {status['high_watermark']}\n"
    )


def _state(
    node: NodePlan,
    pid: int | None,
    paused: set[int],
    quorum: QuorumView | None,
    brokers: ClusterView | None,
) -> str:
    """stopped, paused, or what a process that runs does."""
    if pid is None:
        return "stopped"
    if node.id in paused:
        return "paused"
    return _running_state(node, quorum, brokers)


def _running_state(node: NodePlan, quorum: QuorumView | None, brokers: ClusterView | None) -> str:
    """Leader, follower, observer or no leader; a broker: fenced; a plain one: running, starting."""
    is_controller = "controller" in node.roles
    if "broker" in node.roles and brokers is not None:
        if brokers.fenced_by_broker.get(node.id, True):
            return "fenced"
        if not is_controller:
            return "running"
    if quorum is None:
        return "no leader"
    if not is_controller:
        return "starting"
    if quorum.leader_id == node.id:
        return "leader"
    return "follower" if node.id in quorum.voter_ends else "observer"
