"""Records as coordinators write them are read by a short cut, which reads nothing differently."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.test_plain_records import Read, read
from wire.batches import batch, records
from wire.batches.batch import LOG_APPEND_TIME_BIT
from wire.batches.records import RecordReader
from wire.errors import CorruptBatchError

CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.sampled_from([bytes(63), bytes(64), bytes(8191), bytes(8192)]),
)
VIEWS = st.builds(
    batch.RecordView,
    offset=st.sampled_from([40, 103, 104, 8231, 8232]),
    timestamp_ms=st.sampled_from([1700, 1701]),
    key=CONTENTS,
    value=CONTENTS,
    headers=st.sampled_from([(), (), (("h", b"1"),)]),
)


def header_of(count: int, attributes: int = 0) -> batch.BatchHeader:
    return batch.BatchHeader(
        base_offset=40,
        leader_epoch=3,
        attributes=attributes,
        last_offset_delta=10_000,
        base_timestamp_ms=1700,
        max_timestamp_ms=1900,
        records_count=count,
    )


def one_by_one(header: batch.BatchHeader, section: bytes) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_KEYED_BYTES_MAX", 1 << 40)
        return read(header, section)


@settings(deadline=None)
@given(st.lists(VIEWS, min_size=1, max_size=5), st.booleans(), st.data())
def test_short_cut_and_field_by_field_agree_on_any_bytes(views, is_append_time, data):
    header = header_of(len(views), LOG_APPEND_TIME_BIT if is_append_time else 0)
    whole = bytearray(records.encode_section(header, views))
    if not is_append_time:
        assert read(header, bytes(whole)) == Read(tuple(views), None)
    assert read(header, bytes(whole)) == one_by_one(header, bytes(whole))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, min(20, len(whole) - 1)))] = data.draw(st.integers(0, 255))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    for content in (bytes(whole), bytes(cut)):
        assert read(header, content) == one_by_one(header, content)


@pytest.mark.parametrize("size", [0, 63, 64, 8170])
def test_the_short_cut_is_taken(size: int) -> None:
    views = [
        batch.RecordView(offset, 1700, bytes(size), bytes(8000 - size if size < 8000 else 1))
        for offset in (40, 103, 104, 8231)
    ]
    header = header_of(len(views))
    section = records.encode_section(header, views)
    found: list[batch.RecordView] = []
    end = records._read_keyed_records(header, section, 0, found, 4, len(section))
    assert found == views
    assert end == len(section)


def test_any_other_byte_and_each_cut_are_read_alike() -> None:
    """Of each length in one byte and in two; the second record begins where the first ends."""
    contents = [(b"k", b"v"), (bytes(64), b"v"), (b"k", bytes(64))]
    for key, value in contents:
        views = [batch.RecordView(offset, 1700, key, value) for offset in (103, 104)]
        header = header_of(2)
        section = records.encode_section(header, views)
        others = {section[:size] for size in range(len(section))}
        for position in (*range(10), *range(len(section) // 2 - 4, len(section) // 2 + 4)):
            for byte in (*range(0, 256, 5), *(section[position] ^ 1 << bit for bit in range(8))):
                others.add(section[:position] + bytes([byte]) + section[position + 1 :])
        found = [read(header, other) for other in others]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(records, "_KEYED_BYTES_MAX", 1 << 40)
            assert found == [read(header, other) for other in others]


def test_a_record_that_ends_behind_its_batch_is_damage() -> None:
    header = header_of(1)
    section = records.encode_section(header, [batch.RecordView(40, 1700, b"key", b"value")])
    longer = bytes((section[0] + 2, *section[1:]))
    with pytest.raises(CorruptBatchError, match="does not fit into its batch"):
        RecordReader(header, longer).rest()
