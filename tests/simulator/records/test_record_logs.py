"""Batches as the checks read them, from the files of a partition."""

import pytest

from simulator.checks.partitions.record_logs import stored_batches, whole_batches
from simulator.cluster.memory_vfs import MemoryVfs
from simulator.records.requests import batch

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
