"""The memory disk refuses what the kernel refuses, with the same errno.

Each operation runs on both in the same small tree: what it gives, or what it raises, is equal. Else
fuzzing and simulation are blind to a length or a name that ends a real node.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulator.cluster.memory_vfs import FILE_BYTES_MAX, MemoryVfs
from storage.os_vfs import OsVfs
from storage.vfs import Vfs, VfsFile

INT64_MAX = 2**63 - 1
LONG = "x" * 255
TREE = {"/file": b"abcdef", "/empty": b""}
OnFile = Callable[[VfsFile], Any]
OnVfs = Callable[[Vfs, str], Any]


def prepare(vfs: Vfs, root: str) -> None:
    for name, content in TREE.items():
        file = vfs.open(root + name, create=True)
        file.pwrite(content, 0)
        file.close()
    vfs.make_directory(root + "/directory/inner")


@pytest.fixture
def both(tmp_path: Path) -> tuple[tuple[Vfs, str], tuple[Vfs, str]]:
    memory = MemoryVfs()
    memory.make_directory(str(tmp_path))
    found: tuple[tuple[Vfs, str], tuple[Vfs, str]]
    found = (OsVfs(), str(tmp_path)), (memory, str(tmp_path))
    for vfs, root in found:
        prepare(vfs, root)
    return found


def outcome(call: Callable[..., Any], *arguments: Any) -> object:
    """Result of a call, or its exception without the words."""
    try:
        found = call(*arguments)
    except Exception as error:  # noqa: BLE001 - any kind is compared
        return type(error).__name__, getattr(error, "errno", None)
    return found if isinstance(found, bytes | int | str | list | None) else "an object"


READS = [
    (size, position)
    for size in (-(2**31), -1, 0, 1, 6, 100)
    for position in (-(2**63), -1, 0, 3, 6, 7, 2**40, INT64_MAX - 6, INT64_MAX - 1, INT64_MAX)
]


@pytest.mark.parametrize(("size", "position"), READS)
def test_pread(both: tuple[tuple[Vfs, str], ...], size: int, position: int) -> None:
    files = [vfs.open(root + "/file") for vfs, root in both]
    found = [outcome(file.pread, size, position) for file in files]
    assert found[0] == found[1]


WRITES = [
    (data, position)
    for data in (b"", b"z", b"z" * 7)
    for position in (-(2**63), -1, 0, 6, 9, INT64_MAX)
]


@pytest.mark.parametrize(("data", "position"), WRITES)
def test_pwrite(both: tuple[tuple[Vfs, str], ...], data: bytes, position: int) -> None:
    for content in (data, memoryview(data)):
        found = []
        for vfs, root in both:
            file = vfs.open(root + "/file")
            result = outcome(file.pwrite, content, position)
            found.append((result, file.pread(64, 0)))
        assert found[0] == found[1]


@pytest.mark.parametrize("size", [-(2**63), -1, 0, 5, 6, 9])
def test_truncate(both: tuple[tuple[Vfs, str], ...], size: int) -> None:
    found = []
    for vfs, root in both:
        file = vfs.open(root + "/file")
        found.append((outcome(file.truncate, size), file.size(), file.pread(64, 0)))
    assert found[0] == found[1]


@pytest.mark.parametrize(("size", "position"), [(1, FILE_BYTES_MAX), (2, FILE_BYTES_MAX - 1)])
def test_no_file_is_larger_than_the_largest(size: int, position: int) -> None:
    """The largest size depends on the file system: not compared, and 16 TiB are not written."""
    file = MemoryVfs().open("/file", create=True)
    with pytest.raises(OSError, match="too large") as refused:
        file.pwrite(bytes(size), position)
    assert refused.value.errno == errno.EFBIG
    with pytest.raises(OSError, match="too large") as refused:
        file.truncate(position + size)
    assert refused.value.errno == errno.EFBIG
    file.pwrite(b"", FILE_BYTES_MAX + 1)
    assert file.size() == 0


CLOSED: tuple[OnFile, ...] = (
    lambda file: file.pread(1, 0),
    lambda file: file.pwrite(b"z", 0),
    lambda file: file.truncate(0),
    lambda file: file.size(),
    lambda file: file.sync(),
    lambda file: file.share(),
)


@pytest.mark.parametrize("number", range(len(CLOSED)))
def test_a_closed_file(both: tuple[tuple[Vfs, str], ...], number: int) -> None:
    for vfs, root in both:
        file = vfs.open(root + "/file")
        shared = file.share()
        file.close()
        file.close()
        with pytest.raises(AssertionError, match="is closed"):
            CLOSED[number](file)
        assert shared.pread(6, 0) == b"abcdef"


NAMES = (
    "", "/", "/file", "/file/", "/file/below", "/file/below/that", "/missing", "/missing/below",
    "/directory", "/directory/", "/directory/inner", "/" + LONG, "/" + LONG + "x",
    "/" + "\u00e9" * 127, "/" + "\u00e9" * 128, "/nul\x00", "/nul\x00/below", "/half\ud800",
    "/escaped\udcff", "/directory/" + LONG + "x", "/missing/" + LONG + "x", "/file/" + LONG + "x",
    "/" + "/".join(["directory"] * 450),
)  # fmt: skip
CALLS: dict[str, OnVfs] = {
    "open": lambda vfs, path: vfs.open(path),
    "create": lambda vfs, path: vfs.open(path, create=True),
    "read": lambda vfs, path: vfs.read(path),
    "exists": lambda vfs, path: vfs.exists(path),
    "is_directory": lambda vfs, path: vfs.is_directory(path),
    "list": lambda vfs, path: vfs.list(path),
    "unlink": lambda vfs, path: vfs.unlink(path),
    "remove_directory": lambda vfs, path: vfs.remove_directory(path),
    "sync_directory": lambda vfs, path: vfs.sync_directory(path),
    "make_directory": lambda vfs, path: vfs.make_directory(path),
    "make_read_only": lambda vfs, path: vfs.make_read_only(path),
    "volume": lambda vfs, path: vfs.volume(path),
    "lock": lambda vfs, path: vfs.lock(path),
}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:40])
@pytest.mark.parametrize("call", CALLS)
def test_names(both: tuple[tuple[Vfs, str], ...], call: str, name: str) -> None:
    found = [outcome(CALLS[call], vfs, root + name) for vfs, root in both]
    assert found[0] == found[1]
    assert names(*both[0]) == names(*both[1])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("length", [4095, 4096])
def test_the_longest_path(both: tuple[tuple[Vfs, str], ...], call: str, length: int) -> None:
    """Of directories that are not there, so that only its length matters."""
    path = "/directory" + "/missing" * (length // 8)
    found = []
    for vfs, root in both:
        whole = (root + path)[: length - 1] + "x"
        assert len(whole) == length
        found.append(outcome(CALLS[call], vfs, whole) if call != "make_directory" else None)
    assert found[0] == found[1]


def names(vfs: Vfs, root: str) -> list[str]:
    return [f"{name}:{vfs.is_directory(f'{root}/{name}')}" for name in vfs.list(root)]


RENAMES = [
    ("/file", "/other"), ("/file", "/file"), ("/file", "/empty"), ("/file", "/directory"),
    ("/directory", "/file"), ("/directory", "/other"), ("/missing", "/other"),
    ("/missing", "/file"), ("/empty", "/" + LONG), ("/empty", "/" + LONG + "x"),
    ("/" + LONG + "x", "/other"), ("/file", "/nul\x00"), ("/file", "/half\ud800"),
    ("/missing/a", "/missing/b"), ("/file/a", "/file/b"), ("/vacant", "/directory"),
    ("/directory", "/vacant"), ("/file", "/vacant"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), RENAMES, ids=lambda name: ascii(name)[:40])
def test_rename(both: tuple[tuple[Vfs, str], ...], source: str, target: str) -> None:
    found = []
    for vfs, root in both:
        vfs.make_directory(root + "/vacant")
        result = outcome(vfs.rename, root + source, root + target)
        found.append((result, names(vfs, root)))
    assert found[0] == found[1]


def test_a_directory_that_is_not_empty_stays(both: tuple[tuple[Vfs, str], ...]) -> None:
    for vfs, root in both:
        with contextlib.suppress(OSError):
            vfs.remove_directory(root + "/directory")
        assert vfs.is_directory(root + "/directory/inner")


def test_a_file_has_the_time_of_its_last_change(tmp_path: Path) -> None:
    clock = [5]
    memory = MemoryVfs(wall_ms=lambda: clock[0])
    file = memory.open("/a", create=True)
    assert memory.modified_ms("/a") == 5
    for number, change in enumerate((lambda: file.pwrite(b"ab", 0), lambda: file.truncate(1))):
        clock[0] = 10 + number
        change()
        assert memory.modified_ms("/a") == 10 + number
    memory.sync_directory("/")
    clock[0] = 20
    file.sync()
    memory.rename("/a", "/b")
    memory.sync_directory("/")
    assert memory.modified_ms("/b") == 11
    after = memory.crash()
    assert after.modified_ms("/b") == 11
    after.open("/b").truncate(0)
    assert after.modified_ms("/b") == 20
    path = tmp_path / "a"
    path.touch()
    os.utime(path, ns=(0, 1_234_567_890_123_456_789))
    assert OsVfs().modified_ms(str(path)) == 1_234_567_890_123
