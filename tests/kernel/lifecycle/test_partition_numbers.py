"""Partition numbers of records: input, whoever wrote the log."""

import pytest

from metadata import record_codec
from metadata.errors import IllegalRecordError
from metadata.features import record_version
from metadata.records import PartitionRecord, TopicRecord
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import LogConfig
from tests.kernel.harness import World
from tests.network.raw_client import ready_world
from wire.batches.batch import encode_batch
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId

TOPIC = TopicId(b"t" * 16)
PARTITION_MAX = 2**31 - 1


def world_with(partition_id: int) -> World:
    """A quorum of one that is down; its log ends with a topic of one partition."""
    world = ready_world(1)
    level = world.kernel(1).cache.image.metadata_version
    world.kill(1)
    records = (
        TopicRecord(name="t", topic_id=TOPIC),
        PartitionRecord(
            partition_id=partition_id,
            topic_id=TOPIC,
            replicas=(NodeId(1),),
            isr=(NodeId(1),),
            leader=NodeId(1),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
            directories=(DirectoryId(b"\x01" * 16),),
        ),
    )
    values = [record_codec.encode(record, record_version(record, level)) for record in records]
    log = open_metadata_log(world.nodes[1].vfs, "/data", LogConfig())
    base_offset, epoch = Offset(log.end_offset), LeaderEpoch(log.last_epoch)
    log.append(encode_batch(values, base_offset, epoch, 0), base_offset)
    log.close()
    return world


def test_the_largest_partition_number_has_a_folder_that_is_found_again() -> None:
    """As in Kafka, which makes a directory for whatever number the record has."""
    world = world_with(PARTITION_MAX)
    folder = f"/data/t-{PARTITION_MAX}"
    for _ in range(2):
        world.start(1)
        world.run_until(world.is_ready)
        world.run_for(1_000)
        assert world.nodes[1].vfs.is_directory(folder)
        folders = world.kernel(1).folders
        assert folders is not None
        assert folders.with_records() == set()
        world.kill(1)


@pytest.mark.parametrize("partition_id", [-1, -(2**31)])
def test_a_negative_partition_number_is_an_illegal_record(partition_id: int) -> None:
    world = world_with(partition_id)
    world.start(1)
    with pytest.raises(IllegalRecordError, match=f"a negative partition id.*={partition_id},"):
        world.run_until(world.is_ready)
