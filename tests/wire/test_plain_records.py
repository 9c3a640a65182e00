"""Records as KRaft writes them are read by a short cut: it must never read anything differently."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wire.batches import batch
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
        return Read(tuple(batch._read_records(header, section)), None)
    except CorruptBatchError as error:
        return Read(None, str(error))


def field_by_field(header: batch.BatchHeader, section: bytes) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "_PLAIN_MAX", 0)
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
    records, position = batch._read_plain_records(whole.header, section)
    assert [record.value for record in records] + values[len(records) :] == values
    assert len(records) == 200
    assert position == len(section)
    assert {record.offset for record in records} == set(range(40, 240))
