"""Arrays of ids are decoded once per content, and never differently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import array_block, record_codec
from metadata.array_block import ArrayBlock
from metadata.primitives import ints_bytes, uuids_bytes
from metadata.records import MetadataRecordError, PartitionRecord
from wire.types import DirectoryId, NodeId, TopicId

TOPIC_ID = TopicId(bytes(16))
IDS = st.lists(st.integers(-(2**31), 2**31 - 1).map(NodeId), max_size=200).map(tuple)


def record(replicas: tuple[NodeId, ...], isr: tuple[NodeId, ...]) -> PartitionRecord:
    directories = tuple(DirectoryId(bytes((index % 3,)) * 16) for index in range(len(replicas)))
    return PartitionRecord(
        partition_id=1, topic_id=TOPIC_ID, replicas=replicas, isr=isr, directories=directories
    )


@given(IDS, IDS)
def test_any_lengths_survive_with_and_without_a_known_block(replicas, isr):
    value = record_codec.encode(record(replicas, isr), 1)
    assert record_codec.decode(value) == record_codec.decode(value) == record(replicas, isr)


def test_equal_lists_are_one_object():
    replicas = (NodeId(7), NodeId(8), NodeId(9))
    value = record_codec.encode(record(replicas, replicas), 1)
    first, second = record_codec.decode(value), record_codec.decode(value)
    assert first.replicas is second.replicas
    assert first.directories is second.directories


def test_a_known_block_that_is_cut_is_refused_at_every_length():
    replicas = (NodeId(4), NodeId(5), NodeId(6))
    value = record_codec.encode(record(replicas, replicas), 1)
    record_codec.decode(value)
    for size in range(3, len(value)):
        with pytest.raises(MetadataRecordError):
            record_codec.decode(value[:size])


def test_null_arrays_are_refused_and_named():
    block = ArrayBlock((("A.first", 4), ("A.second", 16)))
    with pytest.raises(MetadataRecordError, match=r"A\.first is null"):
        block.read(b"\x00\x01", 0, 2)
    with pytest.raises(MetadataRecordError, match=r"A\.second is null"):
        block.read(b"\x01\x00", 0, 2)
    assert not block.known


def test_only_so_many_blocks_are_kept(monkeypatch):
    monkeypatch.setattr(array_block, "KNOWN_MAX", 2)
    block = ArrayBlock((("A.ids", 4),))
    for number in range(5):
        content = ints_bytes((number,))
        assert block.read(content, 0, len(content)) == (((number,),), len(content))
        assert len(block.known) <= 2


def test_long_blocks_are_not_kept():
    block = ArrayBlock((("A.ids", 16),))
    content = uuids_bytes(tuple(bytes((number,)) * 16 for number in range(40)))
    assert block.read(content, 0, len(content))[1] == len(content)
    assert not block.known


@pytest.mark.parametrize("lengths", [(15,), (17,), (16, 15), (15, 17)])
def test_an_id_has_16_bytes(lengths):
    with pytest.raises(ValueError, match="not 16 bytes long"):
        uuids_bytes(tuple(bytes(length) for length in lengths))
