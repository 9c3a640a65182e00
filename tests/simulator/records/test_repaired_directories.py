"""An administrator repairs a log directory: replicas that were placed anew go from it."""

from dataclasses import dataclass, field

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from simulator.records.failing_directories import (
    FailingDirectory,
    delete_duplicates,
    repair_directories,
)
from simulator.records.world import TOPIC
from storage.log_dir.partition_directories import future_directory_name
from storage.log_dir.partition_metadata import write_partition_metadata
from tests.simulator.records.worlds import leader_of, quiet_records, segments_of

A, B = b"a" * 16, b"b" * 16
COPY = future_directory_name("t", 4, bytes(16))


@dataclass
class Config:
    log_dirs: tuple[str, ...] = ("/1", "/2")


@dataclass
class Node:
    """A machine, as an administrator sees it."""

    vfs: MemoryVfs
    config: Config = field(default_factory=Config)
    kills: int = 0

    def kill(self) -> None:
        self.kills += 1


def node(*, has_failed: bool) -> Node:
    """Replicas in two directories, the first of which fails: t-0 in both, t-1 of two topics."""
    vfs = MemoryVfs()
    for path, topic_id in (
        ("/1/t-0", A), ("/2/t-0", A), ("/1/t-1", A), ("/2/t-1", B), ("/1/t-2", A),
        ("/2/t-3", A), (f"/1/{COPY}", A), ("/2/t-4", A),
    ):  # fmt: skip
        vfs.make_directory(path)
        write_partition_metadata(vfs, path, topic_id)
    for path in ("/", "/1", "/2"):
        vfs.sync_directory(path)
    vfs.failing = FailingDirectory("/1", "t", 5)
    if has_failed:
        assert vfs.failing("write", "/1/t-0/log") == 5
    return Node(vfs)


def test_a_replica_that_is_in_another_directory_too_goes():
    machine = node(has_failed=True)
    repair_directories(machine)
    assert machine.vfs.failing is None
    assert machine.kills == 1
    disk = machine.vfs.crash()
    assert sorted(disk.list("/1")) == ["t-1", "t-2", COPY]
    assert sorted(disk.list("/2")) == ["t-0", "t-1", "t-3", "t-4"]


def test_a_directory_that_refused_nothing_is_left_alone():
    machine = node(has_failed=False)
    repair_directories(machine)
    assert machine.vfs.failing is None
    assert machine.kills == 0
    assert "t-0" in machine.vfs.list("/1")


def test_what_an_administrator_deletes_crashes_no_process():
    vfs = node(has_failed=True).vfs
    vfs.crash_at = 0
    delete_duplicates(vfs, "/1", ("/1", "/2"))
    assert (vfs.crash_at, vfs.failing is None) == (0, False)
    assert sorted(vfs.crash().list("/1")) == ["t-1", "t-2", COPY]


@pytest.mark.parametrize("end", ["kill", "power_off"])
@pytest.mark.parametrize("has_failed", [True, False])
def test_each_start_of_a_machine_deletes_duplicates(has_failed, end):
    world = quiet_records(until_us=1_000_000)
    machine = leader_of(world)
    log_dir, name = segments_of(machine)[0].rsplit("/", 2)[:2]
    (other,) = set(machine.config.log_dirs) - {log_dir}
    machine.vfs.make_directory(f"{other}/{name}")
    metadata = "partition.metadata"
    with_id = machine.vfs.open(f"{other}/{name}/{metadata}", create=True)
    with_id.pwrite(machine.vfs.read(f"{log_dir}/{name}/{metadata}"), 0)
    with_id.sync()
    for path in (f"{other}/{name}", other):
        machine.vfs.sync_directory(path)
    machine.vfs.failing = FailingDirectory(other, TOPIC.name, 5)
    if has_failed:
        machine.vfs.failing("write", f"{other}/{name}/log")
    getattr(machine, end)()
    if has_failed:
        machine.start()
        assert name not in machine.vfs.list(other)
    else:
        assert name in machine.vfs.list(other)
