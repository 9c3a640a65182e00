"""Batches as the checks read them, from the files of a partition."""

import pytest

from simulator.checks.partitions.record_logs import stored_batches, whole_batches
from simulator.cluster.memory_vfs import MemoryVfs
from simulator.records.requests import batch
from wire.batches.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, encode_records

PATH = "/data/t-0/00000000000000000000.log"


def at_offset(offset, *values):
    content = batch(values, 1_000, None, 0)
    return offset.to_bytes(8, "big") + content[8:]


FIRST, SECOND = at_offset(0, b"a", b"b"), at_offset(2, b"c")


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (b"", b""),
        (FIRST, FIRST),
        (FIRST + SECOND, FIRST + SECOND),
        (FIRST + SECOND[:-1], FIRST),
        (FIRST + SECOND[:11], FIRST),
        (FIRST[:-1], b""),
        (FIRST + bytes(200), FIRST),
    ],
)
def test_a_batch_that_is_cut_does_not_count(content, whole):
    assert whole_batches(content) == whole


def test_a_file_is_read_as_it_is_at_every_look():
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    vfs.make_directory("/data/t-0")
    file = vfs.open(PATH, create=True)
    for content, offsets, values in (
        (FIRST, [0], [(b"a", b"b")]),
        (FIRST + SECOND, [0, 2], [(b"a", b"b"), (b"c",)]),
        (SECOND, [2], [(b"c",)]),
        (b"", [], []),
    ):
        file.truncate(0)
        file.pwrite(content, 0)
        found = stored_batches(vfs, "t", 0)
        assert [each.base_offset for each in found] == offsets
        assert [each.values for each in found] == values
        assert b"".join(each.content for each in found) == content


def test_a_marker_that_was_cleaned_away_is_none():
    marker = BatchHeader(
        base_offset=4,
        leader_epoch=0,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta=0,
        base_timestamp_ms=-1,
        max_timestamp_ms=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=-1,
        records_count=0,
    )
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    vfs.make_directory("/data/t-0")
    vfs.open(PATH, create=True).pwrite(encode_records(marker, []), 0)
    (found,) = stored_batches(vfs, "t", 0)
    assert (found.base_offset, found.marker, found.values) == (4, None, ())
