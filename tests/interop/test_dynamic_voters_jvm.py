"""Dynamic voters (KIP-853): folders that our tool formats, voters that it changes, of Kafka's
processes and of ours; Kafka's tools say the same of both.
"""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import kafka_peer
from benchmarks.clusters.protocol import ProtocolError, leader_of
from tests.interop.quorum import CONTROLLER_PORT_DISTANCE, free_base_port, wait_until
from tests.kernel.test_formatting import without_times

ROOT = Path(__file__).parents[2]
CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMg"
IDS = {1: "QUFBQUFBQUFBQUFBQUFBAQ", 2: "QkJCQkJCQkJCQkJCQkJCAQ"}
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
BROKER = 101


class DynamicQuorum:
    """Processes on folders that our tool formatted: controllers 1 and 2, a third, a broker."""

    def __init__(self, folder: Path, software: str) -> None:
        self.folder = folder
        self.software = software
        base = free_base_port(4)
        self.ports = {i: base + CONTROLLER_PORT_DISTANCE + i for i in (1, 2, 3)} | {BROKER: base}
        self.controllers = f"127.0.0.1:{self.ports[1]},127.0.0.1:{self.ports[2]}"
        self.running: list[subprocess.Popen[bytes]] = []

    def properties(self, node_id: int, kind: str = "") -> Path:
        """Write server.properties; `kind` tells the folders of different tools apart."""
        where = f"127.0.0.1:{self.ports[node_id]}"
        is_broker = node_id == BROKER
        lines = {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": self.controllers,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://{where}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.folder / f"data{node_id}{kind}"),
        }
        path = self.folder / f"node{node_id}{kind}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def format(self, node_id: int, *words: str) -> None:
        done = ours("storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties(node_id)),
                    *(("-r", "4.3") if self.software == "kafka" else ()), *words)  # fmt: skip
        assert done.returncode == 0, done.stderr

    def start(self, node_id: int) -> None:
        log = self.folder / f"node{node_id}.out"
        properties = self.folder / f"node{node_id}.properties"
        if self.software == "kafka":
            self.running.append(kafka_peer.start_node(properties, log, heap="256m"))
            return
        command = [sys.executable, "-m", "cli.main", "server", "start", str(properties)]
        with log.open("ab") as out:
            self.running.append(subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out))

    def leader(self) -> int | None:
        for address in self.controllers.split(","):
            with contextlib.suppress(OSError, ProtocolError):
                return leader_of(address, timeout_s=1.0)[0]
        return None

    @property
    def initial(self) -> str:
        return ",".join(f"{i}@127.0.0.1:{self.ports[i]}:{IDS[i]}" for i in (1, 2))

    def outputs(self) -> str:
        files = sorted(self.folder.glob("*.out"))
        return "".join(f"\n--- {f.name}\n{f.read_text(errors='replace')[-3000:]}" for f in files)


@pytest.fixture(params=["kafka", "ours"])
def dynamic(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DynamicQuorum]:
    quorum = DynamicQuorum(tmp_path, request.param)
    try:
        yield quorum
    finally:
        for process in quorum.running:
            process.kill()
            process.wait(30)


def ours(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli.main", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )


def said(*words: str, code: int = 0) -> str:
    """Output of `kraftline quorum`, of both streams."""
    done = ours("quorum", *words)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def status(text: str) -> dict[str, object]:
    """The lines of `describe --status` but for what moves between two questions."""
    lines = [re.split(r": +", line, maxsplit=1) for line in text.splitlines() if line]
    found: dict[str, object] = {line[0]: line[1] for line in lines}
    for name in ("HighWatermark", "MaxFollowerLag", "MaxFollowerLagTimeMs"):
        assert str(found.pop(name)).lstrip("-").isdigit()
    for name in ("CurrentVoters", "CurrentObservers"):
        found[name] = sorted(json.loads(str(found[name])), key=lambda node: node["id"])
    return found


def replicas(text: str) -> list[tuple[str, ...]]:
    """Heading, and id, directory id and status of each row of `describe --replication`."""
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if line]
    assert {len(row) for row in rows} == {8}, "each row ends with a tab"
    return sorted((row[0], row[1], row[6]) for row in rows)


def voters(quorum: DynamicQuorum) -> list[int]:
    words = ("--bootstrap-controller", quorum.controllers, "describe", "--status")
    found = status(kafka_peer.tool(TOOL, *words))["CurrentVoters"]
    assert isinstance(found, list)
    return [node["id"] for node in found]


@pytest.mark.jvm
@pytest.mark.parametrize("dynamic", ["kafka"], indirect=True)
def test_folders_are_those_of_kafkas_tool_but_for_times(dynamic: DynamicQuorum) -> None:
    dynamic.format(1, "--initial-controllers", dynamic.initial)
    theirs = dynamic.properties(1, "theirs")
    kafka_peer.format_node(theirs, CLUSTER_ID, "-r", "4.3", "-I", dynamic.initial)
    left, right = dynamic.folder / "data1", dynamic.folder / "data1theirs"
    files = [sorted(str(f.relative_to(d)) for f in d.rglob("*")) for d in (left, right)]
    assert files[0] == [".unproven", *files[1]], "the mark is ours (docs/decisions/0030)"
    assert without_times((left / CHECKPOINT).read_bytes()) == without_times(
        (right / CHECKPOINT).read_bytes()
    )
    assert (left / CHECKPOINT).stat().st_mode == (right / CHECKPOINT).stat().st_mode
    properties = [
        {line for line in (d / "meta.properties").read_text().splitlines() if line[0] != "#"}
        for d in (left, right)
    ]
    assert properties[0] == properties[1]


@pytest.mark.jvm
def test_voters_are_added_and_removed(dynamic: DynamicQuorum) -> None:
    for node_id in (1, 2):
        dynamic.format(node_id, "--initial-controllers", dynamic.initial)
        dynamic.start(node_id)
    for node_id in (3, BROKER):
        dynamic.format(node_id, "--no-initial-controllers")
    dynamic.start(BROKER)
    wait_until(lambda: dynamic.leader() in (1, 2), 180, dynamic.outputs)
    at = ("--bootstrap-controller", dynamic.controllers)
    add = (*at, "--command-config", str(dynamic.folder / "node3.properties"), "add-controller")
    blocked = said(*add, "--dry-run", code=1)
    assert "does not fetch from the leader: it is started as an observer first\n" in blocked
    assert f"127.0.0.1:{dynamic.ports[3]}: Connection refused\n" in blocked
    refused = said(*add, code=1)
    assert refused.startswith("Controller 3 is not added: CONTROLLER://127.0.0.1:")
    dynamic.start(3)
    wait_until(lambda: ours("quorum", *add, "--dry-run").returncode == 0, 180, dynamic.outputs)
    line = kafka_peer.tool(TOOL, *add, "--dry-run")
    assert said(*add, "--dry-run") == line
    assert said(*add) == line.replace("DRY RUN of adding", "Added")
    assert voters(dynamic) == [1, 2, 3]
    assert "is already part of the set of voters [ReplicaKey(id=" in said(*add, code=1)
    for kind in ("status", "replication"):
        words = ("describe", f"--{kind}")
        through = ("--bootstrap-server", f"127.0.0.1:{dynamic.ports[BROKER]}")
        found = [said(*at, *words), said(*through, *words), kafka_peer.tool(TOOL, *at, *words)]
        same = status if kind == "status" else replicas
        assert same(found[0]) == same(found[2])
        assert same(found[1]) == same(found[2])
    leader = dynamic.leader()
    assert leader is not None
    other = 3 - leader
    through = ("--bootstrap-server", f"127.0.0.1:{dynamic.ports[BROKER]}")
    remove = (*through, "remove-controller", "-i", str(other), "-d", IDS[other])
    line = kafka_peer.tool(TOOL, *remove, "--dry-run")
    assert said(*remove, "--dry-run") == line
    assert said(*remove) == line.replace("DRY RUN of removing", "Removed")
    missing = said(*remove, code=1)
    assert missing.startswith(
        f"Cannot remove voter ReplicaKey(id={other}, directoryId={IDS[other]})"
    )
    assert said(*remove, "--dry-run", code=1).endswith(f"blocked: {sorted_keys(missing)}")
    last = (*at, "remove-controller", "-i", str(leader), "-d", IDS[leader])
    assert said(*last).startswith(f"Removed  KRaft controller {leader} ")
    # the leader answers, and then resigns: it is no voter any more
    third = ("--bootstrap-controller", f"127.0.0.1:{dynamic.ports[3]}")
    wait_until(
        lambda: '"leader_id":3' in ours("quorum", *third, "describe", "--status", "--json").stdout,
        60,
        dynamic.outputs,
    )


def sorted_keys(text: str) -> str:
    """A line of Kafka with its list of replica keys in our order: by id."""
    head, _, keys = text.partition("[")
    found = sorted(
        re.findall(r"ReplicaKey\(.*?\)", keys), key=lambda key: int(key[14:].split(",")[0])
    )
    return f"{head}[{', '.join(found)}]\n"
