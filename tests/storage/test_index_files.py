"""The files `.index` and `.timeindex`: as Kafka writes them, loaded, completed and rebuilt."""

from pathlib import Path

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError, OutOfSpaceError
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import TailCut
from storage.segments.index import IndexDamageError, OffsetIndex, TimeIndex
from storage.segments.segment import Segment
from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import VfsFile
from tests.storage.golden import put
from tests.storage.test_crash import batch
from wire.batches.batch import encode_batch, iterate_frames

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
SMALL_INTERVALS = {"comp-0", "idem-0", "java-perf-0", "txn-0"}
"""Partitions whose topic had `index.interval.bytes=256`; the others had the default."""
RESTARTS = {
    ("data-log", "__transaction_state-1"): 21,
    ("broker-101", "__transaction_state-1"): 21,
    ("data-log", "epochs-0"): 5,
}
"""Offsets at which Kafka closed a log and opened it again: names of producer snapshots."""
SEGMENTS = sorted(
    path
    for folder in ("cli/data-log", "pipeline/broker-101", "pipeline/broker-102")
    for path in (GOLDEN / folder).glob("*/*.log")
)


def built(path: Path) -> SegmentIndexes:
    """The indexes of a segment whose batches are appended one by one."""
    partition = path.parent.name
    indexes = SegmentIndexes(int(path.stem), 256 if partition in SMALL_INTERVALS else 4096)
    closed_at = RESTARTS.get((path.parent.parent.name, partition))
    for frame in iterate_frames(path.read_bytes()):
        if frame.base_offset == closed_at:
            indexes.finish()
            indexes.restart_interval()
        size_bytes = frame.size_bytes
        indexes.add(frame.position, size_bytes, frame.last_offset, frame.max_timestamp_ms)
    indexes.finish()
    return indexes


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: f"{path.parent.name}-{path.stem[-4:]}")
def test_indexes_are_those_that_kafka_wrote(path: Path) -> None:
    indexes = built(path)
    assert indexes.offsets.encode() == path.with_suffix(".index").read_bytes()
    assert indexes.times.encode() == path.with_suffix(".timeindex").read_bytes()


@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: f"{path.parent.name}-{path.stem[-4:]}")
def test_index_files_of_kafka_are_loaded(path: Path) -> None:
    """Without a scan of what they cover; preallocated ones too."""
    expected = built(path)
    for zeros in (0, 10):
        vfs = MemoryVfs()
        put(vfs, f"/d/{path.name}", path.read_bytes())
        offsets, times = path.with_suffix(".index"), path.with_suffix(".timeindex")
        put(vfs, f"/d/{offsets.name}", offsets.read_bytes() + bytes(8 * zeros))
        put(vfs, f"/d/{times.name}", times.read_bytes() + bytes(12 * zeros))
        loaded = Segment(vfs, "/d", int(path.stem), 256).indexes
        assert loaded.offsets.entries()[: len(expected.offsets)] == expected.offsets.entries()
        assert loaded.times.entries() == expected.times.entries()
        assert loaded.max_timestamp_ms == expected.max_timestamp_ms
        assert loaded.offset_of_max_timestamp == expected.offset_of_max_timestamp
        assert loaded.first_timestamp_ms == expected.first_timestamp_ms
        assert loaded.end_offset == expected.end_offset


def test_entries_are_packed_and_read_back() -> None:
    offsets, times = OffsetIndex(50), TimeIndex(50)
    for number in range(1, 4):
        offsets.append(50 + number * 70_000, number << 24)
        times.maybe_append(number << 40, 50 + number * 70_000)
    assert offsets.encode().hex() == "0001117001000000000222e00200000000033450" + "03000000"
    assert times.encode().hex() == (
        "000001000000000000011170000002000000000000022 2e0000003000000000000033450".replace(" ", "")
    )
    assert OffsetIndex.decode(offsets.encode(), 50, 1 << 30).entries() == offsets.entries()
    assert TimeIndex.decode(times.encode(), 50).entries() == times.entries()
    assert offsets.encode(2) == offsets.encode()[16:]
    assert times.encode(2) == times.encode()[24:]
    assert OffsetIndex.decode(b"", 50, 0).last_entry == (50, 0)
    assert TimeIndex(50).last_entry == (-1, 50)
    assert [offsets.lookup(50 + 70_000 + n) for n in (-1, 0, 1)] == [0, 1 << 24, 1 << 24]
    assert [times.lookup((1 << 40) + n) for n in (-1, 0)] == [(-1, 50), (1 << 40, 70_050)]


@pytest.mark.parametrize(
    ("content", "segment_bytes"),
    [
        ("00000001", 100),
        ("0000000500000010" + "0000000500000020", 100),
        ("0000000500000020" + "0000000600000020", 100),
        ("ffffffff00000020", 100),
        ("00000005ffffffff", 100),
        ("0000000500000020", 32),
        ("0000000500000020" + "0000000000000000" + "0000000700000040", 100),
    ],
)
def test_a_damaged_offset_index_is_refused(content: str, segment_bytes: int) -> None:
    with pytest.raises(IndexDamageError):
        OffsetIndex.decode(bytes.fromhex(content), 50, segment_bytes)


@pytest.mark.parametrize(
    "content",
    [
        "00000001",
        "0000000000000005" + "00000001" + "0000000000000005" + "00000002",
        "0000000000000005" + "00000002" + "0000000000000006" + "00000001",
        "ffffffffffffffff" + "00000002",
        "0000000000000005" + "ffffffff",
    ],
)
def test_a_damaged_time_index_is_refused(content: str) -> None:
    with pytest.raises(IndexDamageError):
        TimeIndex.decode(bytes.fromhex(content), 50)


# ---- a segment and its files -------------------------------------------------------------------

BASE, COUNT = 100, 40
CONFIG = LogConfig(
    index_interval_bytes=150, verify_from_start=False, contiguous=False, grows_index_files=True
)


def timed(offset: int) -> bytes:
    """Three records; the timestamps rise by 10 ms a batch, but for one that is ahead."""
    return encode_batch(
        [b"a", b"b", b"c"], offset, 1, 1_000 + 10 * offset + 10_000 * (offset == 130)
    )


def written_segment() -> tuple[MemoryVfs, str]:
    vfs, name = MemoryVfs(), f"/d/{BASE:020d}"
    put(vfs, f"{name}.log", b"".join(timed(BASE + 3 * number) for number in range(COUNT)))
    Segment(vfs, "/d", BASE, 150).write_indexes()
    return vfs, name


def entries(indexes: SegmentIndexes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return indexes.offsets.entries(), indexes.times.entries()


OTHER_TIME = (1_301).to_bytes(8, "big") + (32).to_bytes(4, "big")
LATER = (32).to_bytes(4, "big") + (999).to_bytes(4, "big")
DAMAGE = {
    "the time index is missing": (".timeindex", lambda _: None),
    "the time index is empty": (".timeindex", lambda _: b""),
    "the time index is cut": (".timeindex", lambda content: content[:-1]),
    "the time index has another timestamp": (".timeindex", lambda _: OTHER_TIME),
    "the time index is beyond the segment": (
        ".timeindex",
        lambda content: content + (1 << 50).to_bytes(8, "big") + (5_000).to_bytes(4, "big"),
    ),
    "the offset index is missing": (".index", lambda _: None),
    "the offset index is empty": (".index", lambda _: b""),
    "the offset index points into a batch": (".index", lambda _: LATER),
    "the offset index points too far": (
        ".index",
        lambda content: (4).to_bytes(4, "big") + content[-4:],
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_missing_or_wrong_index_is_rebuilt(case: str) -> None:
    vfs, name = written_segment()
    whole = entries(Segment(vfs, "/d", BASE, 150).indexes)
    assert len(whole[0]) > 10
    suffix, change = DAMAGE[case]
    content = change(vfs.read(name + suffix))
    if content is None:
        vfs.unlink(name + suffix)
    else:
        put(vfs, name + suffix, content)
    segment = Segment(vfs, "/d", BASE, 150)
    assert entries(segment.indexes) == whole
    assert segment.indexes.max_timestamp_ms == 1_000 + 1_300 + 10_000
    assert segment.indexes.offset_of_max_timestamp == 132
    assert segment.indexes.first_timestamp_ms == 2_000


def test_a_loaded_index_takes_up_what_follows_its_last_entry() -> None:
    """The batch with the largest timestamp is before it."""
    vfs, name = written_segment()
    whole = Segment(vfs, "/d", BASE, 150).indexes
    put(vfs, f"{name}.index", vfs.read(f"{name}.index")[:-24])
    put(vfs, f"{name}.timeindex", vfs.read(f"{name}.timeindex"))
    indexes = Segment(vfs, "/d", BASE, 150).indexes
    assert entries(indexes) == entries(whole)
    assert (indexes.max_timestamp_ms, indexes.offset_of_max_timestamp) == (12_300, 132)
    assert indexes.first_timestamp_ms == 2_000
    assert indexes.end_offset == BASE + 3 * COUNT


def test_an_index_with_one_entry_for_an_append_of_many_batches_is_loaded() -> None:
    """As Kafka wrote it before 4.0: the last offset of the append, the position of its start."""
    vfs, name = written_segment()
    size = len(timed(0))
    old = OffsetIndex(BASE)
    old.append(BASE + 3 * 20 + 2, 3 * size)
    put(vfs, f"{name}.index", old.encode())
    indexes = Segment(vfs, "/d", BASE, 150).indexes
    (first, second, *_) = indexes.offsets.entries()
    assert first == (BASE + 62, 3 * size)
    assert second == (BASE + 3 * 22 + 2, 22 * size)


def test_an_index_that_skips_batches_is_rebuilt() -> None:
    """Its last entry is true, the one before names a batch behind its offset."""
    vfs, name = written_segment()
    content = bytearray(vfs.read(f"{name}.index"))
    content[-12:-8] = content[-4:]
    content[-4:] = (int.from_bytes(content[-4:], "big") + len(timed(0))).to_bytes(4, "big")
    content[-8:-4] = (int.from_bytes(content[-8:-4], "big") + 3).to_bytes(4, "big")
    sound = Segment(vfs, "/d", BASE, 150)
    (offset, position), (_, later) = sound.indexes.offsets.entries()[-2:]
    put(vfs, f"{name}.index", bytes(content))
    segment = Segment(vfs, "/d", BASE, 150)
    assert segment.indexes.offsets.lookup(offset) == later
    assert segment.find(offset) == position


def test_index_files_grow_with_the_segment_and_are_taken_up_after_a_crash() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log, name = Log.open(vfs, "/d", CONFIG), f"/d/{0:020d}"
    sizes = set()
    for offset in range(300):
        log.append(batch(offset, 1), offset)
        if vfs.exists(f"{name}.index"):
            sizes.add(vfs.size(f"{name}.index"))
    whole = log._active.indexes
    assert len(whole.offsets) > 2 * 64
    assert sizes == {0, 8 * 64, 8 * 128}
    assert vfs.size(f"{name}.timeindex") == 12 * min(128, len(whole.times))
    loaded = Segment(vfs, "/d", 0, 150)
    assert entries(loaded.indexes) == entries(whole)
    assert loaded.indexes.end_offset == 300
    log.close()
    assert vfs.read(f"{name}.index") == whole.offsets.encode()
    assert vfs.read(f"{name}.timeindex") == whole.times.encode()


def test_index_files_exist_with_the_segment() -> None:
    """Kafka logs an error where one is missing below the recovery point."""
    vfs = MemoryVfs()
    vfs.make_directory("/d")

    def names() -> list[str]:
        return [name for name in vfs.list("/d") if name.endswith("index")]

    both = [f"{0:020d}.index", f"{0:020d}.timeindex"]
    log = Log.open(vfs, "/d", CONFIG)
    assert names() == both
    log.append(batch(0, 1), 0)
    log.append(batch(1, 1), 1)
    log.truncate_to(1)
    assert names() == both
    log.flush()
    log.close_files()
    for name in both:  # a folder of before
        vfs.unlink(f"/d/{name}")
    log = Log.open(vfs, "/d", CONFIG)
    assert (names(), log.end_offset) == (both, 1)
    log.truncate_fully_and_start_at(7)
    assert names() == [f"{7:020d}.index", f"{7:020d}.timeindex"]


def test_index_files_of_other_logs_come_with_the_next_segment() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    Log.open(vfs, "/d", LogConfig())
    assert vfs.list("/d") == [f"{0:020d}.log"]


def test_a_full_disk_has_no_index_files() -> None:
    class FullDisk(MemoryVfs):
        def open(self, path: str, *, create: bool = False) -> VfsFile:
            if create and path.endswith("index"):
                raise OutOfSpaceError(path)
            return super().open(path, create=create)

    vfs = FullDisk()
    vfs.make_directory("/d")
    log = Log.open(vfs, "/d", CONFIG)
    log.append(batch(0, 1), 0)
    assert (log.end_offset, vfs.list("/d")) == (1, [f"{0:020d}.log"])


def test_index_files_are_synced_with_the_segment_that_rolled() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    config = LogConfig(
        segment_bytes=1000, index_interval_bytes=150, contiguous=False, grows_index_files=True
    )
    log = Log.open(vfs, "/d", config)
    for offset in range(30):
        log.append(batch(offset, 1), offset)
    log.flush()
    old = [f"{segment.base_offset:020d}" for segment in log._segments[:-1]]
    assert len(old) > 1
    durable = vfs.crash()
    for path in (f"/d/{name}{suffix}" for name in old for suffix in (".index", ".timeindex")):
        assert durable.read(path) == vfs.read(path) != b""


def test_index_files_of_a_full_disk_are_dropped_and_written_later() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log, name = Log.open(vfs, "/d", CONFIG), f"/d/{0:020d}"
    offset = 0
    while len(log._active.indexes.offsets) < 127 or offset % 2:
        log.append(batch(offset, 1), offset)
        offset += 1
    assert vfs.exists(f"{name}.index")
    vfs.bytes_max = vfs.used_bytes() + 3 * len(batch(0, 1)) + 20
    while len(log._active.indexes.offsets) < 128:
        log.append(batch(offset, 1), offset)
        offset += 1
    assert not vfs.exists(f"{name}.index")
    assert not vfs.exists(f"{name}.timeindex")
    vfs.bytes_max = None
    log.append(batch(offset, 1), offset)
    assert vfs.read(f"{name}.index") == log._active.indexes.offsets.encode()
    assert vfs.read(f"{name}.timeindex") == log._active.indexes.times.encode()


def test_index_files_that_are_whole_stay_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log = Log.open(vfs, "/d", CONFIG)
    log.close()
    assert vfs.read(f"/d/{0:020d}.index") == vfs.read(f"/d/{0:020d}.timeindex") == b""
    log = Log.open(vfs, "/d", CONFIG)
    for offset in range(9):
        log.append(batch(offset, 1), offset)
    log.close()
    again = Log.open(vfs, "/d", CONFIG)
    written: list[str] = []
    monkeypatch.setattr(Segment, "_write_tail", lambda _self, path, *_: written.append(path))
    again.close()
    again.close()
    assert written == []


def test_preallocated_index_files_are_cut_when_the_log_closes() -> None:
    vfs, name = written_segment()
    whole = vfs.read(f"{name}.index"), vfs.read(f"{name}.timeindex")
    put(vfs, f"{name}.index", whole[0] + bytes(80))
    put(vfs, f"{name}.timeindex", whole[1] + bytes(120))
    segment = Segment(vfs, "/d", BASE, 150)
    segment.write_indexes()
    assert (vfs.read(f"{name}.index"), vfs.read(f"{name}.timeindex")) == whole


@pytest.mark.parametrize("base_offset", [BASE + (1 << 40), BASE + 1])
def test_a_batch_whose_offset_cannot_follow_is_damage(base_offset: int) -> None:
    """Base offsets lie before what the checksum covers."""
    vfs, name = written_segment()
    position = 30 * len(timed(0))
    vfs.damage(f"{name}.log", position, base_offset.to_bytes(8, "big"))
    vfs.unlink(f"{name}.index")
    with pytest.raises(CorruptLogError, match=r"follow|too far above") as error:
        Segment(vfs, "/d", BASE, 150).find(BASE + 95)
    assert error.value.position == position
    log = Log.open(vfs, "/d", CONFIG)
    (cut,) = log.recovery_report
    assert isinstance(cut, TailCut)
    assert (cut.position, log.end_offset) == (position, BASE + 90)


def test_a_damaged_offset_behind_the_last_entry_of_an_index_is_damage() -> None:
    vfs, name = written_segment()
    position = (COUNT - 1) * len(timed(0))
    vfs.damage(f"{name}.log", position, (1 << 40).to_bytes(8, "big"))
    assert OffsetIndex.decode(vfs.read(f"{name}.index"), BASE, 1 << 30).last_entry[1] < position
    with pytest.raises(CorruptLogError, match="too far above") as error:
        _ = Segment(vfs, "/d", BASE, 150).indexes
    assert error.value.position == position
