"""Content of records, and rows of fetched batches."""

import pytest

from jepsen.clients import Refused
from jepsen.records.brokers import Row, rows_of
from jepsen.records.payload import FILLING_BYTES_MAX, content_of, value_of
from wire.batches.batch import encode_batch, iterate_batches


def test_a_value_comes_out_of_its_record():
    sizes = set()
    for value in (0, 1, 9, 10, 599, 600, 123_456):
        content = content_of(value)
        assert value_of(content) == value
        sizes.add(len(content))
    assert len(sizes) > 5
    assert max(sizes) < FILLING_BYTES_MAX + 10


@pytest.mark.parametrize("content", [b"", b"x", b"7", b"12:12:1", content_of(77)[:-1]])
def test_what_is_no_record_of_a_value(content):
    assert value_of(content) == f"{len(content)} bytes: {content[:20].hex()}"


def test_rows_of_batches_from_an_offset_on():
    first = encode_batch([b"a", b"b"], 4, 7, 1000)
    second = encode_batch([b"c"], 6, 8, 1000)
    rows = [Row(4, 7, b"a"), Row(5, 7, b"b"), Row(6, 8, b"c")]
    assert rows_of(first + second, 4) == rows
    assert rows_of(first + second, 5) == rows[1:]
    assert rows_of(b"", 0) == []
    assert rows_of(first + second[:-1], 4) == rows[:2], "cut by the limit of the fetch"


def test_damage_is_a_refusal():
    content = bytearray(encode_batch([b"a"], 0, 1, 1000))
    content[-2] ^= 1
    assert [batch.crc_is_valid for batch in iterate_batches(bytes(content))] == [False]
    with pytest.raises(Refused, match="corrupt_message"):
        rows_of(bytes(content), 0)
    content[16] = 9  # magic
    with pytest.raises(Refused, match="corrupt_message"):
        rows_of(bytes(content), 0)
