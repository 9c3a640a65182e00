"""Fields of a partition that a snapshot writes.

apache/kafka: metadata/.../PartitionRegistration.java, toRecord
"""

import pytest

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.features import LEVEL_DIRECTORIES, LEVEL_ELR
from metadata.image import EMPTY, METADATA_VERSION, Image
from metadata.record_codec import MetadataRecordError
from metadata.records import FeatureLevelRecord, PartitionRecord, TopicRecord
from metadata.snapshot import encode_snapshot, snapshot_records
from wire.types import DIRECTORY_MIGRATING, DirectoryId, LeaderEpoch, NodeId, Offset, TopicId

TOPIC = TopicId(b"t" * 16)
UNKNOWN = (DIRECTORY_MIGRATING, DIRECTORY_MIGRATING)
KNOWN = (DirectoryId(b"d" * 16), DIRECTORY_MIGRATING)
Nodes = tuple[NodeId, ...] | None


def image(
    level: int,
    directories: tuple[DirectoryId, ...] = KNOWN,
    elr: Nodes = None,
    last_known_elr: Nodes = None,
) -> Image:
    partition = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=(NodeId(1), NodeId(2)),
        isr=(NodeId(1),),
        leader=NodeId(1),
        leader_epoch=LeaderEpoch(0),
        directories=directories,
        eligible_leader_replicas=elr,
        last_known_elr=last_known_elr,
    )
    records = (
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=level),
        TopicRecord(name="t", topic_id=TOPIC),
        partition,
    )
    return apply_all(EMPTY, records, Offset(0), MetadataDelta())


def written(found: Image) -> PartitionRecord:
    (record,) = [r for r in snapshot_records(found) if isinstance(r, PartitionRecord)]
    return record


def encode(found: Image, level: int) -> bytes:
    parts = encode_snapshot(
        snapshot_records(found),
        level=level,
        epoch=LeaderEpoch(1),
        last_contained_timestamp_ms=1,
        timestamp_ms=1,
    )
    return b"".join(parts)


@pytest.mark.parametrize(
    ("level", "directories", "expected"),
    [
        (LEVEL_DIRECTORIES, UNKNOWN, UNKNOWN),
        (LEVEL_DIRECTORIES, KNOWN, KNOWN),
        (LEVEL_DIRECTORIES - 1, UNKNOWN, ()),
    ],
)
def test_directories_are_written_from_their_level_on(
    level: int, directories: tuple[DirectoryId, ...], expected: tuple[DirectoryId, ...]
) -> None:
    found = image(level, directories)
    assert written(found).directories == expected
    assert encode(found, level)


def test_directories_that_the_level_cannot_carry_are_not_dropped_in_silence() -> None:
    found = image(LEVEL_DIRECTORIES - 1, KNOWN)
    with pytest.raises(MetadataRecordError, match="directories"):
        encode(found, LEVEL_DIRECTORIES - 1)


@pytest.mark.parametrize("elr", [None, (), (NodeId(2),)])
@pytest.mark.parametrize("last_known_elr", [None, (), (NodeId(2),)])
def test_an_empty_elr_is_not_written(elr: Nodes, last_known_elr: Nodes) -> None:
    record = written(image(LEVEL_ELR, KNOWN, elr, last_known_elr))
    assert record.eligible_leader_replicas == (elr or None)
    assert record.last_known_elr == (last_known_elr or None)
