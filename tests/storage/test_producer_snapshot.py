"""Producer snapshots: files of real Kafka both ways, replayed logs against them, damage."""

import struct
from pathlib import Path

import crc32c
import pytest

from storage.errors import CorruptFileError
from storage.producers.producer_replay import replay
from storage.producers.producer_snapshot import (
    ProducerSnapshotEntry,
    decode_producer_snapshot,
    encode_producer_snapshot,
)
from storage.producers.producer_state import ProducerStates
from storage.segments.transaction_index import decode_transaction_index
from wire.batches.batch import BatchHeader, RecordView, encode_records, iterate_batches
from wire.types import Offset

GOLDEN = Path("tests/golden/cli/data-log")
FILES = sorted(GOLDEN.glob("*/*.snapshot"))
DAY_MS = 86_400_000
PUBLISHED = bytes.fromhex(
    "00014aaf6926000000010000000000000fa0000300000008000000000000000b00000001"
    "00000000000003edffffffffffffffffffffffff"
)
EMPTY = bytes.fromhex("000148674bc700000000")


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def by_id(entries: list[ProducerSnapshotEntry]) -> list[ProducerSnapshotEntry]:
    return sorted(entries, key=lambda entry: entry.producer_id)


def test_the_golden_files_are_there() -> None:
    assert len(FILES) >= 20


def test_the_published_examples() -> None:
    entry = ProducerSnapshotEntry(4000, 3, 8, 11, 1, 1005, -1, -1)
    assert decode_producer_snapshot(PUBLISHED, "p") == [entry]
    assert encode_producer_snapshot([entry]) == PUBLISHED
    assert encode_producer_snapshot([]) == EMPTY
    assert decode_producer_snapshot(EMPTY, "p") == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_of_kafka_is_encoded_again_as_it_was(path: Path) -> None:
    content = path.read_bytes()
    assert encode_producer_snapshot(decode_producer_snapshot(content, str(path))) == content


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_replayed_log_has_the_producers_of_kafkas_snapshot(path: Path) -> None:
    """Kafka writes them in the order of a hash map."""
    states = ProducerStates(path.parent.name, DAY_MS)
    end_offset = int(path.stem)
    for batch in batches_of(path.parent):
        if batch.header.end_offset <= end_offset:
            replay(states, batch)
    expected = decode_producer_snapshot(path.read_bytes(), str(path))
    assert by_id(states.snapshot_entries()) == by_id(expected)
    assert states.end_offset == end_offset


def test_the_first_producer_id_is_0() -> None:
    header = BatchHeader(
        base_offset=Offset(5),
        leader_epoch=0,
        attributes=0,
        last_offset_delta=0,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        records_count=1,
    )
    states = ProducerStates("t-0", DAY_MS)
    data = encode_records(header, [RecordView(Offset(5), 0, None, b"v")])
    replay(states, next(iterate_batches(data)))
    assert [entry.producer_id for entry in states.snapshot_entries()] == [0]


def batches_of(folder: Path):
    for log in sorted(folder.glob("*.log")):
        yield from iterate_batches(log.read_bytes())


def test_replay_gives_the_aborted_transactions_of_kafkas_index() -> None:
    folder = GOLDEN / "txn-0"
    states, aborted = ProducerStates("txn-0", DAY_MS), []
    for batch in batches_of(folder):
        ended = replay(states, batch)
        if ended is not None and ended[0].is_aborted:
            completed, stable = ended
            aborted.append(
                (completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )
    expected = [
        (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for index in sorted(folder.glob("*.txnindex"))
        for entry in decode_transaction_index(index.read_bytes())
    ]
    assert aborted == expected
    assert len(aborted) >= 2


def resealed(content: bytes) -> bytes:
    return content[:2] + struct.pack(">I", crc32c.crc32c(content[6:])) + content[6:]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (PUBLISHED[:9], "producer snapshot of 9 bytes is cut"),
        (b"\0\2" + PUBLISHED[2:], "producer snapshot version 2, only 1 is known"),
        (PUBLISHED[:-1] + b"\0", "producer snapshot is corrupt: stored CRC 1253009702, computed"),
        (resealed(PUBLISHED[:-1]), "1 producers do not fill 55 bytes"),
        (resealed(PUBLISHED + b"\0"), "1 producers do not fill 57 bytes"),
    ],
)
def test_damage_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptFileError) as raised:
        decode_producer_snapshot(content, "folder/17.snapshot")
    assert str(raised.value).startswith(f"folder/17.snapshot: {reason}")
