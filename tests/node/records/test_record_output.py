"""Parts of responses through a real socket pair: order, turns, truncated files, cold files."""

import errno
import os
import socket
from contextlib import contextmanager

import pytest

from node.records import read_ahead
from node.records.read_ahead import PROBE_BYTES, is_cached
from node.records.record_output import (
    PIECES_MAX,
    READ_BYTES,
    SENDFILE_BYTES_MIN,
    TURN_BYTES,
    Output,
    Sent,
    UnreadableSliceError,
)
from simulator.cluster.memory_vfs import MemoryVfs
from storage.os_vfs import OsVfs
from storage.segments.file_slice import FileSlice

CONTENT = bytes(os.urandom(1024)) * 2048  # 2 MiB, no two pieces of a KiB at odd places alike


@contextmanager
def pair():
    """Both ends of a connection, neither of which blocks."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0)
        theirs.settimeout(0)
        yield ours, theirs


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return OsVfs().open(str(path))


def slice_of(file, size, position=0):
    return FileSlice(file.share(), position, size, 0, 0)


def is_closed(part):
    return part.file._descriptor is None


def received(theirs):
    """Return the bytes that have arrived."""
    parts = []
    while True:
        try:
            parts.append(theirs.recv(1 << 20))
        except BlockingIOError:
            return b"".join(parts)


def send_all(output, theirs, arrived=None):
    """Send to the end; return what arrived and the outcome of each turn."""
    outcomes = [output.send()]
    arrived = [] if arrived is None else arrived
    arrived.append(received(theirs))
    while outcomes[-1] is not Sent.ALL:
        assert not output.is_empty
        outcomes.append(output.send())
        arrived.append(received(theirs))
    assert output.is_empty
    assert output.memory_bytes == output.slice_bytes == 0
    return b"".join(arrived), outcomes


@pytest.mark.parametrize("has_sendfile", [True, False])
def test_parts_of_every_kind_leave_in_order_and_their_handles_are_closed(file, has_sendfile):
    large, small = 3 * SENDFILE_BYTES_MIN, SENDFILE_BYTES_MIN - 1
    slices = [
        slice_of(file, small, 7), slice_of(file, large, 11), slice_of(file, 0), slice_of(file, 1, 5)
    ]  # fmt: skip
    with pair() as (ours, theirs):
        output = Output(ours, has_sendfile=has_sendfile)
        output.add((b"head", slices[0], b"", b"between", slices[1]))
        output.add((slices[2], slices[3], b"tail"))
        assert output.memory_bytes == len(b"headbetweentail")
        assert output.slice_bytes == small + large + 1
        arrived, _ = send_all(output, theirs)
    expected = [b"head", CONTENT[7 : 7 + small], b"between", CONTENT[11 : 11 + large], CONTENT[5:6]]
    assert arrived == b"".join([*expected, b"tail"])
    assert all(is_closed(one) for one in slices)


def test_nothing_is_sent_of_nothing():
    with pair() as (ours, _):
        output = Output(ours)
        output.add((b"", b""))
        assert output.is_empty
        assert output.send() is Sent.ALL


def test_a_turn_sends_no_more_of_a_large_slice_than_its_bytes(file):
    with pair() as (ours, theirs):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * TURN_BYTES)
        output = Output(ours)
        output.add((slice_of(file, len(CONTENT)),))
        sizes = []
        while not output.is_empty:
            output.send()
            sizes.append(len(received(theirs)))
    assert max(sizes) <= TURN_BYTES
    assert sum(sizes) == len(CONTENT)


def test_many_pieces_take_many_turns():
    with pair() as (ours, theirs):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * TURN_BYTES)
        output = Output(ours)
        output.add([bytes([number % 251]) for number in range(3 * PIECES_MAX + 1)])
        arrived, outcomes = send_all(output, theirs)
    assert arrived == bytes(number % 251 for number in range(3 * PIECES_MAX + 1))
    assert outcomes == [Sent.TURN_OVER] * 3 + [Sent.ALL]


def test_a_peer_that_does_not_read_blocks_and_nothing_is_lost():
    content = CONTENT + b"end"
    with pair() as (ours, theirs):
        output = Output(ours)
        output.add((content,))
        outcomes = {output.send() for _ in range(8)}
        assert outcomes == {Sent.BLOCKED}
        assert 0 < output.memory_bytes < len(content)
        arrived, _ = send_all(output, theirs)
    assert arrived == content


def test_a_blocked_slice_goes_on_where_it_stopped(file):
    with pair() as (ours, theirs):
        output = Output(ours)
        output.add((b"head", slice_of(file, len(CONTENT))))
        while output.send() is not Sent.BLOCKED:
            pass
        assert 0 < output.slice_bytes < len(CONTENT)
        assert output.memory_bytes == 0
        arrived, _ = send_all(output, theirs)
    assert arrived == b"head" + CONTENT


@pytest.mark.parametrize("size", [1000, 2 * SENDFILE_BYTES_MIN])
@pytest.mark.parametrize("left", [0, 600])
def test_a_truncated_slice_is_an_error_and_gives_no_other_bytes(file, size, left):
    with pair() as (ours, theirs):
        output = Output(ours)
        part = slice_of(file, size, 100)
        output.add((part, b"never"))
        file.truncate(100 + left)
        with pytest.raises(UnreadableSliceError, match="truncated"):
            send_all(output, theirs, arrived := [])
        assert CONTENT[100 : 100 + left].startswith(b"".join(arrived) + received(theirs))
        output.drop()
        assert is_closed(part)
        assert output.is_empty
        assert output.memory_bytes == output.slice_bytes == 0


def test_a_file_without_a_descriptor_is_read_in_pieces():
    vfs = MemoryVfs()
    file = vfs.open("/log", create=True)
    file.pwrite(CONTENT, 0)
    with pair() as (ours, theirs):
        output = Output(ours)
        output.add((slice_of(file, len(CONTENT) - 1, 1),))
        assert output.cold[1:] == (1, READ_BYTES)
        arrived, _ = send_all(output, theirs)
    assert arrived == CONTENT[1:]


def test_a_file_that_cannot_be_read_is_an_error_of_its_slice():
    vfs = MemoryVfs()
    file = vfs.open("/log", create=True)
    file.pwrite(b"content", 0)
    vfs.failing = lambda done, path: errno.EIO if done == "read" else None
    with pair() as (ours, theirs):
        output = Output(ours)
        output.add((b"head", slice_of(file, 7)))
        with pytest.raises(UnreadableSliceError, match="cannot be read"):
            output.send()
        assert received(theirs) == b""


def test_a_peer_that_has_gone_is_an_error_of_the_socket(file):
    with pair() as (ours, theirs):
        theirs.close()
        output = Output(ours)
        output.add((slice_of(file, len(CONTENT)),))
        with pytest.raises(BrokenPipeError):
            output.send()


class Cold:
    """A page cache that holds nothing; notes what is asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, _file, position, size):
        self.asked.append((position, size))
        return False


@pytest.mark.parametrize("size", [SENDFILE_BYTES_MIN - 1, SENDFILE_BYTES_MIN, TURN_BYTES + 9])
def test_bytes_on_the_disk_are_sent_when_they_are_filled_and_what_is_before_them_at_once(
    file, size
):
    cold = Cold()
    with pair() as (ours, theirs):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * TURN_BYTES)
        output = Output(ours, is_cached=cold)
        part = slice_of(file, size, 30)
        output.add((b"head", part, b"tail"))
        assert output.send() is Sent.COLD
        assert received(theirs) == b"head"
        assert output.send() is Sent.COLD
        first = min(size, TURN_BYTES)
        assert output.cold == (part.file, 30, first)
        output.filled()
        arrived = b""
        if first < size:
            while (outcome := output.send()) is not Sent.COLD:
                assert outcome in (Sent.BLOCKED, Sent.TURN_OVER)
                arrived += received(theirs)
            arrived += received(theirs)
            assert arrived == CONTENT[30 : 30 + len(arrived)], "the rest is asked for anew"
            assert cold.asked[-1] == (30 + len(arrived), min(size - len(arrived), TURN_BYTES))
            output._is_cached = is_cached
        while output.send() is not Sent.ALL:
            arrived += received(theirs)
        assert arrived + received(theirs) == CONTENT[30 : 30 + size] + b"tail"


@pytest.mark.parametrize(("code", "expected"), [(errno.EAGAIN, False), (errno.EOPNOTSUPP, True)])
def test_bytes_that_a_read_would_wait_for_are_not_cached(tmp_path, monkeypatch, code, expected):
    def refuse(*_):
        raise OSError(code, "")

    (tmp_path / "log").write_bytes(b"a")
    file = OsVfs().open(str(tmp_path / "log"))
    monkeypatch.setattr(os, "preadv", refuse)
    assert is_cached(file, 0, 1) is expected
    monkeypatch.setattr(read_ahead, "_NOWAIT", None)
    assert is_cached(file, 0, 1), "the system cannot tell"


def test_what_was_just_written_is_cached_and_what_was_dropped_is_not(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(CONTENT)
    file = OsVfs().open(str(path))
    assert is_cached(file, 0, len(CONTENT))
    assert is_cached(MemoryVfs().open("/log", create=True), 0, 1)
    file.sync()
    one_probe = 2 * PROBE_BYTES
    os.posix_fadvise(file.fileno(), one_probe, PROBE_BYTES, os.POSIX_FADV_DONTNEED)
    if not is_cached(file, one_probe, 1):  # the file system has a disk
        assert is_cached(file, 0, one_probe)
        assert not is_cached(file, 0, one_probe + 1)
        assert not is_cached(file, one_probe - 1, PROBE_BYTES + 2)
        os.pread(file.fileno(), len(CONTENT), 0)
        assert is_cached(file, 0, len(CONTENT))
