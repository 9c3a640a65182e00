"""The commands of `scripts/quorum`.

Exit codes: 0 done or healthy, 1 refused or failed, 2 usage, 3 (status) no leader or a node down.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.launcher import membership, processes
from scripts.launcher.description import check_cluster_ids, load_cluster, save_cluster
from scripts.launcher.environment import ROOT, ensure_environment
from scripts.launcher.layout import (
    BASE_PORT_MAX,
    NODES_MAX,
    SHOWN_CHARACTERS,
    Cluster,
    NodePlan,
    Voters,
    new_id,
    plan_nodes,
)
from scripts.launcher.readiness import wait_ready
from scripts.launcher.refusal import RefusalError, UsageError
from scripts.launcher.report import (
    FAILED,
    HEALTHY,
    USAGE,
    cluster_status,
    exit_code,
    headline,
    table,
)

STATIC_VOTERS = "controller.quorum.voters"
DEFAULT_NODES = 3
DEFAULT_BASE_PORT = 9092
STOP_SECONDS = 20.0
KILL_SECONDS = 5.0
FOLLOW_SECONDS = 0.1
CONFIRMED = ("y", "yes")


def main(words: Sequence[str]) -> int:
    """Run one command line; gives the exit code."""
    arguments = _parser().parse_args(words)
    try:
        code = arguments.run(arguments)
    except RefusalError as error:
        sys.stderr.write(f"quorum: {error}\n")
        return USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"quorum: {where}{error.strerror or error}\n")
        return FAILED
    except KeyboardInterrupt:
        return 130
    assert isinstance(code, int)
    return code


def up(arguments: argparse.Namespace) -> int:
    """Start what does not run, wait until all of it serves."""
    folder = Path(arguments.dir).absolute()
    existing = load_cluster(folder)
    wanted = cluster = _planned(folder, arguments, existing)
    if existing and any(processes.running_pid(existing, node.id) for node in existing.nodes):
        cluster = existing  # The settings of nodes that run cannot be changed under them.
    stopped = [n for n in cluster.nodes if processes.running_pid(cluster, n.id) is None]
    if not stopped:
        sys.stderr.write(f"quorum: {folder} is running already; nothing changed\n")
        _print_status(cluster, as_json=arguments.json)
        return HEALTHY
    if cluster != wanted:
        sys.stderr.write("quorum: some nodes run: --set and --base-port need quorum down first\n")
    python = ensure_environment()
    processes.check_ports(stopped)
    check_cluster_ids(cluster)
    for node in stopped:
        processes.check_folder_free(cluster, node)
    save_cluster(cluster)
    processes.check_disk(folder)
    try:
        _start(cluster, stopped, python)
    except (RefusalError, OSError, KeyboardInterrupt):
        # Settings that no node started with are not for the next `up`.
        save_cluster(existing or replace(cluster, settings={}))
        raise
    if cluster.voters is not None:
        save_cluster(replace(cluster, voters=replace(cluster.voters, has_begun=True)))
    _print_status(cluster, as_json=arguments.json)
    return HEALTHY


def add_node(arguments: argparse.Namespace) -> int:
    """Start a further node and, if it is a controller, make it a voter."""
    cluster = _existing(arguments)
    added = membership.planned_node(cluster, arguments.role)
    membership.serving_quorum(cluster)
    python = ensure_environment()
    wider = replace(cluster, added=(*cluster.added, added))
    node = wider.node(added.id)
    processes.check_ports([node])
    processes.check_disk(cluster.folder)
    save_cluster(wider)
    try:
        _start(wider, [node], python)
    except (RefusalError, OSError, KeyboardInterrupt):
        membership.forget_added(cluster, node)
        raise
    if "controller" in node.roles:
        membership.add_voter(wider, node, python)
    sys.stdout.write(f"node {node.id} has joined {cluster.folder}\n")
    return HEALTHY


def remove_node(arguments: argparse.Namespace) -> int:
    """Take a node out of the voters and brokers, and stop it; its folder stays."""
    cluster = _existing(arguments)
    node = cluster.node_of(arguments.node)
    quorum = membership.serving_quorum(cluster)
    python = ensure_environment()
    membership.check_removable(cluster, node, quorum, python)
    membership.remove_voter(cluster, node, quorum, python)
    pid = processes.running_pid(cluster, node.id)
    if pid is not None:
        _stop([pid])
    membership.unregister(cluster, node, python)
    save_cluster(membership.without(cluster, node))
    folder = cluster.node_folder(node.id)
    sys.stdout.write(f"node {node.id} has left; its data stays in {folder} until quorum clean\n")
    return HEALTHY


def down(arguments: argparse.Namespace) -> int:
    """Stop every node: SIGTERM, and SIGKILL for those that do not go."""
    cluster = _existing(arguments)
    pids = [pid for n in cluster.nodes if (pid := processes.running_pid(cluster, n.id))]
    if not pids:
        sys.stdout.write(f"{cluster.folder} is stopped already\n")
        return HEALTHY
    _stop(pids)
    sys.stdout.write(f"stopped {len(pids)} nodes; their data stays in {cluster.folder}\n")
    return HEALTHY


def status(arguments: argparse.Namespace) -> int:
    """Print the state of the quorum; the exit code says whether it is healthy."""
    return _print_status(_existing(arguments), as_json=arguments.json)


def kill(arguments: argparse.Namespace) -> int:
    """SIGKILL (or SIGTERM) one node."""
    cluster, node, pid = _running_node(arguments)
    if arguments.term:
        _stop([pid])
    else:
        processes.send(pid, signal.SIGKILL)
        if processes.wait_gone([pid], KILL_SECONDS):
            raise RefusalError(f"node {node.id} (pid {pid}) does not go away")
    sys.stdout.write(f"node {node.id} of {cluster.folder} (pid {pid}) is gone\n")
    return HEALTHY


def pause(arguments: argparse.Namespace) -> int:
    """SIGSTOP one node."""
    _, node, pid = _running_node(arguments)
    processes.send(pid, signal.SIGSTOP)
    sys.stdout.write(f"node {node.id} (pid {pid}) is paused\n")
    return HEALTHY


def resume(arguments: argparse.Namespace) -> int:
    """SIGCONT one node."""
    _, node, pid = _running_node(arguments)
    processes.send(pid, signal.SIGCONT)
    sys.stdout.write(f"node {node.id} (pid {pid}) goes on\n")
    return HEALTHY


def restart(arguments: argparse.Namespace) -> int:
    """Stop one node if it runs, start it, wait until it serves."""
    cluster = _existing(arguments)
    node = cluster.node_of(arguments.node)
    pid = processes.running_pid(cluster, node.id)
    if pid is not None:
        _stop([pid])
    python = ensure_environment()
    processes.check_ports([node])
    check_cluster_ids(cluster)
    processes.check_folder_free(cluster, node)
    processes.check_disk(cluster.folder)
    _start(cluster, [node], python)
    sys.stdout.write(f"node {node.id} runs (pid {processes.running_pid(cluster, node.id)})\n")
    return HEALTHY


def logs(arguments: argparse.Namespace) -> int:
    """Print the output of a node, with -f what comes later too."""
    cluster = _existing(arguments)
    node = cluster.node_of(arguments.node)
    path = cluster.node_folder(node.id) / processes.LOG_FILE
    try:
        log = path.open(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RefusalError(f"cannot read {path}: {error.strerror}") from error
    with log:
        shutil.copyfileobj(log, sys.stdout)
        while arguments.follow:
            sys.stdout.flush()
            time.sleep(FOLLOW_SECONDS)
            shutil.copyfileobj(log, sys.stdout)
    return HEALTHY


def clean(arguments: argparse.Namespace) -> int:
    """Remove the folder of a stopped quorum."""
    cluster = _existing(arguments)
    running = [n.id for n in cluster.nodes if processes.running_pid(cluster, n.id)]
    if running:
        raise RefusalError(
            f"node {running[0]} of {cluster.folder} runs; stop it first: quorum down"
        )
    if not arguments.yes:
        sys.stdout.write(f"remove {cluster.folder} with all its data? [y/N] ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer:
            sys.stdout.write("\n")
            raise RefusalError("nothing removed: nobody answers here; confirm with --yes")
        if answer.strip().lower() not in CONFIRMED:
            raise RefusalError("nothing removed")
    # Only what `up` made: whatever else lies in the folder is not ours to remove.
    for node_id in cluster.ids_ever:
        shutil.rmtree(cluster.node_folder(node_id), ignore_errors=True)
    for path in cluster.folder.glob("cluster.json*"):
        path.unlink()
    if not any(cluster.folder.iterdir()):
        cluster.folder.rmdir()
    sys.stdout.write(f"removed {cluster.folder}\n")
    return HEALTHY


def _planned(folder: Path, arguments: argparse.Namespace, existing: Cluster | None) -> Cluster:
    """The quorum that `up` shall have: the folder's own, or a new one."""
    settings = dict(arguments.set)
    if existing is None:
        node_count = DEFAULT_NODES if arguments.nodes is None else arguments.nodes
        cluster = Cluster(
            folder=folder,
            cluster_id=new_id(),
            node_count=node_count,
            broker_count=arguments.brokers,
            base_port=DEFAULT_BASE_PORT if arguments.base_port is None else arguments.base_port,
            settings=settings,
        )
        if not arguments.static and STATIC_VOTERS not in settings:
            ids = {node.id: new_id() for node in cluster.controllers}
            cluster = replace(cluster, voters=Voters(ids))
    else:
        for flag, wanted, found in (
            ("--nodes", arguments.nodes, existing.node_count),
            ("--brokers", arguments.brokers, existing.broker_count),
        ):
            if wanted is not None and wanted != found:
                is_combined = found is None
                held = (
                    f"of combined nodes, not {flag}" if is_combined else f"with {flag} {found}, not"
                )
                raise RefusalError(
                    f"{folder} holds a quorum {held} {wanted}; "
                    "take another --dir, or remove it: quorum clean"
                )
        is_moved = arguments.base_port not in (None, existing.base_port)
        if is_moved and existing.voters is not None and existing.voters.has_begun:
            raise RefusalError(
                f"--base-port {arguments.base_port}: the voters of {folder} know each other at "
                f"--base-port {existing.base_port} by their log"
            )
        cluster = replace(
            existing,
            base_port=existing.base_port if arguments.base_port is None else arguments.base_port,
            settings={**existing.settings, **settings},
        )
    plan_nodes(cluster.node_count, cluster.broker_count, cluster.base_port)
    return cluster


def _start(cluster: Cluster, nodes: list[NodePlan], python: Path) -> None:
    """Start nodes and wait until they serve; what was started is stopped again when one fails."""
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for node in nodes:
            started[node.id] = processes.start_node(cluster, node, python, ROOT)
        wait_ready(cluster, nodes, started)
    except (RefusalError, OSError, KeyboardInterrupt):
        for process in started.values():
            process.kill()
            process.wait()
        raise
    for process in started.values():
        process.returncode = 0  # It goes on without us: no warning that it still runs.


def _stop(pids: list[int]) -> None:
    """SIGTERM, then SIGKILL for what is left after a while; a paused process is woken for it."""
    for pid in pids:
        processes.send(pid, signal.SIGTERM)
        processes.send(pid, signal.SIGCONT)
    stubborn = processes.wait_gone(pids, STOP_SECONDS)
    for pid in stubborn:
        sys.stderr.write(f"quorum: pid {pid} ignores SIGTERM for {STOP_SECONDS:.0f} s: SIGKILL\n")
        processes.send(pid, signal.SIGKILL)
    left = processes.wait_gone(stubborn, KILL_SECONDS)
    if left:
        raise RefusalError(f"pid {left[0]} does not go away")


def _existing(arguments: argparse.Namespace) -> Cluster:
    folder = Path(arguments.dir).absolute()
    cluster = load_cluster(folder)
    if cluster is None:
        raise RefusalError(f"there is no quorum in {folder}; start one: quorum up")
    return cluster


def _running_node(arguments: argparse.Namespace) -> tuple[Cluster, NodePlan, int]:
    cluster = _existing(arguments)
    node = cluster.node_of(arguments.node)
    pid = processes.running_pid(cluster, node.id)
    if pid is None:
        raise RefusalError(f"node {node.id} does not run")
    return cluster, node, pid


def _print_status(cluster: Cluster, *, as_json: bool) -> int:
    found: dict[str, Any] = cluster_status(cluster)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.write(headline(found) + table(found))
    return exit_code(found)


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise argparse.ArgumentTypeError(f"expected key=value: {text}")
    return key.strip(), value.strip()


def _number(least: int, most: int) -> Callable[[str], int]:
    """Type of a number on the command line; `plan_nodes` refuses those out of bounds."""

    def number(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            shown = repr(text[:SHOWN_CHARACTERS])
            raise argparse.ArgumentTypeError(
                f"{shown} is not a number between {least} and {most}"
            ) from None

    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quorum", description="A metadata quorum on this machine.", allow_abbrev=False
    )
    parser.set_defaults(run=_usage(parser))
    commands = parser.add_subparsers(metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.add_argument("--dir", default=".quorum", help="folder of the quorum (.quorum)")
        sub.set_defaults(run=run)
        return sub

    sub = command("up", up, "start the quorum and wait until it serves")
    sub.add_argument(
        "--nodes", type=_number(1, NODES_MAX),
        help="combined nodes; with --brokers: controllers (3)",
    )  # fmt: skip
    sub.add_argument(
        "--brokers", type=_number(0, NODES_MAX),
        help="dedicated brokers beside dedicated controllers; 0: only controllers",
    )  # fmt: skip
    sub.add_argument(
        "--base-port", type=_number(1, BASE_PORT_MAX),
        help="first Kafka port (9092); controllers: + 1000",
    )  # fmt: skip
    sub.add_argument(
        "--set", action="append", default=[], type=_setting, metavar="KEY=VALUE",
        help="a key for every server.properties",
    )  # fmt: skip
    sub.add_argument(
        "--static", action="store_true",
        help="of a new quorum: voters by configuration, not by the log",
    )  # fmt: skip
    sub.add_argument("--json", action="store_true", help="print one object")
    sub = command("add-node", add_node, "start a further node; a controller becomes a voter")
    sub.add_argument(
        "--role", choices=("combined", "controller", "broker"),
        help="default: as the other nodes, a broker beside dedicated controllers",
    )  # fmt: skip
    sub = command("remove-node", remove_node, "take a node out of the cluster and stop it")
    sub.add_argument("node", metavar="NODE")
    command("down", down, "stop all nodes, keep their data")
    sub = command("status", status, "show nodes, leader and lag; exit 3 when degraded")
    sub.add_argument("--json", action="store_true", help="print one object")
    sub = command("kill", kill, "SIGKILL a node")
    sub.add_argument("node", metavar="NODE")
    sub.add_argument("--term", action="store_true", help="SIGTERM instead: controlled shutdown")
    for name, run, text in (
        ("pause", pause, "SIGSTOP a node"),
        ("resume", resume, "SIGCONT a node"),
        ("restart", restart, "stop a node, start it again and wait until it serves"),
    ):
        command(name, run, text).add_argument("node", metavar="NODE")
    sub = command("logs", logs, "print the output of a node")
    sub.add_argument("node", metavar="NODE")
    sub.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    sub = command("clean", clean, "remove a stopped quorum with its data")
    sub.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _usage(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        parser.print_usage(sys.stderr)
        return USAGE

    return run
