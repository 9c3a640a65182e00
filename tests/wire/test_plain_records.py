"""Records as KRaft writes them are read by a short cut: it must never read anything differently."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.batches import batch, records
from wire.batches.records import RecordReader
from wire.errors import CorruptBatchError

VALUES = st.lists(
    st.one_of(st.binary(max_size=20), st.sampled_from([bytes(63), bytes(64), bytes(9000)])),
    min_size=1,
    max_size=6,
)


@dataclass(frozen=True)
class Read:
    """Result of reading: records, or the text of the refusal."""

    records: tuple[batch.RecordView, ...] | None
    refusal: str | None


def read(header: batch.BatchHeader, section: bytes) -> Read:
    try:
        return Read(tuple(RecordReader(header, section).rest()), None)
    except CorruptBatchError as error:
        return Read(None, str(error))


def field_by_field(header: batch.BatchHeader, section: bytes) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_PLAIN_MAX", 0)
        return read(header, section)


@settings(deadline=None)
@given(VALUES, st.data())
def test_short_cut_and_field_by_field_agree_on_any_bytes(values, data):
    (whole,) = batch.iterate_batches(batch.encode_batch(values, 40, 3, 1700))
    section = bytearray(whole.buffer[batch.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(0, 3))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(section[: data.draw(st.integers(0, len(section)))])
    for content in (bytes(section), cut):
        assert read(whole.header, content) == field_by_field(whole.header, content)


def test_the_short_cut_is_taken():
    values = [bytes((number,)) * number for number in range(200)]
    (whole,) = batch.iterate_batches(batch.encode_batch(values, 40, 3, 1700))
    section = bytes(whole.buffer[batch.HEADER_BYTES :])
    plain, position = records._read_plain_records(whole.header, section, 0, 0, 200)
    assert [record.value for record in plain] + values[len(plain) :] == values
    assert len(plain) == 200
    assert position == len(section)
    assert {record.offset for record in plain} == set(range(40, 240))


@settings(deadline=None)
@given(
    VALUES,
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 12_000)), min_size=6, max_size=6),
    st.data(),
)
def test_slices_and_the_whole_agree_on_any_bytes(values, slices, data):
    (whole,) = batch.iterate_batches(batch.encode_batch(values, 40, 3, 1700))
    section = bytearray(whole.buffer[batch.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(0, 2))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    reader, taken = RecordReader(whole.header, bytes(section)), []
    try:
        for count_max, bytes_max in slices:
            taken += reader.take(count_max, bytes_max)
        assert reader.is_at_end, "each has a record at least"
        sliced = Read(tuple(taken), None)
    except CorruptBatchError as error:
        sliced = Read(None, str(error))
    assert sliced == read(whole.header, bytes(section))


@pytest.mark.parametrize(
    ("key", "bytes_max", "count"), [(None, 1, 3), (b"k", 17, 1), (b"k", 18, 2), (b"k", 99, 3)]
)
def test_a_slice_is_bounded_by_records_and_by_bytes_unless_they_are_plain(key, bytes_max, count):
    """Records with this key have 17 bytes; none begins behind the last byte of the bound."""
    head = batch.BatchHeader(
        base_offset=40,
        leader_epoch=3,
        last_offset_delta=3,
        base_timestamp_ms=1700,
        max_timestamp_ms=1700,
        records_count=4,
    )
    views = [batch.RecordView(40 + n, 1700, key, bytes(9)) for n in range(4)]
    reader = RecordReader(head, records.encode_section(head, views))
    assert reader.take(3, bytes_max) == views[:count]
    assert not reader.is_at_end
    assert reader.rest() == views[count:]
    assert reader.is_at_end
