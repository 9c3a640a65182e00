"""Index files that are missing or wrong are rebuilt while a log is loaded, as Kafka does."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError
from storage.logs.log import Log
from storage.logs.recovery import FileRebuilt
from storage.segments.segment import Segment
from tests.storage.golden import put
from tests.storage.test_unified_log import NOW, opened, produced

SETTINGS = {"index_interval_bytes": 150, "segment_bytes": 4_000}
SUFFIXES = ("index", "timeindex")


def stopped(*, is_clean):
    """A log of four segments that was closed in order, or killed with a recovery point at 150."""
    vfs = MemoryVfs()
    log = opened(vfs, **SETTINGS)
    for number in range(200):
        log.append_as_leader(produced(NOW + number), 1, NOW)
    assert [each.base_offset for each in log.log.segments] == [0, 57, 114, 171]
    log.log.record_epochs()
    if is_clean:
        log.close()
    return vfs


def name(suffix, base_offset=57):
    return f"/d/p-0/{base_offset:020d}.{suffix}"


def changed(content, change):
    low = (-1).to_bytes(4, "big", signed=True)
    return {
        "missing": None,
        "cut": content[:-1],
        "below its segment, offsets": content[:-8] + low + content[-4:],
        "below its segment, times": content[:-4] + low,
    }[change]


REASONS = {
    "missing": "it is missing",
    "cut": "bytes are not a multiple of",
    "below its segment, offsets": "its last offset is below that of the segment",
    "below its segment, times": "its last offset is below that of the segment",
}


@pytest.mark.parametrize(
    ("suffix", "change"),
    [
        *((suffix, change) for suffix in SUFFIXES for change in ("missing", "cut")),
        ("index", "below its segment, offsets"),
        ("timeindex", "below its segment, times"),
    ],
)
@pytest.mark.parametrize("base_offset", [57, 171])
def test_a_start_writes_an_index_again_that_it_finds_missing_or_wrong(suffix, change, base_offset):
    vfs = stopped(is_clean=True)
    path = name(suffix, base_offset)
    whole = vfs.read(path)
    content = changed(whole, change)
    if content is None:
        vfs.unlink(path)
    else:
        put(vfs, path, content)
    log = opened(vfs, is_clean=True, **SETTINGS)
    assert vfs.read(path) == whole
    (event,) = log.recovery_report
    assert isinstance(event, FileRebuilt)
    assert event.path == path
    assert REASONS[change] in event.reason
    assert not any(each.is_open for each in log.log.segments[:-1])
    assert opened(vfs, is_clean=True, **SETTINGS).recovery_report == ()


def test_whole_index_files_are_not_read_at_a_start():
    vfs, reads = stopped(is_clean=True), []
    vfs.failing = lambda kind, path: reads.append(path) if kind == "read" else None
    opened(vfs, is_clean=True, **SETTINGS)
    for suffix in SUFFIXES:
        assert reads.count(name(suffix)) == 1  # the last entry
    assert name("log") not in reads


def test_after_a_kill_what_is_below_the_recovery_point_is_looked_at(monkeypatch):
    """Others are checked anyway, and are no loss: they may have been on their way."""
    vfs = stopped(is_clean=False)
    whole = {base: vfs.read(name("index", base)) for base in (0, 57, 114)}
    for base in whole:
        vfs.unlink(name("index", base))

    class Recorded:
        end_offset, damage = 120, None

        def note(self, end_offset):
            del end_offset

        record = note

        def close(self):
            pass

    original = Log.open

    def with_point(vfs, directory, config, _point, start, **named):
        return original(vfs, directory, config, Recorded(), start, **named)

    monkeypatch.setattr("tests.storage.test_unified_log.Log.open", with_point)
    log = opened(vfs, **SETTINGS)
    assert [event.path for event in log.recovery_report] == [name("index", 0), name("index", 57)]
    assert {base: vfs.read(name("index", base)) for base in whole} == whole


def test_an_index_that_is_found_wrong_by_its_use_is_written_again():
    """Length and last entry are sound."""
    vfs = stopped(is_clean=True)
    whole = vfs.read(name("index"))
    put(vfs, name("index"), whole[8:16] + whole[:8] + whole[16:])
    log = opened(vfs, is_clean=True, **SETTINGS)
    assert log.recovery_report == ()
    assert vfs.read(name("index")) != whole
    assert log.place_of(60) == (57, 3 * len(produced(NOW).buffer))
    assert vfs.read(name("index")) == whole


def test_a_damaged_segment_is_left_to_its_readers():
    vfs = stopped(is_clean=True)
    vfs.unlink(name("index"))
    vfs.damage(name("log"), 80, b"\xff" * 12)
    log = opened(vfs, is_clean=True, **SETTINGS)
    assert log.recovery_report == ()
    with pytest.raises(CorruptLogError):
        log.place_of(60)


def test_logs_whose_index_files_come_with_the_next_segment_are_not_looked_at():
    vfs = stopped(is_clean=True)
    vfs.unlink(name("index"))
    log = opened(vfs, is_clean=True, grows_index_files=False, **SETTINGS)
    assert log.recovery_report == ()
    assert not vfs.exists(name("index"))
    segment = Segment(vfs, "/d/p-0", 57, 150)
    assert not segment.indexes.is_loaded
    assert not vfs.exists(name("index"))
