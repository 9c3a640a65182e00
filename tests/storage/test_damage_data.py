"""Damaged partitions of a broker, as real Kafka was started with them: what this package says.

Each case twice: with the recovery points that Kafka recorded (it had stopped cleanly), and with
none. Kafka keeps the damage in the first case, and cuts it in the second (docs/formats/damage.md).
"""

from pathlib import Path

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.checkpoints.epoch_checkpoint import decode_epochs
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.partition_directories import (
    parse_partition_directory,
    scan_partition_directories,
)
from storage.log_dir.partition_metadata import read_partition_metadata
from storage.log_dir.snapshot_files import parse_snapshot_name
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import FileRebuilt, TailCut
from tests.storage import golden
from tests.storage.partition_operations import partition_log
from wire.types import TopicId

ROOT = golden.ROOT / "bad-data"
BASES = (ROOT / "base", golden.ROOT / "data", golden.ROOT.parent / "cli" / "data-log")
CONFIG = LogConfig(contiguous=False, verify_from_start=False)
REMOVED = {
    "java-gzip-0": "00000000000000000000.index",
    "java-snappy-0": "00000000000000000000.timeindex",
    "startoff-0": "partition.metadata",
}
ENDS = {
    "java-gzip-0": 20, "java-snappy-0": 20, "aio-none-0": 15, "idem-0": 80, "txn-0": 85,
    "comp-0": 159, "startoff-0": 48, "java-none-0": 20, "rd-gzip-0": 24,
}  # fmt: skip
"""Nothing of the log is damaged: everything is kept, recorded or not."""
CUT = {"rd-none-0": 16, "rd-snappy-0": 16, "rd-lz4-0": 0, "rd-zstd-0": 16}
"""The log ends here when nothing was recorded."""


def disk(partition: str, *, recorded: bool) -> MemoryVfs:
    vfs = MemoryVfs()
    vfs.make_directory("/log")
    base = next(folder for folder in BASES if (folder / partition).is_dir())
    for folder in (base / partition, ROOT / "files" / partition):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            golden.put(vfs, f"/log/{partition}/{path.name}", path.read_bytes())
    if partition in REMOVED:
        vfs.unlink(f"/log/{partition}/{REMOVED[partition]}")
    if recorded:
        put_from(vfs, ROOT / "base" / "recovery-point-offset-checkpoint")
    return vfs


def put_from(vfs: MemoryVfs, path: Path, name: str | None = None) -> None:
    golden.put(vfs, f"/log/{name or path.name}", path.read_bytes())


def opened(vfs: MemoryVfs, partition: str) -> Log:
    topic, _, number = partition.rpartition("-")
    return partition_log(vfs, "/log", CONFIG, topic, int(number))


@pytest.mark.parametrize("partition", ENDS)
@pytest.mark.parametrize("recorded", [True, False])
def test_an_undamaged_log_is_kept_whole(partition: str, *, recorded: bool) -> None:
    vfs = disk(partition, recorded=recorded)
    log = opened(vfs, partition)
    assert log.end_offset == ENDS[partition]
    expected = {TailCut} if partition == "rd-gzip-0" else set()  # zeros after the last batch
    assert {type(event) for event in log.recovery_report} == expected
    assert log.read(log.log_start_offset, 1)


@pytest.mark.parametrize("partition", CUT)
def test_unrecorded_damage_is_cut_and_reported(partition: str) -> None:
    log = opened(disk(partition, recorded=False), partition)
    assert log.end_offset == CUT[partition]
    assert [type(event) for event in log.recovery_report] == [TailCut]


@pytest.mark.parametrize("partition", CUT)
def test_recorded_damage_is_refused_and_nothing_is_changed(partition: str) -> None:
    vfs = disk(partition, recorded=True)
    path = f"/log/{partition}/00000000000000000000.log"
    before = vfs.read(path)
    with pytest.raises(CorruptLogError, match=path):
        opened(vfs, partition)
    assert vfs.read(path) == before


def test_a_gap_in_offsets_is_what_compaction_leaves() -> None:
    """Base offset of the last batch + 7, outside the CRC: nobody can tell, Kafka neither."""
    log = opened(disk("java-lz4-0", recorded=False), "java-lz4-0")
    assert log.end_offset == 27
    assert log.recovery_report == ()
    strict = LogConfig(contiguous=True)
    vfs = disk("java-lz4-0", recorded=False)
    found = Log.open(vfs, "/log/java-lz4-0", strict)
    assert [type(event) for event in found.recovery_report] == [TailCut]


def test_damage_in_an_older_segment() -> None:
    """Below the recovery point a partition is not scanned: the reader's CRC finds it, as Kafka's.

    With nothing recorded all is scanned: cut there, the later segments are named.
    """
    log = opened(disk("java-perf-0", recorded=True), "java-perf-0")
    assert log.end_offset == 300
    log = opened(disk("java-perf-0", recorded=False), "java-perf-0")
    assert log.end_offset < 300
    assert len(log.recovery_report) == 2
    checked = LogConfig(contiguous=False, verify_from_start=True)
    recorded = disk("java-perf-0", recorded=True)
    with pytest.raises(CorruptLogError, match="CRC"):
        partition_log(recorded, "/log", checked, "java-perf", 0)


def test_partition_metadata_removed_or_of_another_topic() -> None:
    vfs = disk("startoff-0", recorded=True)
    (found,) = scan_partition_directories(vfs, "/log")
    assert found.topic_id is None  # Kafka: a stray; here it is kept, its topic is not known
    vfs = disk("append-time-0", recorded=True)
    (found,) = scan_partition_directories(vfs, "/log")
    good = TopicId(bytes(16))
    assert found.topic_id not in (None, good)
    assert read_partition_metadata(vfs, "/log/append-time-0") == found.topic_id


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("recovery-point-garbled", "Expected .* entries in checkpoint file"),
        ("recovery-point-version-9", "Unrecognized version of the checkpoint file: 9"),
    ],
)
def test_a_garbled_recovery_point_is_refused(case: str, words: str) -> None:
    vfs = disk("java-none-0", recorded=False)
    put_from(vfs, ROOT / "files" / case / "recovery-point-offset-checkpoint")
    with pytest.raises(CorruptFileError, match=words):
        OffsetCheckpoint(vfs, "/log")


def test_files_that_are_not_read() -> None:
    """The high watermarks of partitions and the mark of a clean stop mean nothing to this node."""
    vfs = disk("java-none-0", recorded=True)
    put_from(vfs, ROOT / "files" / "replication-offset-garbled" / "replication-offset-checkpoint")
    for case in ("cleanshutdown-garbled", "cleanshutdown-empty"):
        put_from(vfs, ROOT / "files" / case / ".kafka_cleanshutdown")
        assert opened(vfs, "java-none-0").end_offset == 20


def test_a_garbled_epoch_checkpoint_is_rebuilt() -> None:
    folder = ROOT / "files" / "epoch-checkpoint-garbled" / "epochs-0"
    for recorded in (True, False):
        vfs = disk("epochs-0", recorded=recorded)
        expected = decode_epochs(vfs.read("/log/epochs-0/leader-epoch-checkpoint"), "").entries
        put_from(vfs, folder / "leader-epoch-checkpoint", "epochs-0/leader-epoch-checkpoint")
        log = opened(vfs, "epochs-0")
        assert [type(event) for event in log.recovery_report] == [FileRebuilt]
        assert [entry for entry in expected if entry.start_offset < 12] == list(log.epoch_entries)
        vfs = disk("epochs-0", recorded=recorded)
        vfs.unlink("/log/epochs-0/leader-epoch-checkpoint")
        assert opened(vfs, "epochs-0").epoch_entries == log.epoch_entries


@pytest.mark.parametrize("number", [2**63, 10**20 - 1])
def test_a_segment_whose_name_is_no_offset_is_refused(number: int) -> None:
    """Kafka does not start either: its Long.parseLong refuses."""
    vfs = disk("java-none-0", recorded=True)
    golden.put(vfs, f"/log/java-none-0/{number:020d}.log", b"")
    with pytest.raises(CorruptLogError, match=f"{number}.log.*more than the last offset"):
        opened(vfs, "java-none-0")


def test_partitions_that_no_int32_holds_are_no_directories_of_partitions() -> None:
    found = parse_partition_directory(f"/log/t-{2**31 - 1}")
    assert found is not None
    assert found.partition == 2**31 - 1
    for name in (f"t-{2**31}", f"t-{2**31}.{7:032x}-delete", "t-\u0661", "t-" + "9" * 5000):
        assert parse_partition_directory(f"/log/{name}") is None
    vfs = disk("java-none-0", recorded=True)
    vfs.make_directory(f"/log/t-{2**31}")
    with pytest.raises(CorruptFileError, match="is not in the form of topic-partition"):
        scan_partition_directories(vfs, "/log")


def test_snapshot_names_that_no_int64_or_int32_holds_are_none() -> None:
    assert parse_snapshot_name(f"{2**63 - 1:020d}-{2**31 - 1:010d}.checkpoint") is not None
    for name in (f"{2**63:020d}-{1:010d}", f"{1:020d}-{2**31:010d}", "\u0661" * 20 + f"-{1:010d}"):
        assert parse_snapshot_name(f"{name}.checkpoint") is None
