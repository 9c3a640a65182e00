"""Folders with an owner, and those that lost theirs."""

import os
import stat
from types import SimpleNamespace

import pytest

from testing import folders
from testing.folders import (
    FREE_BYTES_MIN,
    OwnedFolder,
    base,
    disk_line,
    place,
    sweep,
    sweep_all,
)


def test_it_goes_with_all_it_holds(tmp_path):
    made = OwnedFolder(tmp_path)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    (made.path / "node1").mkdir()
    (made.path / "node1" / "file").write_text("x")
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_leaves_what_has_an_owner(tmp_path):
    made = OwnedFolder(tmp_path)
    assert sweep(tmp_path) == []
    assert made.path.is_dir()
    made.remove()


def test_a_sweep_removes_what_a_killed_owner_left(tmp_path):
    made = OwnedFolder(tmp_path)
    (made.path / "file").write_text("x")
    os.close(made._lock)  # as the system does for a process that is killed
    assert sweep(tmp_path) == [made.path]
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_leaves_what_is_not_ours(tmp_path):
    (tmp_path / "folder").mkdir()
    assert sweep(tmp_path) == []
    assert (tmp_path / "folder").is_dir()


@pytest.mark.parametrize(
    "name", ["poetry", "12-0123456", "x-01234567", "12-0123456g", "12-012345678"]
)
def test_a_sweep_leaves_locks_of_other_names(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / f"{name}.lock").write_text("")
    assert sweep(tmp_path) == []
    assert (tmp_path / name).is_dir()


def test_a_lock_stays_until_its_folder_is_gone(tmp_path, monkeypatch):
    made = OwnedFolder(tmp_path)
    os.close(made._lock)
    monkeypatch.setattr(folders.shutil, "rmtree", lambda *_, **__: None)  # somebody still writes
    assert sweep(tmp_path) == []
    monkeypatch.undo()
    assert sweep(tmp_path) == [made.path]
    assert list(tmp_path.iterdir()) == []


def test_folders_in_memory_and_on_disk_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "disk"))
    left = []
    for parent in ("memory", "disk"):
        within = tmp_path / parent / f"kraftline-testing-{os.getuid()}"
        within.mkdir(parents=True)
        left.append(OwnedFolder(within))
        os.close(left[-1]._lock)
    assert {*sweep_all(tmp_path / "memory")} == {made.path for made in left}
    assert sweep_all(tmp_path / "none") == []


def test_a_link_is_no_base(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "own").mkdir()
    made = OwnedFolder(tmp_path / "own")
    os.close(made._lock)
    (tmp_path / f"kraftline-testing-{os.getuid()}").symlink_to(tmp_path / "own")
    with pytest.raises(PermissionError, match="or is no folder"):
        base()
    assert sweep_all(tmp_path / "none") == []
    assert made.path.is_dir()


def test_a_base_that_others_may_read_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    base().chmod(0o755)
    assert stat.S_IMODE(base().stat().st_mode) == 0o700


def test_the_base_is_for_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert base() == base()
    assert base().parent == tmp_path
    assert stat.S_IMODE(base().stat().st_mode) == 0o700
    monkeypatch.setattr(folders.os, "getuid", lambda: os.geteuid() + 1)
    (tmp_path / f"kraftline-testing-{os.geteuid() + 1}").mkdir()
    with pytest.raises(PermissionError, match="another user"):
        base()


@pytest.mark.parametrize(
    ("environment", "free", "is_memory"),
    [
        ({}, FREE_BYTES_MIN, True),
        ({"TMPDIR": ""}, FREE_BYTES_MIN, True),
        ({}, FREE_BYTES_MIN - 1, False),
        ({"TMPDIR": "/elsewhere"}, FREE_BYTES_MIN, False),
    ],
)
def test_a_folder_lies_in_memory_if_there_is_enough(
    environment, free, is_memory, tmp_path, monkeypatch
):
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "disk"))
    expected = tmp_path if is_memory else tmp_path / "disk"
    assert place(environment, tmp_path) == expected


def test_a_system_without_such_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert place({}, tmp_path / "none") == tmp_path


def test_a_line_says_why_a_cluster_lies_on_a_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/disk")
    usage = SimpleNamespace(free=FREE_BYTES_MIN - 1)
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: usage)
    line = disk_line({}, tmp_path)
    assert line == (
        f"kraftline.testing: less than 1024 MiB in {tmp_path}: clusters lie in /disk, and start "
        "later\n"
    )
    assert disk_line({"TMPDIR": "/disk"}, tmp_path) is None
    assert disk_line({}, tmp_path / "none") is None
    usage.free += 1
    assert disk_line({}, tmp_path) is None


def test_a_folder_that_cannot_be_made_leaves_no_lock(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.mkdir", full)
    with pytest.raises(OSError, match="No space left"):
        OwnedFolder(tmp_path)
    assert list(tmp_path.iterdir()) == []
