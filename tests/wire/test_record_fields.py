"""Keys and offsets of a batch in one pass: the same as those of its decoded records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.batches.batch import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    encode_records,
    iterate_batches,
    with_header,
)
from wire.batches.record_fields import record_fields, section_of, timestamp_delta_ms
from wire.batches.records import RecordView
from wire.errors import CorruptBatchError
from wire.types import LeaderEpoch, Offset

BASE_MS = 10_000


def batch(records: list[RecordView]) -> Batch:
    header = BatchHeader(
        base_offset=Offset(100),
        leader_epoch=LeaderEpoch(1),
        last_offset_delta=records[-1].offset - 100,
        base_timestamp_ms=BASE_MS,
        max_timestamp_ms=BASE_MS,
        records_count=len(records),
    )
    return next(iterate_batches(encode_records(header, records)))


def section(one: Batch) -> bytes:
    return bytes(one.buffer[HEADER_BYTES:])


CONTENT = st.one_of(st.none(), st.binary(max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=3), CONTENT), max_size=2).map(tuple)
FIELDS = st.tuples(st.sampled_from([1, 63, 64, 9000]), st.integers(-70, 10**6), CONTENT, CONTENT)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    offset, records = 99, []
    for step, delta_ms, key, value in draw(st.lists(FIELDS, min_size=1, max_size=6)):
        offset += step
        headers = draw(HEADERS)
        records.append(RecordView(Offset(offset), BASE_MS + delta_ms, key, value, headers))
    return batch(records)


@given(batches())
def test_fields_are_those_of_the_records(one: Batch) -> None:
    plain = section(one)
    fields = record_fields(plain, one.header.records_count)
    records = one.records()
    assert [100 + delta for *_, delta, _, _ in fields] == [each.offset for each in records]
    assert [key for *_, key, _ in fields] == [each.key for each in records]
    assert [has_value for *_, has_value in fields] == [each.value is not None for each in records]
    assert [BASE_MS + timestamp_delta_ms(plain, each) for each in fields] == [
        each.timestamp_ms for each in records
    ]
    assert fields[0][0] == 0
    assert [each[3] for each in fields] == [*(each[0] for each in fields[1:]), len(plain)]


@given(batches(), st.data())
def test_a_part_of_the_section_is_that_part_of_the_records(one: Batch, data: st.DataObject) -> None:
    fields, plain = record_fields(section(one), one.header.records_count), section(one)
    flags = [data.draw(st.booleans()) for _ in fields]
    kept = [each for each, stays in zip(fields, flags, strict=True) if stays]
    records = [each for each, stays in zip(one.records(), flags, strict=True) if stays]
    if not kept:
        return
    shifted = [timestamp_delta_ms(plain, each) - 7 for each in kept]
    for deltas_ms, shift_ms in ((None, 0), (shifted, -7)):
        content = with_header(one.header, section_of(plain, kept, deltas_ms), len(kept))
        found = next(iterate_batches(content))
        assert found.crc_is_valid
        assert [(each.offset, each.key, each.value, each.headers) for each in found.records()] == [
            (each.offset, each.key, each.value, each.headers) for each in records
        ]
        assert [each.timestamp_ms for each in found.records()] == [
            each.timestamp_ms + shift_ms for each in records
        ]


@given(batches(), st.data())
def test_a_damaged_section_is_refused_or_read(one: Batch, data: st.DataObject) -> None:
    plain = bytearray(section(one))
    plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    try:
        fields = record_fields(bytes(plain), one.header.records_count)
    except CorruptBatchError:
        return
    assert fields[-1][3] == len(plain)


PLAIN = section(batch([RecordView(Offset(100), BASE_MS, b"key", b"value", ())]))


@pytest.mark.parametrize(
    ("plain", "count"),
    [
        (PLAIN, 2),  # one is missing
        (PLAIN + b"\0", 1),  # one byte is left
        (PLAIN[:-1], 1),  # one byte is cut
        (b"", 1),
        (b"\x01" + PLAIN[1:], 1),  # of negative length
        (PLAIN[:3] + b"\x01" + PLAIN[4:], 1),  # at a negative offset
        (PLAIN[:4] + b"\x03" + PLAIN[5:], 1),  # with a key of negative length that is not null
        (PLAIN[:4] + b"\x18" + PLAIN[5:], 1),  # with a key that leaves no room for a value
        (PLAIN[:4] + b"\xff\xff\xff\xff\xff" + PLAIN[9:], 1),  # with a length of six bytes
    ],
)
def test_sections_that_are_not_whole_are_refused(plain: bytes, count: int) -> None:
    with pytest.raises(CorruptBatchError):
        record_fields(plain, count)


def test_an_empty_section_has_no_record() -> None:
    assert record_fields(b"", 0) == []
