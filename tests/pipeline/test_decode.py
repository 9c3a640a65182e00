"""The fast reader against the slow one, on batches of every kind."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.records import sections
from pipeline.core.records.batches import BatchTable, Fault, scan
from pipeline.core.records.codecs import plain_section
from pipeline.core.records.decode import Limits, RowSelection, decode_batch_py, decode_batches
from pipeline.core.records.rows import RowContext
from pipeline.core.records.schema import schema_of
from tests.pipeline.segments import TIME_MS, batch
from tests.selection import examples
from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.batches.compression import Codec, compress
from wire.errors import CorruptBatchError

CONTEXT = RowContext(topic="t", partition=3, segment="s", node_id=7, topic_id="id")
ALL = RowSelection(include_control=True)
LARGE = st.integers(16_370, 16_400).map(lambda size: b"x" * size)  # lengths of three bytes
CONTENT = st.none() | st.binary(max_size=200) | LARGE
RECORD = st.tuples(
    CONTENT,
    CONTENT,
    st.integers(-(1 << 40), 1 << 40),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
)
BATCHES = st.lists(
    st.tuples(
        st.lists(RECORD, max_size=5), st.sampled_from(Codec), st.sampled_from([0, 8, 16, 48])
    ),
    min_size=1,
    max_size=4,
)


def encode(described: list[tuple[list, Codec, int]]) -> bytes:
    out, offset = [], 0
    for records, codec, bits in described:
        rows = [
            RecordView(offset + 2 * i, TIME_MS + delta, key, value, tuple(headers))
            for i, (key, value, delta, headers) in enumerate(records)
        ]
        header = BatchHeader(
            base_offset=offset,
            leader_epoch=4,
            attributes=int(codec) | bits,
            last_offset_delta=2 * len(rows) + 1,
            base_timestamp_ms=TIME_MS,
            max_timestamp_ms=max((row.timestamp_ms for row in rows), default=TIME_MS),
            producer_id=9,
            base_sequence=(1 << 31) - 2 if bits & 16 else -1,
            records_count=len(rows),
        )
        out.append(encode_records(header, rows))
        offset += 2 * len(rows) + 2
    return b"".join(out)


def only_table(data: bytes, **options: str) -> BatchTable:
    tables = list(scan(data, 0, len(data), frozen_size=len(data), **options))
    assert len(tables) == 1
    return tables[0]


def rows_of(table: BatchTable, columns: str = "full", **options: object) -> list:
    found = list(decode_batches(table, schema_of("records", columns), CONTEXT, ALL, **options))
    for rows in found:
        if isinstance(rows, pa.RecordBatch):
            rows.validate(full=True)
    return found


def plain(found: list) -> list[tuple]:
    """Offset, time in us, key, value, headers of every row."""
    rows = []
    for part in found:
        assert isinstance(part, pa.RecordBatch), part
        times = part["timestamp"].cast(pa.int64()).to_pylist()
        for row, time in zip(part.to_pylist(), times, strict=True):
            headers = tuple((pair["key"], pair["value"]) for pair in row["headers"])
            rows.append((row["offset"], time, row["key"], row["value"], headers))
    return rows


def by_the_oracle(table: BatchTable) -> list[tuple]:
    return [
        (record.offset, record.timestamp_ms * 1000, record.key, record.value, record.headers)
        for index in range(len(table))
        for record in decode_batch_py(table, index)
    ]


@given(BATCHES, st.booleans())
@settings(max_examples=examples(100), deadline=None, derandomize=True)
def test_fast_reader_equals_slow_reader(described: list, lock_step: bool) -> None:
    table = only_table(encode(described))
    saved = sections._LOCK_STEP_RECORDS
    sections._LOCK_STEP_RECORDS = 0 if lock_step else 1 << 40
    try:
        found = rows_of(table)
    finally:
        sections._LOCK_STEP_RECORDS = saved
    assert plain(found) == by_the_oracle(table)


@given(BATCHES, st.data())
@settings(max_examples=examples(100), deadline=None, derandomize=True)
def test_damaged_records_are_judged_as_the_slow_reader_judges(
    described: list, data: object
) -> None:
    content = bytearray(encode(described))
    clean = only_table(bytes(content))
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(clean) - 1))
        start = int(clean.positions[index]) + 57  # the record count and the records
        end = int(clean.positions[index] + clean.sizes[index])
        content[data.draw(st.integers(start, end - 1))] = data.draw(st.integers(0, 255))
    table = only_table(bytes(content), validate="header")
    found = rows_of(table)
    expected, bad, unclear = [], [], []
    for index in range(len(table)):
        one = table.select(np.arange(len(table)) == index)
        try:
            records = by_the_oracle(one)
        except CorruptBatchError as error:
            at = int(one.positions[0])
            if isinstance(error.__cause__, UnicodeDecodeError):
                unclear.append(at)  # a header name, or that and more
            else:
                bad.append(at)
            continue
        if any(record[0] < int(one.column("base_offset")[0]) for record in records):
            continue  # accepted or refused by whether a neighbour is damaged
        expected += [row for row in records if abs(row[1]) < 1 << 62]
    assert [
        part.position
        for part in found
        if isinstance(part, Fault)
        if part.reason == "bad_records"
        if part.position not in unclear
    ] == bad
    rows = plain([part for part in found if not isinstance(part, Fault)])
    for row in expected:
        assert row in rows


def test_every_column_of_a_row() -> None:
    data = batch(100, [b"a", None], codec=Codec.ZSTD, attributes=0x10, producer=(5, 2, 2**31 - 1))
    (rows,) = rows_of(only_table(data))
    second = rows.to_pylist()[1]
    time = second.pop("timestamp")
    assert round(time.timestamp() * 1000) == TIME_MS + 1
    assert second == {
        "key": b"key-1", "value": None, "topic": "t", "partition": 3, "offset": 101,
        "timestampType": 0, "headers": [], "leaderEpoch": 1, "producerId": 5, "producerEpoch": 2,
        "sequence": 0, "isTransactional": True, "isControl": False, "codec": "zstd",
        "batchBaseOffset": 100, "batchPosition": 0, "batchSize": len(data), "segment": "s",
        "nodeId": 7, "topicId": "id",
    }  # fmt: skip


def test_append_time_replaces_the_times_of_records() -> None:
    (rows,) = rows_of(
        only_table(batch(0, [b"a", b"b"], attributes=0x08)), "timestamp,timestampType"
    )
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [(TIME_MS + 1) * 1000] * 2
    assert rows["timestampType"].to_pylist() == [1, 1]


def test_no_timestamp_is_null() -> None:
    (rows,) = rows_of(only_table(batch(0, time_ms=-1)), "timestamp")
    assert rows["timestamp"].to_pylist() == [None]


def test_sizes_come_without_the_bytes() -> None:
    data = batch(0, [b"abc", None], keys=[None, b"xy"])
    (rows,) = rows_of(only_table(data), "keySize,valueSize")
    assert rows.to_pydict() == {"keySize": [-1, 2], "valueSize": [3, -1]}


def test_offset_range_cuts_inside_a_batch() -> None:
    table = only_table(b"".join(batch(at, [b"v"] * 10) for at in (0, 10, 20)))
    selection = RowSelection(start=5, end=22)
    found = list(decode_batches(table, schema_of("records", "offset"), CONTEXT, selection))
    assert [x for part in found for x in part["offset"].to_pylist()] == list(range(5, 22))


def test_limits_cut_the_output() -> None:
    table = only_table(b"".join(batch(10 * i, [b"v"] * 10) for i in range(10)))
    found = rows_of(table, "offset", limits=Limits(rows=30))
    assert [part.num_rows for part in found] == [30, 30, 30, 10]


@pytest.mark.parametrize("codec", Codec)
def test_limits_count_plain_bytes(codec: Codec) -> None:
    logs = [batch(10 * i, [bytes(1000)] * 10, codec=codec) for i in range(10)]
    found = rows_of(only_table(b"".join(logs)), "offset", limits=Limits(size_bytes=30_000))
    assert max(part.num_rows for part in found) <= 30
    assert [x for part in found for x in part["offset"].to_pylist()] == list(range(100))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_bomb_is_a_fault_and_not_the_end(codec: Codec) -> None:
    bomb = compress(codec, bytes(3_000_000))
    with pytest.raises(CorruptBatchError, match="unfold to more than 1000000 bytes"):
        plain_section(codec, bomb, 1_000_000)
    assert plain_section(codec, bomb, 3_000_000) == bytes(3_000_000)
    assert plain_section(codec, bomb + bomb, 6_000_000) == bytes(6_000_000)


def test_a_damaged_batch_does_not_spoil_its_neighbours() -> None:
    good, bad = batch(0, [b"v"] * 3), bytearray(batch(3, [b"v"] * 3))
    bad[61] = 0x7F  # the length of the first record
    table = only_table(good + bytes(bad) + batch(6, [b"v"] * 3), validate="header")
    first, fault, last = rows_of(table, "offset")
    assert first["offset"].to_pylist() == [0, 1, 2]
    assert (fault.reason, fault.position, fault.base_offset) == ("bad_records", len(good), 3)
    assert last["offset"].to_pylist() == [6, 7, 8]


@pytest.mark.parametrize(
    ("attributes", "reason"), [(0x05, "unknown_codec"), (0x80, "reserved_attr_bits")]
)
def test_attributes_that_mean_nothing(attributes: int, reason: str) -> None:
    data = bytearray(batch(0))
    data[22] = attributes
    (fault,) = rows_of(only_table(bytes(data), validate="header"))
    assert fault.reason == reason


def headers_with(**changes: int) -> bytes:
    fields = {"base_offset": 0, "leader_epoch": 0, "last_offset_delta": 1, "base_timestamp_ms": 5,
              "max_timestamp_ms": 9, "records_count": 0}  # fmt: skip
    records = [RecordView(0, 5, None, b"a"), RecordView(1, 9, None, b"b")]
    return encode_records(BatchHeader(**(fields | changes)), records)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (headers_with(max_timestamp_ms=8), "ts_gt_max"),
        (headers_with(last_offset_delta=0), "record_count_mismatch"),
    ],
)
def test_full_validation_compares_records_with_the_header(data: bytes, reason: str) -> None:
    (fault,) = rows_of(only_table(data), validate="full")
    assert fault.reason == reason
    (rows,) = rows_of(only_table(data), validate="crc")
    assert rows.num_rows == 2


def test_random_bytes_never_hang_nor_read_outside() -> None:
    rng = random.Random(3)
    for _ in range(300):
        data = bytearray(batch(0, [b"value"] * 5, headers=(("h", b"x"),)))
        for _ in range(3):
            data[rng.randrange(57, len(data))] = rng.randrange(256)
        for part in rows_of(only_table(bytes(data), validate="header")):
            assert isinstance(part, pa.RecordBatch | Fault)
