"""Disks of real processes: a node that missed the truncated log, and one whose disk is full."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.quorum import Quorum, running, wait_until
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
