"""The single-process reader: modes, ranges, transactions, splits, listings, bad input."""

import json
import shutil
from pathlib import Path

import crc32c
import pytest

from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.discovery import discover
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import plan_read, read_splits, read_table
from tests.pipeline.segments import GOLDEN, TIME_MS, batch, marker, write_partition
from wire.batches.compression import Codec


def read(path: Path, **options: str) -> list[dict]:
    return read_table(parse_options({"path": str(path)} | options)).to_pylist()


def offsets(path: Path, **options: str) -> list[int]:
    return [row["offset"] for row in read(path, columns="offset", **options)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two segments of 30 records each in batches of ten; the folder."""
    write_partition(tmp_path, [batch(10 * i, [b"v"] * 10, time_ms=TIME_MS + 1000 * i)
                               for i in range(3)])  # fmt: skip
    write_partition(tmp_path, [batch(10 * i, [b"v"] * 10, time_ms=TIME_MS + 1000 * i)
                               for i in range(3, 6)], base_offset=30)  # fmt: skip
    return tmp_path


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Three batches, the middle one with a wrong checksum."""
    parts = [bytearray(batch(10 * i, [b"v"] * 10)) for i in range(3)]
    parts[1][80] ^= 1
    write_partition(tmp_path, map(bytes, parts))
    return tmp_path


def test_failfast_names_file_position_and_reason(damaged: Path) -> None:
    with pytest.raises(CorruptSegmentError) as raised:
        read(damaged)
    size = len(batch(0, [b"v"] * 10))
    assert str(raised.value).startswith(f"{damaged}/orders-0/00000000000000000000.log:{size} ")
    assert "base offset 10" in str(raised.value)
    assert "bad_crc" in str(raised.value)


def test_permissive_gives_a_row_for_the_damage_and_goes_on(damaged: Path) -> None:
    rows = read(damaged, mode="permissive")
    size = len(batch(0, [b"v"] * 10))
    (bad,) = [row for row in rows if row["_corrupt_batch"]]
    assert bad["_corrupt_batch"]["reason"] == "bad_crc"
    assert bad["_corrupt_batch"]["position"] == bad["batchPosition"] == size
    assert bad["_corrupt_batch"]["length"] == size
    assert (bad["topic"], bad["partition"], bad["offset"]) == ("orders", 0, None)
    assert [row["offset"] for row in rows if row is not bad] == [*range(10), *range(20, 30)]


def test_dropmalformed_leaves_it_out_and_writes_it_aside(damaged: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    found = offsets(damaged / "orders-0", mode="dropmalformed", errorsPath=str(errors))
    assert found == [*range(10), *range(20, 30)]
    (file,) = errors.iterdir()
    line = json.loads(file.read_text())
    assert (line["reason"], line["base_offset"], line["topic"]) == ("bad_crc", 10, "orders")


def test_batch_rows_tell_a_bad_checksum(damaged: Path) -> None:
    rows = read(damaged, decode="metadata", mode="permissive")
    assert [row["crcOk"] for row in rows] == [True, False, True]
    assert [row["baseOffset"] for row in rows] == [0, 10, 20]
    assert rows[1]["_corrupt_batch"]["reason"] == "bad_crc"
    unchecked = read(damaged, decode="metadata", validate="header")
    assert [row["crcOk"] for row in unchecked] == [None] * 3


def test_raw_rows_carry_the_bytes(log: Path) -> None:
    rows = read(log, decode="raw", columns="bytes,position")
    segment = (log / "orders-0" / f"{0:020d}.log").read_bytes()
    assert b"".join(row["bytes"] for row in rows[:3]) == segment


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": '{"orders":{"0":25}}'}, range(25, 60)),
        ({"endingOffsets": '{"orders":{"0":31}}'}, range(31)),
        ({"startingOffsets": '{"orders":{"0":30}}', "endingOffsets": '{"orders":{"0":-1}}'},
         range(30, 60)),
        ({"startingOffsets": "latest"}, []),
        ({"startingTimestamp": str(TIME_MS + 2005)}, range(25, 60)),
        ({"endingTimestamp": str(TIME_MS + 2005)}, range(25)),
        ({"startingTimestamp": "0", "startingOffsets": "latest"}, range(60)),
        ({"startingOffsetsByTimestamp": json.dumps({"orders": {"0": TIME_MS + 4000}})},
         range(40, 60)),
        ({"startingTimestamp": str(TIME_MS * 2),
          "startingOffsetsByTimestampStrategy": "latest"}, []),
        ({"subscribe": "orders"}, range(60)),
        ({"assign": '{"orders":[0]}'}, range(60)),
        ({"subscribePattern": "other"}, []),
        ({"subscribePattern": "ord.*"}, range(60)),
    ],
)  # fmt: skip
def test_ranges(log: Path, options: dict[str, str], expected: object) -> None:
    assert offsets(log, **options) == list(expected)


def test_no_record_at_a_starting_time_is_refused(log: Path) -> None:
    with pytest.raises(BadInputError, match="no record at or after"):
        read(log, startingTimestamp=str(TIME_MS * 2))


def test_a_start_below_the_log_is_data_loss(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(50)], base_offset=50)
    start = '{"orders":{"0":7}}'
    with pytest.raises(DataLossError, match="start 7 is below the log's start 50"):
        read(tmp_path, startingOffsets=start)
    assert offsets(tmp_path, startingOffsets=start, failOnDataLoss="false") == [50]


def test_a_gap_between_segments_is_data_loss_unless_cleaned(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0)])
    write_partition(tmp_path, [batch(9)], base_offset=9)
    with pytest.raises(DataLossError, match="ends at 1, the next segment begins at 9"):
        read(tmp_path)
    assert offsets(tmp_path, failOnDataLoss="false") == [0, 9]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 9\n")
    assert offsets(tmp_path) == [0, 9]


def test_committed_readers_see_no_aborted_and_no_open_transaction(tmp_path: Path) -> None:
    inside = {"attributes": 0x10}
    write_partition(
        tmp_path,
        [
            batch(0, producer=(1, 0, 0), **inside),
            batch(1, producer=(2, 0, 0), **inside),
            marker(2, 1, commit=False),
            marker(3, 2, commit=True),
            batch(4),
            batch(5, producer=(1, 0, 1), **inside),
            batch(6),
            marker(7, 2, commit=True),
        ],
    )
    assert offsets(tmp_path) == [0, 1, 4, 5, 6]
    assert offsets(tmp_path, isolation="read_committed") == [1, 4]
    assert offsets(tmp_path, includeControl="true") == list(range(8))


def test_committed_readers_skip_every_batch_of_an_aborted_transaction(tmp_path: Path) -> None:
    inside = {"attributes": 0x10}
    write_partition(
        tmp_path,
        [
            batch(0, [b"a", b"b"], producer=(1, 0, 0), **inside),
            batch(2, producer=(2, 0, 0), **inside),
            batch(3, producer=(1, 0, 2), **inside),
            marker(4, 1, commit=False),
            marker(5, 2, commit=True),
            batch(6, producer=(1, 0, 3), **inside),
            batch(7, producer=(1, 0, 4), **inside),
            marker(8, 1, commit=True),
        ],
    )
    assert offsets(tmp_path, isolation="read_committed") == [2, 6, 7]


@pytest.mark.parametrize("split", [1, 100, 1000, 4000])
@pytest.mark.parametrize("with_index", [True, False])
def test_every_split_set_reads_each_record_once(
    tmp_path: Path, split: int, with_index: bool
) -> None:
    source = GOLDEN / "data-log" / "txn-0"
    shutil.copytree(source, tmp_path / "txn-0")
    if not with_index:
        for path in (tmp_path / "txn-0").glob("*.index"):
            path.write_bytes(b"garbage")
    options = parse_options(
        {"path": str(tmp_path), "maxSplitBytes": str(split), "openCostBytes": "1"}
    )
    plan = plan_read(options)
    found = [
        offset
        for pack in plan.packs
        for rows in read_splits(pack, options)
        for offset in rows["offset"].to_pylist()
    ]
    assert found == offsets(source)
    assert plan.bytes == sum(path.stat().st_size for path in source.glob("*.log"))
    if split == 1000 and with_index:
        assert len(plan.packs) > 5


def test_partitions_by_count_and_by_records(log: Path) -> None:
    few = plan_read(parse_options({"path": str(log)}))
    assert len(few.packs) == 1
    many = plan_read(parse_options({"path": str(log), "minPartitions": "4"}))
    assert len(many.packs) >= 2
    each = plan_read(parse_options({"path": str(log), "maxRecordsPerPartition": "1"}))
    assert len(each.packs) >= 2


def test_an_empty_directory_gives_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path) == []


def test_hidden_directories_and_files_are_left_out(log: Path) -> None:
    gone = f"orders-1.{'0' * 32}-delete"
    write_partition(log, [batch(0, [b"gone"])], name=gone)
    (log / "orders-0" / f"{99:020d}.log.deleted").write_bytes(b"x")
    (log / "orders-0" / f"{99:020d}.log.cleaned").write_bytes(b"x")
    assert len(read(log)) == 60
    assert len(read(log, includeHidden="true")) == 61


def test_topic_partition_and_ids_come_from_the_files(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0)], name="with-hyphen-12")
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=5\ncluster.id=c\n")
    (row,) = read(tmp_path)
    assert (row["topic"], row["partition"], row["nodeId"]) == ("with-hyphen", 12, 5)
    assert row["topicId"] == "AAAAAAAAAAAAAAAAAAAABQ"


def test_several_clusters_below_one_root_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_partition(tmp_path / name, [batch(0)])
        text = f"version=1\nnode.id=1\ncluster.id=cluster-{name}\n"
        (tmp_path / name / "meta.properties").write_text(text)
    with pytest.raises(BadInputError, match=r"several clusters .* cluster-a in .* cluster-b in"):
        discover([str(tmp_path)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/no/such/path"}, "/no/such/path: no such file or directory"),
        ({}, "no path"),
        ({"path": ".", "frob": "1"}, "option 'frob' is unknown; there are: path, "),
        ({"path": ".", "decode": "x"}, "decode is 'x', allowed: metadata, records, raw, json"),
        ({"path": ".", "columns": "offset,nope"}, "column 'nope' does not exist"),
        ({"path": ".", "columns": "offset,offset"}, "names one twice"),
        ({"path": ".", "columns": "kafka", "decode": "raw"}, "columns=kafka needs decode=records"),
        ({"path": ".", "startingOffsets": "x"}, "startingOffsets is 'x', allowed: JSON like"),
        ({"path": ".", "subscribePattern": "["}, "is not a pattern"),
        ({"path": ".", "subscribe": "a", "assign": '{"a":[0]}'}, "only one of"),
        ({"path": ".", "minPartitions": "0"}, "minPartitions is '0', allowed: a whole number"),
        ({"path": ".", "minPartitions": "²"}, "minPartitions is '²', allowed: a whole number"),
        ({"path": ".", "minPartitions": "9" * 19}, "allowed: a whole number from 1 on"),
        ({"path": ".", "startingTimestamp": "²"}, "startingTimestamp is '²', allowed: millisec"),
        ({"path": ".", "maxTriggerDelay": "9" * 13 + "s"}, "allowed: a number and ms, s, m or h"),
        ({"path": ".", "failOnDataLoss": "maybe"}, "allowed: true, false"),
    ],
)
def test_bad_input_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadInputError) as raised:
        read_table(parse_options(options))
    assert message in str(raised.value)


def test_a_file_that_is_no_segment_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"")
    with pytest.raises(BadInputError, match="not a segment"):
        read(tmp_path / "x.log")


def test_a_segment_that_vanishes_after_planning(log: Path) -> None:
    segment = log / "orders-0" / f"{30:020d}.log"
    for mode, renamed in (("FAILFAST", True), ("FAILFAST", False), ("PERMISSIVE", False)):
        options = parse_options({"path": str(log), "mode": mode})
        plan = plan_read(options)
        content = segment.read_bytes()
        segment.unlink()
        gone = segment.with_name(segment.name + ".deleted")
        if renamed:
            gone.write_bytes(content)
        (pack,) = plan.packs
        if mode == "FAILFAST" and not renamed:
            with pytest.raises(BadInputError, match="vanished"):
                list(read_splits(pack, options))
        else:
            rows = [row for part in read_splits(pack, options) for row in part.to_pylist()]
            assert len(rows) == (60 if renamed else 31)
            if not renamed:
                assert rows[-1]["_corrupt_batch"]["reason"] == "vanished"
        gone.unlink(missing_ok=True)
        segment.write_bytes(content)


def test_what_is_appended_after_planning_is_not_read(log: Path) -> None:
    options = parse_options({"path": str(log)})
    (pack,) = plan_read(options).packs
    with (log / "orders-0" / f"{30:020d}.log").open("ab") as file:
        file.write(batch(60))
    assert sum(rows.num_rows for rows in read_splits(pack, options)) == 60


def test_json_passes_json_through_and_wraps_the_rest(tmp_path: Path) -> None:
    write_partition(tmp_path, [batch(0, [b'{"a": 1}', b"\xff\x00", None], codec=Codec.LZ4)])
    rows = read(tmp_path, decode="json", columns="json,apiKey")
    assert [row["json"] for row in rows] == ['{"a": 1}', '"/wA="', None]


def test_unknown_and_newer_metadata_records_are_kept_in_hex(tmp_path: Path) -> None:
    values = [b"\x01\x63\x00abc", b"\x01\x02\x63abc", b"\x01", b"\x01\x02\x00\x04a"]
    write_partition(tmp_path, [batch(0, values)], name="__cluster_metadata-0")
    rows = read(tmp_path, decode="json", columns="json,apiKey,apiName,apiVersion")
    for row, value in zip(rows, values, strict=True):
        hex_shown = json.loads(row["json"])["data"]["hex"]
        assert value.hex().endswith(hex_shown)
        assert len(hex_shown) > 0
    assert [row["apiKey"] for row in rows] == [99, 2, None, 2]
    assert rows[0]["apiName"] == "UNKNOWN_RECORD"


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_header_names_that_are_not_utf8(tmp_path: Path, mode: str) -> None:
    """Also beside a batch whose records are damaged, where the slow reader is asked."""
    odd = bytearray(batch(0, headers=(("hk", b"1"),)))
    odd[odd.find(b"hk")] = 0xFF
    bad = bytearray(batch(1, [b"v" * 40]))
    bad[61] = 0x7F  # the length of its record
    for content in (odd, bad):
        content[17:21] = crc32c.crc32c(bytes(content[21:])).to_bytes(4, "big")
    name = {"key": "\N{REPLACEMENT CHARACTER}k", "value": b"1"}
    path = write_partition(tmp_path, [bytes(odd), batch(1)])
    rows = read(tmp_path, mode=mode, columns="offset,headers")
    assert [(row["offset"], row["headers"]) for row in rows] == [(0, [name]), (1, [])]
    path.write_bytes(odd + bad + batch(2))
    if mode != "FAILFAST":
        rows = read(tmp_path, mode=mode, columns="offset,headers")
        found = [(row["offset"], row["headers"]) for row in rows if row["offset"] is not None]
        assert found == [(0, [name]), (2, [])]
        assert len(rows) == (3 if mode == "PERMISSIVE" else 2)


@pytest.mark.parametrize("records", [1, 10])
def test_a_segment_without_an_index_is_cut_as_finely_as_asked(tmp_path: Path, records: int) -> None:
    write_partition(tmp_path, [batch(i * records, [b"v"] * records) for i in range(50)])
    given = {"path": str(tmp_path), "columns": "offset"}
    size = records * 50
    for more, least, most in (
        ({"minPartitions": "10"}, 10, 20),
        ({"maxRecordsPerPartition": str(5 * records)}, 10, 20),
    ):
        chosen = parse_options(given | more)
        packs = plan_read(chosen).packs
        assert least <= len(packs) <= most
        found = [
            [x for part in read_splits(pack, chosen) for x in part["offset"].to_pylist()]
            for pack in packs
        ]
        assert [x for part in found for x in part] == list(range(size))
        if "maxRecordsPerPartition" in more:
            assert max(map(len, found)) <= 5 * records
