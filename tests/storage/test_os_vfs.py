"""The real disk where the operating system does less than it was asked."""

import os
import resource
import signal
from pathlib import Path
from typing import Final

import pytest

from storage.errors import OutOfSpaceError
from storage.os_vfs import OsVfs

SHORT: Final = 3
"""Bytes of one call, where a signal or a limit cuts it."""


@pytest.mark.parametrize("size", [SHORT - 1, SHORT, SHORT + 1, 10])
@pytest.mark.parametrize("position", [0, 1, 7])
def test_short_writes_and_reads_are_continued_where_they_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int, position: int
) -> None:
    before, content = b".........", bytes(range(size))
    (tmp_path / "f").write_bytes(before)
    pread, pwrite = os.pread, os.pwrite
    file = OsVfs().open(str(tmp_path / "f"))
    with monkeypatch.context() as patched:
        patched.setattr(
            "storage.os_vfs.os.pwrite", lambda number, data, at: pwrite(number, data[:SHORT], at)
        )
        patched.setattr(
            "storage.os_vfs.os.pread", lambda number, size, at: pread(number, min(size, SHORT), at)
        )
        file.pwrite(content, position)
        expected = before[:position] + content + before[position + size :]
        assert (tmp_path / "f").read_bytes() == expected
        assert file.pread(size, position) == content
        assert file.pread(100, 0) == expected


def test_a_write_that_the_system_cuts_goes_on_behind_what_was_written(tmp_path: Path) -> None:
    """RLIMIT_FSIZE writes up to the limit, then refuses: the second call is at the limit."""
    (tmp_path / "f").write_bytes(b"abcdef")
    file = OsVfs().open(str(tmp_path / "f"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN, "as Python sets it"
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.pwrite(b"123456", 4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "f").read_bytes() == b"abcd1234"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_from_other_errors() -> None:
    with pytest.raises(OutOfSpaceError):
        OsVfs().open("/dev/full").pwrite(b"a", 0)
