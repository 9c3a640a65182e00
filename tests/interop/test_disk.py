"""Disks of real processes: a node that missed the truncated log, and disks that are full."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.mixed_cluster import ROOT, mixed_cluster
from tests.interop.quorum import Quorum, running, wait_until
from tests.interop.record_clients import ConfluentRecords, Record
from tests.peers import is_missing

SMALL = (
    "metadata.log.max.record.bytes.between.snapshots=20000",
    "metadata.max.retention.bytes=30000",
    "metadata.log.segment.bytes=10000",
)
TOPICS = 200


def create(quorum: Quorum, prefix: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap, "log_level": 2})
    futures = admin.create_topics(
        [NewTopic(f"{prefix}-{n}", num_partitions=3, replication_factor=1) for n in range(count)],
        operation_timeout=20,
        request_timeout=25,
    )
    for future in futures.values():
        future.result()


def lines(quorum: Quorum, node_id: int) -> str:
    return quorum.run("logs", str(node_id)).stdout


def snapshots(quorum: Quorum, node_id: int) -> list[Path]:
    return sorted(quorum.metadata_log(node_id).glob("*.checkpoint"))


def first_segment(quorum: Quorum, node_id: int) -> int:
    return min(int(path.stem) for path in quorum.metadata_log(node_id).glob("*.log"))


def test_a_node_that_was_away_gets_the_snapshot(tmp_path: Path) -> None:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    with running(tmp_path / "q", *settings) as quorum:
        status = quorum.wait_healthy()
        away = next(n["id"] for n in status["nodes"] if n["id"] != status["leader_id"])
        quorum.run("kill", str(away))
        for part in range(4):
            create(quorum, f"part{part}", TOPICS // 4)
        others = [n["id"] for n in status["nodes"] if n["id"] != away]
        wait_until(lambda: all(first_segment(quorum, i) > 50 for i in others), 20, quorum.logs)
        assert first_segment(quorum, away) == 0
        quorum.run("restart", str(away))
        quorum.wait_healthy()
        assert first_segment(quorum, away) > 50
        assert "snapshot_loaded" in lines(quorum, away)
        assert snapshots(quorum, away)
        create(quorum, "after", 3)
        quorum.wait_healthy()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB: made by root, or by sudo that asks for no password."""
    folder = tmp_path / "disk"
    folder.mkdir()
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    size = f"size=2m,uid={os.geteuid()}"
    mount = [*as_root, "mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
    if shutil.which(mount[0]) is None or subprocess.run(mount, check=False).returncode != 0:
        is_missing("root, or sudo without a password, to mount a small file system")
    yield folder
    subprocess.run([*as_root, "umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_stops_the_appends_and_nothing_else(small_disk: Path, tmp_path: Path) -> None:
    with running(tmp_path / "q") as quorum:
        status = quorum.wait_healthy()
        full = status["leader_id"]
        folder = quorum.metadata_log(full).parent
        quorum.run("kill", str(full))
        shutil.copytree(folder, small_disk / "data")
        shutil.rmtree(folder)
        folder.symlink_to(small_disk / "data")
        quorum.run("restart", str(full))
        quorum.wait_healthy()
        filler = small_disk / "filler"
        fill(filler)
        create(quorum, "while", 20)
        wait_until(lambda: "disk_full" in lines(quorum, full), 20, quorum.logs)
        assert quorum.node(full)["alive"]
        create(quorum, "later", 20)
        assert lines(quorum, full).count("disk_full") == 1
        filler.unlink()
        quorum.wait_healthy()
        assert "disk_has_space_again" in lines(quorum, full)


def test_a_quorum_on_a_full_disk_is_refused_in_one_line(small_disk: Path) -> None:
    fill(small_disk / "filler")
    quorum = Quorum(small_disk / "q")
    refused = quorum.run("up", "--base-port", str(quorum.base_port), expect=1)
    assert refused.stderr.startswith("quorum: disk full: ")
    assert refused.stderr.count("\n") == 1


def test_a_full_log_directory_loses_no_acknowledged_record(
    small_disk: Path, tmp_path: Path
) -> None:
    """It goes offline with its partitions, as Kafka's; the node serves those of the other one."""
    with mixed_cluster(tmp_path, dict.fromkeys((1, 2, 3), "ours"), log_dirs=2) as cluster:
        cluster.create("records", {0: [1, 2, 3], 1: [1, 2, 3]}, min_insync_replicas="2")
        cluster.wait_in_sync("records", 3)
        full = cluster.log_dirs(1)[1]
        has_replica = lambda: any(full.glob("records-*"))  # noqa: E731
        wait_until(has_replica, 20, lambda: "metadata tells of it earlier, not 20 s")
        (replica,) = full.glob("records-*")
        partition = int(replica.name.removeprefix("records-"))
        cluster.stop(1, signal.SIGTERM)
        shutil.copytree(full, small_disk / "data")
        shutil.rmtree(full)
        full.symlink_to(small_disk / "data")
        cluster.start(1, "ours")
        cluster.wait_in_sync("records", 3)
        elect_preferred(cluster.admin, "records")
        wait_until(lambda: set(cluster.leaders("records").values()) == {1}, 20, cluster.outputs)
        client = ConfluentRecords(cluster.bootstrap)
        written = [Record(os.urandom(1_000)) for _ in range(4_000)]
        offsets = client.produce("records", written, partition=partition, idempotent=True)
        found = client.consume("records", len(written), partition=partition)
        values = {record.offset: record.value for record in found}
        assert [values[offset] for offset in offsets] == [record.value for record in written]
        assert cluster.leaders("records")[partition] != 1
        assert cluster.leaders("records")[1 - partition] == 1
        assert client.produce("records", written[:5], partition=1 - partition) == [*range(5)]
        described = described_directories(cluster.bootstrap)
        assert [row["error"] for row in described if row["logDir"] == str(full)] == [
            "org.apache.kafka.common.errors.KafkaStorageException"
        ]


def elect_preferred(admin: AdminClient, topic: str) -> None:
    """Give every partition of two to its first replica."""
    partitions = [TopicPartition(topic, number) for number in (0, 1)]
    admin.elect_leaders(ElectionType.PREFERRED, partitions).result(20)


def described_directories(bootstrap: str) -> list[dict[str, Any]]:
    """Log directories of all brokers, as `kraftline log-dirs` describes them."""
    words = "log-dirs", "--bootstrap-server", bootstrap, "--describe", "--json"
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    brokers = json.loads(done.stdout)["brokers"]
    return [directory for broker in brokers for directory in broker["logDirs"]]
