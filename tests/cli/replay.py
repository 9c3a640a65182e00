"""Runs a recorded command line of Kafka's tools with our command, against recorded answers."""

import contextlib
import importlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

from metadata.schema import Record
from tests.cli.comparison import Run
from tests.cli.golden import Recorded, Verdict, outputs, verdicts
from tests.cli.quorum_answers import recorded_answer, recorded_request, without_timeout
from tests.cli.recorded_cluster import Reached, RecordedCluster

MODULES = {
    "AclCommand": "cli.admin.acls",
    "ClusterTool": "cli.admin.cluster",
    "ConfigCommand": "cli.admin.configs",
    "FeatureCommand": "cli.admin.features",
    "LeaderElectionCommand": "cli.admin.leader_election",
    "MetadataQuorumCommand": "cli.admin.quorum",
    "ReassignPartitionsCommand": "cli.admin.reassign",
    "StorageTool": "cli.storage",
    "TopicCommand": "cli.admin.topics",
}
"""Tool -> our command; the other tools have none."""

FILES: dict[str, Any] = {
    "static-4.3.1/re1.json": {("orders", 0): [103, 101], ("orders", 1): [101, 102, 103]},
    "static-4.3.1/re2.json": {("orders", 2): [101, 104]},
    "static-4.3.1/re3.json": {("on104", 0): [101, 102]},
    "static-4.3.1/bad.json": {("orders", 0): [999]},
    "static-4.3.1/mv.json": ["inventory.v2"],
    "static-3.9.1/re1.json": {("orders39", 0): [103, 101], ("orders39", 1): [101, 102, 103]},
}
"""The JSON files of the recorded command lines, made again from what the tools printed of them."""

PROPERTIES = """process.roles={role}
node.id={node_id}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log{more}
listeners={listeners}
{voters}
"""


ADDED = "6LUKHoRgwW7BwRcm2z9ZVA"
"""The directory id of the controller that is added."""
ADDED_AT = {("127.0.0.1", 29904): Reached(4)}
"""Address at which it listened."""
AT_LEVEL_1 = {
    f"{scenario}/{name}"
    for scenario in ("kraft-upgrade-4.3.1", "single-4.3.1")
    for name in ("features-kraft1", "features-downgrade-kraft0")
}
"""Outputs about features of a static quorum that was raised to kraft.version 1."""
BEFORE = {
    "dynamic-4.3.1/quorum-add-controller-dry-run": "dynamic-4.3.1/quorum-replication-observer4",
    "dynamic-4.3.1/quorum-remove-dry-run": "dynamic-4.3.1/quorum-replication-voter4",
}
"""A dry run of Kafka's asks nobody; ours is given the quorum of the output before it."""


def write_files(run: Recorded, folder: Path) -> None:
    """The files that a command line names."""
    for name, content in FILES.items():
        scenario, _, file = name.partition("/")
        if scenario != run.scenario:
            continue
        if isinstance(content, list):
            value: Any = {"topics": [{"topic": topic} for topic in content], "version": 1}
        else:
            rows = [
                {"topic": topic, "partition": partition, "replicas": replicas}
                for (topic, partition), replicas in content.items()
            ]
            value = {"version": 1, "partitions": rows}
        (folder / file).write_text(json.dumps(value))
    for argument in run.args:
        if argument.endswith("/server.properties"):
            _write_properties(run, folder, argument.partition("/")[0])


def _write_properties(run: Recorded, folder: Path, node: str) -> None:
    node_id = int(node[1:]) if node[1:].isdigit() else 1
    is_broker = node_id > 100
    is_dynamic = run.scenario.startswith("dynamic") or node == "standalone"
    port = 29900 + node_id if is_dynamic else 29000 + node_id
    text = PROPERTIES.format(
        role="broker" if is_broker else "controller",
        node_id=node_id,
        folder=node,
        more=f",{node}/log1" if node_id == 103 else "",
        listeners=f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://127.0.0.1:{port}",
        voters="controller.quorum.bootstrap.servers=127.0.0.1:29101"
        if is_dynamic
        else "controller.quorum.voters=1@127.0.0.1:29001,2@127.0.0.1:29002,3@127.0.0.1:29003",
    )
    (folder / node).mkdir(exist_ok=True)
    known = re.search(r"cluster.id=(\S+), directory.id=(\S+),", run.stdout)
    if known or "add-controller" in run.args:
        cluster, directory = known.groups() if known else ("x", ADDED)
        (folder / node / "log").mkdir()
        (folder / node / "log" / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster}\ndirectory.id={directory}\nnode.id={node_id}\n"
        )
    (folder / node / "server.properties").write_text(text)


def replay(run: Recorded, folder: Path, offset: int, held: Verdict) -> tuple[Run, list[Record]]:
    """Run our command in a folder, the cluster being at an offset of its log: its output, and the
    records that the controller wrote for the requests of the command. Where the
    exchange with the quorum was recorded, our request is the recorded one.
    """
    write_files(run, folder)
    module = importlib.import_module(MODULES[run.command])
    before = Path.cwd()
    os.chdir(folder)
    try:
        for arguments in held.prepared:
            assert captured(module.run, arguments)[0] == 0
        if run.command == "StorageTool":
            return captured(module.run, [*run.args, *_release(run)]), []
        name = BEFORE.get(run.name, run.name)
        answer = recorded_answer(outputs()[name], verdicts()[name])
        is_change = "describe" not in run.args and "--dry-run" not in run.args
        cluster = RecordedCluster(
            run.scenario,
            offset,
            is_controllers="--bootstrap-controller" in run.args,
            kraft_version=int(run.scenario.startswith("dynamic") or run.name in AT_LEVEL_1),
            quorum=None if is_change else answer,
            voter_change=answer,
        )
        cluster.reached = dict(ADDED_AT)
        printed = captured(module.run, run.args, cluster.opened)
        if held.frame is not None:
            assert list(map(without_timeout, cluster.asked)) == [recorded_request(run, held)]
        return printed, cluster.written
    finally:
        os.chdir(before)


def _release(run: Recorded) -> list[str]:
    """Flags that name the release which Kafka formats by default: ours is less than it."""
    if run.args[0] != "format" or {"-r", "--release-version"} & set(run.args):
        return []
    return ["--release-version", "3.9-IV0" if run.scenario.endswith("3.9.1") else "4.3-IV0"]


def captured(call: Any, *arguments: Any) -> Run:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exit_code = call(*arguments)
        except SystemExit as left:
            exit_code = left.code
    return exit_code, out.getvalue(), err.getvalue()
