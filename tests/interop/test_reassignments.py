"""Kafka's reassignment tool at nodes of ours: between directories under load, and throttled."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import kafka_peer
from tests.interop.mixed_cluster import ROOT, MixedCluster, mixed_cluster
from tests.interop.mixed_run import REPLICAS, TOPIC, Writer, compare_logs, read_back
from tests.interop.quorum import wait_until
from tests.interop.record_clients import ConfluentRecords, Record

pytestmark = pytest.mark.jvm
TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
NODES = (1, 2, 3)
DONE_SECONDS = 60.0
MOVE_RATE, FASTER = 50_000, 50_000_000
"""Six replicas of 300 kB on each node: half a minute, until one was killed."""
RATE = 500_000
THROTTLED = "slow"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    folder = tmp_path_factory.mktemp("two-directories")
    with mixed_cluster(folder, dict.fromkeys(NODES, "ours"), log_dirs=2) as found:
        yield found


def ours(cluster: MixedCluster, command: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", command,
         "--bootstrap-server", cluster.bootstrap, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{cluster.outputs()}"
    return done.stdout


def kafkas(cluster: MixedCluster, action: str, plan: Path, *words: str) -> list[str]:
    """Lines of Kafka's tool."""
    words = (action, "--reassignment-json-file", str(plan), *words)
    return kafka_peer.tool(TOOL, "--bootstrap-server", cluster.bootstrap, *words).splitlines()


def wait_done(cluster: MixedCluster, plan: Path) -> None:
    """Wait until nothing of a plan is on its way."""
    words = ("--verify", "--preserve-throttles", "--json", "--reassignment-json-file", str(plan))

    def is_done() -> bool:
        found = json.loads(ours(cluster, "reassign", *words))
        return all(row["done"] for row in (*found["partitions"], *found["moves"]))

    wait_until(is_done, DONE_SECONDS, cluster.outputs)


def throttles(cluster: MixedCluster) -> list[str]:
    """Lines of the configs of brokers and topics that are about throttles."""
    described = "".join(
        ours(cluster, "configs", "--describe", "--entity-type", kind)
        for kind in ("brokers", "topics")
    )
    return [line for line in described.splitlines() if "throttled" in line or "alter" in line]


def write_plan(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def folder_of(cluster: MixedCluster, node: int, partition: int) -> Path:
    """The log directory of a replica."""
    found = [path for path in cluster.log_dirs(node) if (path / f"{TOPIC}-{partition}").exists()]
    (folder,) = found
    return folder


def copies(cluster: MixedCluster, node: int) -> list[Path]:
    return [copy for path in cluster.log_dirs(node) for copy in path.glob("*-future")]


def test_replicas_change_directories_under_load(cluster: MixedCluster, tmp_path: Path) -> None:
    cluster.create(TOPIC, REPLICAS, min_insync_replicas="2")
    cluster.wait_in_sync(TOPIC, 3)
    for partition in REPLICAS:
        records = [Record(os.urandom(1_000)) for _ in range(300)]
        ConfluentRecords(cluster.bootstrap).produce(TOPIC, records, partition=partition)
    targets = {
        (node, partition): next(
            path for path in cluster.log_dirs(node) if path != folder_of(cluster, node, partition)
        )
        for node in NODES
        for partition in REPLICAS
    }
    plan = write_plan(tmp_path / "plan", [
        {"topic": TOPIC, "partition": partition, "replicas": nodes,
         "log_dirs": [str(targets[node, partition]) for node in nodes]}
        for partition, nodes in REPLICAS.items()
    ])  # fmt: skip
    writers = [Writer(cluster.bootstrap, codec) for codec in (None, "lz4")]
    rate = "--replica-alter-log-dirs-throttle"
    started = kafkas(cluster, "--execute", plan, rate, str(MOVE_RATE))
    assert sum("started moving log directory" in line for line in started) == len(targets)
    cluster.stop(2, signal.SIGKILL)
    assert copies(cluster, 2), "the moves were over before the kill"
    cluster.wait_fenced(TOPIC, 2)
    cluster.start(2, "ours")
    cluster.wait_in_sync(TOPIC, 3)
    again = "--execute", "--additional", "--reassignment-json-file", str(plan)
    ours(cluster, "reassign", *again, rate, str(FASTER))
    wait_done(cluster, plan)
    assert len([line for line in throttles(cluster) if f"second={FASTER} " in line]) == len(NODES)
    verified = kafkas(cluster, "--verify", plan)
    assert sum(line.endswith(" completed successfully.") for line in verified) == len(targets)
    assert verified[-2] == "Clearing broker-level throttles on brokers 1,2,3"
    assert throttles(cluster) == []
    for writer in writers:
        writer.stop()
        assert writer.count() > 0
    cluster.wait_in_sync(TOPIC, 3)
    for partition in REPLICAS:
        compare_logs(cluster, partition)
        read_back(cluster, writers, partition)
    found = {(n, partition): folder_of(cluster, n, partition) for n, partition in targets}
    assert found == targets
    assert [copies(cluster, node) for node in NODES] == [[], [], []]


def test_a_throttled_move_takes_its_time(cluster: MixedCluster, tmp_path: Path) -> None:
    cluster.create(THROTTLED, {0: [1]})
    records = [Record(os.urandom(1_000)) for _ in range(3_000)]
    ConfluentRecords(cluster.bootstrap).produce(THROTTLED, records)
    row = {"topic": THROTTLED, "partition": 0, "replicas": [2]}
    plan = write_plan(tmp_path / "plan", [row])
    begin = time.monotonic()
    kafkas(cluster, "--execute", plan, "--throttle", str(RATE))
    assert len([line for line in throttles(cluster) if f"throttled.rate={RATE}" in line]) == 4
    assert "0:1" in "".join(throttles(cluster))
    wait_done(cluster, plan)
    elapsed = time.monotonic() - begin
    assert elapsed > 0.5 * sum(len(record.value or b"") for record in records) / RATE
    assert kafkas(cluster, "--verify", plan)[-1] == (
        f"Clearing topic-level throttles on topic {THROTTLED}"
    )
    assert throttles(cluster) == []
    assert len(cluster.log_bytes(2, THROTTLED, 0)) > 3_000_000
