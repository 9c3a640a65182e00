"""Round trips of generated records; damage is an error, never another exception."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from metadata import record_codec
from metadata.codec_source import source_of
from metadata.features import record_version
from metadata.json_form import to_json_text
from metadata.json_source import record_json_text
from metadata.records import PartitionRecord
from metadata.schema import MetadataRecordError
from tests.metadata.strategies import records_with_version
from tests.selection import examples


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(records_with_version())
def test_decode_of_encode_is_the_record(pair):
    record, version = pair
    raw = record_codec.encode(record, version)
    assert record_codec.decode(raw) == record
    assert record_codec.encode(record_codec.decode(raw), version) == raw


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(records_with_version(), st.data())
def test_damaged_bytes_decode_or_raise_the_one_error(pair, data):
    raw = bytearray(record_codec.encode(*pair))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(MetadataRecordError):
        record_codec.decode(bytes(raw))


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(records_with_version())
def test_highest_level_can_carry_every_record(pair):
    record, _ = pair
    assert record_codec.encode(record, record_version(record, 30))


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(records_with_version())
def test_the_compiled_printer_prints_what_the_plain_one_does(pair):
    assert record_json_text(*pair) == to_json_text(*pair)


def test_generated_source_can_be_read():
    text = source_of(PartitionRecord, 2)
    assert "def read_PartitionRecord_2(b, p, end):" in text
    assert "def write_PartitionRecord_2(r, out):" in text
