"""Refused starts of a node: one line that names what is wrong, exit code 1, no stack."""

import os
import signal
import threading
from pathlib import Path

import pytest

from metadata.control_records import KRaftVersion
from metadata.snapshot import encode_snapshot
from node.configs.environment import CLUSTER_ID, DEFAULT_CLUSTER_ID
from node.process import asked_cluster_id, run_node
from wire.types import LeaderEpoch

PROPERTIES = """process.roles=controller
node.id=1
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:0
controller.quorum.voters=1@127.0.0.1:29101
"""


def refused(folder: Path, capsys: pytest.CaptureFixture[str], log_dirs: Path, wish: str) -> str:
    file = folder / "server.properties"
    file.write_text(f"{PROPERTIES}log.dirs={log_dirs}\n")
    end = threading.Timer(20, os.kill, (os.getpid(), signal.SIGTERM))  # of a node that starts
    end.start()
    try:
        assert run_node(file, (), wish) == 1
    finally:
        end.cancel()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_a_log_directory_that_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(tmp_path, capsys, Path("/proc/nope"), "x")
    assert said == "/proc/nope: No such file or directory\n"


def test_a_log_directory_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    said = refused(tmp_path, capsys, tmp_path / "file", "x")
    assert said == f"{tmp_path}/file: File exists\n"
    inside = tmp_path / "file" / "log"
    assert refused(tmp_path, capsys, inside, "x") == f"{inside}: Not a directory\n"


def test_a_lock_that_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log" / ".lock").mkdir(parents=True)
    said = refused(tmp_path, capsys, tmp_path / "log", "x")
    assert said == f"{tmp_path}/log/.lock: Is a directory\n"


@pytest.mark.parametrize("wish", ["", " ", "x ", "a\nnode.id=7", "a\\u0041", "\u00e9", "x" * 1001])
def test_a_cluster_id_that_meta_properties_cannot_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wish: str
) -> None:
    said = refused(tmp_path, capsys, tmp_path / "log", wish)
    assert said.startswith(f"cluster id {wish[:80]!r}".removesuffix("'"))
    assert "; allowed: 1 to 1000 printable ASCII characters" in said
    assert not (tmp_path / "log").exists()


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert asked_cluster_id({CLUSTER_ID: ""}) == DEFAULT_CLUSTER_ID
    assert asked_cluster_id({}) == DEFAULT_CLUSTER_ID
    assert asked_cluster_id({CLUSTER_ID: "x"}) == "x"


def test_a_folder_of_a_later_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level that is not known may keep the voters elsewhere."""
    log_dir, name = tmp_path / "log", "00000000000000000000-0000000000.checkpoint"
    folder = log_dir / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    content = encode_snapshot(
        (), level=25, epoch=LeaderEpoch(0), last_contained_timestamp_ms=0, timestamp_ms=0,
        control_records=(KRaftVersion(k_raft_version=2),),
    )  # fmt: skip
    (folder / name).write_bytes(b"".join(content))
    said = refused(tmp_path, capsys, log_dir, "x")
    assert said.startswith(f"{log_dir}: kraft.version is finalized at 2 ({name}), ")
    assert "supported is 0 to 1" in said
