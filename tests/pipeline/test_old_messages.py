"""Message sets of magic 0 and 1 as rows: what Kafka's reader sees in logs of Kafka's builder."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import plan_read, read_splits, read_table
from pipeline.core.records.batches import scan
from tests.pipeline.segments import write_partition

LEGACY = Path(__file__).resolve().parent.parent / "golden" / "storage" / "legacy-log"
EXPECTED = [json.loads(line) for line in (LEGACY / "expected.jsonl").read_text().splitlines()]
BATCHES = {file: list(batches) for file, batches in groupby(EXPECTED, key=lambda b: b["file"])}
TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
MIXED = "mixed-v0-v1-v2-0"
SEGMENT = "00000000000000000000.log"


def read(path: Path, **options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(
        parse_options({"path": str(path)} | options)
    ).to_pylist()
    return rows


def offsets(path: Path, **options: str) -> list[int]:
    return [row["offset"] for row in read(path, columns="offset", **options)]


def milliseconds(time: Any) -> int:
    return -1 if time is None else round(time.timestamp() * 1000)


def positions(file: str) -> list[int]:
    found = [0]
    for batch in BATCHES[file]:
        found.append(found[-1] + batch["bytes"])
    return found


@pytest.mark.parametrize("validate", ["crc", "full"])
@pytest.mark.parametrize("file", BATCHES)
def test_records_are_those_that_kafka_reads(file: str, validate: str) -> None:
    rows = read(LEGACY / file, validate=validate)
    expected = [
        (
            record["offset"], record["timestamp"], record["key"], record["value"],
            TYPES[batch["timestamp_type"]], batch["codec"], batch["base_offset"], at,
            batch["bytes"],
        )
        for batch, at in zip(BATCHES[file], positions(file), strict=False)
        for record in batch["records"]
    ]  # fmt: skip
    assert [
        (
            row["offset"], milliseconds(row["timestamp"]), row["key"] and row["key"].hex(),
            None if row["value"] is None else row["value"].hex(), row["timestampType"],
            row["codec"], row["batchBaseOffset"], row["batchPosition"], row["batchSize"],
        )
        for row in rows
    ] == expected  # fmt: skip
    assert {(row["leaderEpoch"], row["producerId"], row["sequence"]) for row in rows} == {
        (-1, -1, -1)
    }


@pytest.mark.parametrize("file", BATCHES)
def test_batches_are_those_that_kafka_reads(file: str) -> None:
    rows = read(LEGACY / file, decode="metadata")
    expected = [
        (
            batch["base_offset"], batch["last_offset"], batch["magic"], batch["codec"],
            TYPES[batch["timestamp_type"]], batch["max_timestamp"], batch["bytes"],
            len(batch["records"]), at, True,
        )
        for batch, at in zip(BATCHES[file], positions(file), strict=False)
    ]  # fmt: skip
    assert [
        (
            row["baseOffset"], row["lastOffset"], row["magic"], row["codec"], row["timestampType"],
            milliseconds(row["maxTimestamp"]), row["size"], row["count"], row["position"],
            row["crcOk"],
        )
        for row in rows
    ] == expected  # fmt: skip


def test_ranges_begin_and_end_inside_wrappers() -> None:
    for file in ("v0-gzip-0", "v1-gzip-0", MIXED):
        everything = [record["offset"] for batch in BATCHES[file] for record in batch["records"]]
        assert offsets(LEGACY / file) == everything
        topic = file.removesuffix("-0")
        for first, last in ((1, 5), (everything[-3], everything[-1])):
            found = offsets(
                LEGACY / file,
                startingOffsets=json.dumps({topic: {"0": first}}),
                endingOffsets=json.dumps({topic: {"0": last}}),
            )
            assert found == [offset for offset in everything if first <= offset < last]
    times = [record["timestamp"] for batch in BATCHES["v1-gzip-0"] for record in batch["records"]]
    middle = times[40]
    found = offsets(LEGACY / "v1-gzip-0", startingTimestamp=str(middle))
    assert found[0] == next(at for at, time in enumerate(times) if time >= middle)


def test_splits_cut_between_messages(tmp_path: Path) -> None:
    whole = b"".join((LEGACY / file / SEGMENT).read_bytes() for file in ("v0-none-0", "v1-gzip-0"))
    write_partition(tmp_path, [whole])
    options = parse_options({"path": str(tmp_path), "maxSplitBytes": "512", "openCostBytes": "1"})
    plan = plan_read(options)
    assert len(plan.packs) > 4
    count = sum(rows.num_rows for pack in plan.packs for rows in read_splits(pack, options))
    assert count == 21 + 78


@pytest.mark.parametrize("validate", ["crc", "none"])
def test_damage_is_a_row_and_what_follows_is_read(tmp_path: Path, validate: str) -> None:
    content = bytearray((LEGACY / "v1-gzip-0" / SEGMENT).read_bytes())
    first, second, third = positions("v1-gzip-0")[:3]
    content[second + 60] ^= 1  # in what is compressed
    write_partition(tmp_path, [bytes(content)])
    rows = read(tmp_path, mode="permissive", validate=validate)
    (bad,) = [row for row in rows if row["_corrupt_batch"]]
    reason = "bad_crc" if validate == "crc" else "bad_records"
    assert bad["_corrupt_batch"]["reason"] == reason
    assert (bad["_corrupt_batch"]["position"], bad["_corrupt_batch"]["length"]) == (
        second,
        third - second,
    )
    lost = [record["offset"] for record in BATCHES["v1-gzip-0"][1]["records"]]
    kept = [row["offset"] for row in rows if row["offset"] is not None]
    assert kept == [offset for offset in range(78) if offset not in lost]
    assert first == 0


def test_a_message_that_is_cut_is_a_fault_but_at_the_end() -> None:
    content = (LEGACY / "v0-none-0" / SEGMENT).read_bytes()
    ends = positions("v0-none-0")[1:]
    for size in range(len(content)):
        tables = list(scan(content[:size], 0, size, frozen_size=size, reads_old_formats=True))
        assert sum(map(len, tables)) == len([end for end in ends if end <= size])
        assert all(table.fault is None for table in tables)
    size = len(content) - 1
    *_, last = scan(
        content[:size], 0, size, frozen_size=size, is_last=False, reads_old_formats=True
    )
    assert last.fault is not None
    assert last.fault.position == ends[-2]


def test_windows_smaller_than_a_message() -> None:
    content = (LEGACY / MIXED / SEGMENT).read_bytes()
    size = len(content)
    for window in (17, 61, 100, 1000):
        tables = scan(
            content, 0, size, frozen_size=size, window_bytes=window, reads_old_formats=True
        )
        assert sum(map(len, tables)) == len(BATCHES[MIXED])


def test_without_being_asked_for_they_are_a_fault() -> None:
    content = (LEGACY / "v0-none-0" / SEGMENT).read_bytes()
    (table,) = scan(content, 0, len(content), frozen_size=len(content))
    assert table.fault is not None
    assert table.fault.reason == "old_magic"
    short = content[:8] + b"\0\0\0\x05" + content[12:]  # no message is so short
    (table,) = scan(short, 0, len(short), frozen_size=len(short), reads_old_formats=True)
    assert table.fault is not None
    assert (table.fault.reason, table.fault.position) == ("old_magic", 0)


def test_a_message_of_magic_1_without_room_for_its_time_is_a_fault() -> None:
    for length, is_one in ((21, False), (22, True)):
        content = bytes(8) + length.to_bytes(4, "big") + bytes(4) + b"\1" + bytes(length - 5)
        found = scan(
            content, 0, len(content), frozen_size=len(content), validate="none",
            reads_old_formats=True,
        )  # fmt: skip
        (table,) = found
        assert (len(table), table.fault is None) == (int(is_one), is_one)


def test_the_offset_of_a_wrapper_below_what_is_inside(tmp_path: Path) -> None:
    """In magic 0 what is inside has its own offsets; no checksum covers that of the wrapper."""
    content = bytearray((LEGACY / "v0-gzip-0" / SEGMENT).read_bytes())
    second = positions("v0-gzip-0")[1]
    first = BATCHES["v0-gzip-0"][1]["base_offset"]
    content[second : second + 8] = (first - 1).to_bytes(8, "big")
    write_partition(tmp_path, [bytes(content)])
    rows = read(tmp_path)
    assert [row["offset"] for row in rows] == list(range(78))
    assert rows[first]["batchBaseOffset"] == first - 1
    rows = read(tmp_path, mode="permissive", validate="full")
    (bad,) = [row for row in rows if row["_corrupt_batch"]]
    assert bad["_corrupt_batch"]["position"] == second
