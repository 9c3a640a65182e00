"""The simulator's own reader of a metadata log."""

import pytest

from simulator.checks.raft.log_mirror import (
    FOLDER,
    LogMirror,
    damaged_batch,
    segment_paths,
)
from simulator.cluster.memory_vfs import MemoryVfs
from wire.batches.batch import encode_batch

NOW_MS = 1_700_000_000_000


@pytest.fixture
def vfs():
    made = MemoryVfs()
    made.make_directory(FOLDER)
    made.sync_directory("/")
    made.sync_directory("/data")
    return made


def batch(base, epoch=1, count=1):
    return encode_batch([b"value"] * count, base, epoch, NOW_MS)


def write(vfs, name, *batches, sync=True):
    file = vfs.open(f"{FOLDER}/{name}", create=True)
    file.pwrite(b"".join(batches), file.size())
    if sync:
        file.sync()
        vfs.sync_directory(FOLDER)


def segment(base):
    return f"{base:020d}.log"


def test_batches_are_read_once_as_they_come(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0, count=3))
    assert [(e.base_offset, e.end_offset, e.epoch) for e in mirror.appended(vfs)] == [(0, 3, 1)]
    assert mirror.appended(vfs) == []
    write(vfs, segment(0), batch(3, epoch=2), batch(4, epoch=2))
    assert [e.base_offset for e in mirror.appended(vfs)] == [3, 4]
    assert (mirror.start_offset, mirror.end_offset) == (0, 5)


def test_a_new_segment_is_read_too(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0))
    mirror.appended(vfs)
    write(vfs, segment(0), batch(1))
    write(vfs, segment(2), batch(2), batch(3))
    assert [e.base_offset for e in mirror.appended(vfs)] == [1, 2, 3]
    assert mirror.segment_count == 2
    assert mirror.durable_end(vfs) == 4


def test_half_a_batch_is_none(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0), batch(1)[:-5])
    assert [e.base_offset for e in mirror.appended(vfs)] == [0]


def test_find_gives_the_batch_that_holds_an_offset(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0, count=4), batch(4, count=2))
    mirror.appended(vfs)
    assert [mirror.find(offset).base_offset for offset in (0, 3, 4, 5)] == [0, 0, 4, 4]
    assert mirror.find(6) is None


def test_only_what_was_synced_is_durable(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0))
    write(vfs, segment(0), batch(1), sync=False)
    assert mirror.durable_end(vfs) == 1
    vfs.open(f"{FOLDER}/{segment(0)}").sync()
    assert mirror.durable_end(vfs) == 2


def test_a_name_that_may_vanish_is_not_durable(vfs):
    file = vfs.open(f"{FOLDER}/{segment(0)}", create=True)
    file.pwrite(batch(0), 0)
    file.sync()
    assert LogMirror().durable_end(vfs) == 0
    vfs.sync_directory(FOLDER)
    assert LogMirror().durable_end(vfs) == 1


def test_a_torn_batch_is_not_durable(vfs):
    write(vfs, segment(0), batch(0))
    torn = bytearray(batch(1))
    torn[-2] ^= 0xFF
    write(vfs, segment(0), bytes(torn))
    assert LogMirror().durable_end(vfs) == 1


def test_a_whole_segment_behind_a_gap_is_not_durable(vfs):
    write(vfs, segment(0), batch(0))
    write(vfs, segment(0), batch(1), sync=False)
    write(vfs, segment(2), batch(2))
    assert LogMirror().durable_end(vfs) == 1
    vfs.open(f"{FOLDER}/{segment(0)}").sync()
    assert LogMirror().durable_end(vfs) == 3


def test_a_cut_is_seen_by_reading_again(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0), batch(1), batch(2))
    mirror.appended(vfs)
    size = len(batch(0))
    vfs.open(f"{FOLDER}/{segment(0)}").truncate(2 * size)
    assert [e.base_offset for e in mirror.reread(vfs)] == [0, 1]
    write(vfs, segment(0), batch(2, epoch=7))
    assert [e.epoch for e in mirror.appended(vfs)] == [7]
    assert segment_paths(vfs) == [f"{FOLDER}/{segment(0)}"]


def test_damage_is_found_where_all_was_sound_before(vfs):
    sound = {}
    path = f"{FOLDER}/{segment(0)}"
    write(vfs, segment(0), batch(0), batch(1))
    assert damaged_batch(vfs, sound) is None
    write(vfs, segment(0), batch(2))
    assert damaged_batch(vfs, sound) is None
    for position in (70, vfs.size(path) - 1):
        before = bytes(vfs.written_content(path)[position : position + 1])
        vfs.damage(path, position, bytes([before[0] ^ 1]))
        assert "fails its checksum" in damaged_batch(vfs, sound)
        vfs.damage(path, position, before)
        assert damaged_batch(vfs, sound) is None
    write(vfs, segment(0), b"rest")
    assert "are no batch" in damaged_batch(vfs, sound)


def test_bytes_that_are_the_same_after_a_restart_are_the_same_batches(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0), batch(1))
    before = mirror.reread(vfs)
    assert mirror.durable_end(vfs) == 2
    write(vfs, segment(0), batch(2))
    mirror.forget_durable()
    after = mirror.reread(vfs)
    assert [e.base_offset for e in after] == [0, 1, 2]
    assert after[0] is before[0], "parsed once"
    assert mirror.durable_end(vfs) == 3
    assert mirror.durable_entry(vfs, 1) == after[0]
    assert [e.base_offset for e in mirror.appended(vfs)] == []


def test_bytes_that_changed_are_read_anew(vfs):
    mirror = LogMirror()
    write(vfs, segment(0), batch(0), batch(1))
    mirror.reread(vfs)
    assert mirror.durable_end(vfs) == 2
    file = vfs.open(f"{FOLDER}/{segment(0)}")
    file.pwrite(batch(1, epoch=7), len(batch(0)))
    torn = bytearray(batch(2, epoch=7))
    torn[-1] ^= 1
    file.pwrite(bytes(torn), file.size())
    file.sync()
    mirror.forget_durable()
    assert [e.epoch for e in mirror.reread(vfs)] == [1, 7, 7]
    assert mirror.durable_end(vfs) == 2, "the last one is torn"
    assert mirror.durable_entry(vfs, 2).epoch == 7


def test_a_forgiven_batch_is_judged_anew_when_it_no_longer_is(vfs):
    mirror = LogMirror()
    torn = bytearray(batch(1))
    torn[-1] ^= 1
    write(vfs, segment(0), batch(0), bytes(torn))
    place = (f"{FOLDER}/{segment(0)}", len(batch(0)))
    mirror.forgiven.add(place)
    assert mirror.durable_end(vfs) == 2
    mirror.forgiven.clear()
    mirror.forget_durable()
    assert mirror.durable_end(vfs) == 1
