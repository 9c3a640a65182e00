"""The folders of all four nodes of a quorum that was raised to kraft.version 1 while it ran."""

import pytest

from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import QuorumStateFile, encode_quorum_state
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.log import LogConfig
from tests.storage import golden

NODES = ["n1", "n2", "n3", "n101"]
METADATA = "/log/__cluster_metadata-0"


@pytest.mark.parametrize("node", NODES)
def test_opened_without_a_repair(node: str) -> None:
    vfs = golden.load(f"kraft-upgrade/{node}")
    log = open_metadata_log(vfs, "/log", LogConfig())
    assert log.recovery_report == ()
    properties = read_meta_properties(vfs, "/log")
    assert properties is not None
    assert f"n{properties.node_id}" == node
    assert all(
        snapshot.offset <= log.end_offset for snapshot in SnapshotFiles(vfs, METADATA).list()
    )
    assert log.epoch_entries


@pytest.mark.parametrize("node", NODES)
def test_quorum_state_is_still_version_0_and_written_as_kafka_does(node: str) -> None:
    vfs = golden.load(f"kraft-upgrade/{node}")
    content = vfs.read(f"{METADATA}/quorum-state")
    state = QuorumStateFile(vfs, METADATA).read()
    assert state is not None
    assert b'"data_version":0' in content
    assert encode_quorum_state(state, (1, 2, 3)) == content  # type: ignore[arg-type]


def test_the_logs_are_equal_as_far_as_they_go() -> None:
    logs = [
        open_metadata_log(golden.load(f"kraft-upgrade/{n}"), "/log", LogConfig()) for n in NODES
    ]
    common = min(log.end_offset for log in logs)
    assert common > 50
    contents = {log.read(0, 1 << 30, common) for log in logs}
    assert len(contents) == 1
