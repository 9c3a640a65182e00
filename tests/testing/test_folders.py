"""Folders with an owner, and those that lost theirs."""

import os
import stat

import pytest

from testing import folders
from testing.folders import OwnedFolder, base, sweep


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


def test_the_base_is_for_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert base() == base()
    assert stat.S_IMODE(base().stat().st_mode) == 0o700
    monkeypatch.setattr(folders.os, "getuid", lambda: os.geteuid() + 1)
    (tmp_path / f"kraftline-testing-{os.geteuid() + 1}").mkdir()
    with pytest.raises(PermissionError, match="another user"):
        base()
