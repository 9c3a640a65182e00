"""One change of a sound log each, for checks that no golden case and no random one meets.

The log: `orders-0` with batches 0..9, 10..19 (an aborted transaction), its marker at 20, then a
second segment from 21 on in the next epoch. What is found is compared exactly: file, position,
check.
"""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import crc32c
import pytest

from tests.pipeline.generated_logs import TRANSACTION_ENTRY, Placed, with_epoch, write_replica
from tests.pipeline.segments import TIME_MS, batch, marker
from tests.pipeline.test_audit import overwrite
from tests.pipeline.test_audit_golden import audited

VALUES = [b"v" * 20] * 10
FIRST, SECOND = f"{0:020d}", f"{21:020d}"
Change = Callable[[Path], set[tuple[str, int, str]]]


def data(base: int, epoch: int, sequence: int, attributes: int = 0) -> Placed:
    content = batch(
        base, VALUES, epoch=epoch, producer=(7, 0, sequence), attributes=attributes,
        time_ms=TIME_MS + base,
    )  # fmt: skip
    return Placed(content, base, base + 9, epoch)


def abort(base: int, epoch: int, first: int) -> Placed:
    return Placed(with_epoch(marker(base, 7, commit=False), epoch), base, base, epoch, first, 7)


def write_log(folder: Path) -> Path:
    batches = [data(0, 1, 0), data(10, 1, 10, 0x10), abort(20, 1, 10), data(21, 2, 20)]
    rng = random.Random(0)
    rng.sample = lambda population, k: [3]  # type: ignore[method-assign]  # where it is rolled
    write_replica(folder, batches, rng, segments=2, committed=31)
    return folder / "orders-0"


def size_of(home: Path, name: str) -> int:
    return (home / name).stat().st_size


def sequence_gap(home: Path) -> set[tuple[str, int, str]]:
    """A producer that skips numbers: info, for retention may have taken what is between."""
    content = batch(21, VALUES, epoch=2, producer=(7, 0, 20), time_ms=TIME_MS + 21)
    again = batch(31, VALUES, epoch=2, producer=(7, 0, 99), time_ms=TIME_MS + 31)
    (home / f"{SECOND}.log").write_bytes(content + again)
    return {(f"{SECOND}.log", len(content), "producer_seq_gap")}


def control_record(home: Path) -> set[tuple[str, int, str]]:
    """A control batch whose key is too short to say what it is."""
    body = batch(31, [b"\0\0"], keys=[b"\0"], attributes=0x20, producer=(7, 0, -1), epoch=2)
    path = home / f"{SECOND}.log"
    at = size_of(home, path.name)
    path.write_bytes(path.read_bytes() + body)
    return {(path.name, at, "bad_control_record")}


def flushed_end(home: Path) -> set[tuple[str, int, str]]:
    (home / "flushed-end-offset").write_bytes(b"nonsense")
    return {("flushed-end-offset", 0, "flushed_end_garbled")}


def preallocated(home: Path) -> set[tuple[str, int, str]]:
    """Zeros after the entries of a segment that was rolled."""
    path = home / f"{FIRST}.index"
    used = size_of(home, path.name)
    path.write_bytes(path.read_bytes() + bytes(80))
    return {(path.name, used, "index_preallocated")}


def lone_index(home: Path) -> set[tuple[str, int, str]]:
    (home / f"{5:020d}.timeindex").write_bytes(b"")
    return {(f"{5:020d}.timeindex", 0, "index_without_segment")}


def overlap(home: Path) -> set[tuple[str, int, str]]:
    """The second segment's name says that it begins inside the first."""
    for suffix in ("log", "index", "timeindex"):
        (home / f"{SECOND}.{suffix}").rename(home / f"{15:020d}.{suffix}")
    name = f"{15:020d}.log"
    return {(name, 0, "segment_overlap"), (name, 0, "offset_gap")}


def transaction_version(home: Path) -> set[tuple[str, int, str]]:
    overwrite(home / f"{FIRST}.txnindex", 0, b"\0\5")
    return {(f"{FIRST}.txnindex", 0, "txnindex_version")}


def transaction_range(home: Path) -> set[tuple[str, int, str]]:
    """It begins after it ends."""
    overwrite(home / f"{FIRST}.txnindex", 0, TRANSACTION_ENTRY.pack(0, 7, 30, 20, 21))
    return {(f"{FIRST}.txnindex", 0, "txnindex_range")}


def snapshot_name(home: Path) -> Path:
    (path,) = home.glob("*.snapshot")
    return path


def snapshot_version(home: Path) -> set[tuple[str, int, str]]:
    overwrite(snapshot_name(home), 0, b"\0\11")
    return {(snapshot_name(home).name, 0, "producer_snapshot_version")}


def snapshot_size(home: Path) -> set[tuple[str, int, str]]:
    """More entries are promised than there are."""
    body = struct.pack(">i", 2) + bytes(46)
    snapshot_name(home).write_bytes(struct.pack(">hI", 1, crc32c.crc32c(body)) + body)
    return {(snapshot_name(home).name, 6, "producer_snapshot_size")}


def snapshot_cut(home: Path) -> set[tuple[str, int, str]]:
    snapshot_name(home).write_bytes(b"\0\1\0")
    return {(snapshot_name(home).name, 3, "producer_snapshot_size")}


def epochs(home: Path, *lines: tuple[int, int]) -> None:
    text = "".join(f"{epoch} {start}\n" for epoch, start in lines)
    (home / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{text}")


def epochs_decrease(home: Path) -> set[tuple[str, int, str]]:
    epochs(home, (1, 0), (2, 21), (2, 25))
    return {
        ("leader-epoch-checkpoint", len("0\n3\n1 0\n2 21\n"), "epoch_checkpoint_not_increasing")
    }


def epochs_beyond(home: Path) -> set[tuple[str, int, str]]:
    epochs(home, (1, 0), (2, 21), (3, 99))
    return {("leader-epoch-checkpoint", len("0\n3\n1 0\n2 21\n"), "epoch_checkpoint_beyond_end")}


def epochs_before(home: Path) -> set[tuple[str, int, str]]:
    """The first segment is gone, the checkpoint still names its epoch."""
    for path in home.glob(f"{FIRST}.*"):
        path.unlink()
    return {("leader-epoch-checkpoint", len("0\n2\n"), "epoch_checkpoint_before_log")}


def topic_id(home: Path) -> set[tuple[str, int, str]]:
    (home / "partition.metadata").write_text("version: 0\ntopic_id: ?")
    return {("partition.metadata", 0, "partition_metadata_garbled")}


def time_beyond(home: Path) -> set[tuple[str, int, str]]:
    """An entry for an offset that the segment does not reach."""
    path = home / f"{FIRST}.timeindex"
    used = size_of(home, path.name)
    path.write_bytes(path.read_bytes() + struct.pack(">qi", TIME_MS + 10**6, 40))
    return {(path.name, used, "timeindex_beyond_end")}


CHANGES: list[Change] = [
    sequence_gap, control_record, flushed_end, preallocated, lone_index, overlap,
    transaction_version, transaction_range, snapshot_version, snapshot_size, snapshot_cut,
    epochs_decrease, epochs_beyond, epochs_before, topic_id, time_beyond,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_each_check_finds_its_damage_and_nothing_else(change: Change, tmp_path: Path) -> None:
    home = write_log(tmp_path)
    assert [one.line() for one in audited(tmp_path)] == []
    expected = change(home)
    found = {(Path(one.path).name, one.position, one.check) for one in audited(tmp_path)}
    assert found == expected
