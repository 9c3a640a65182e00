"""Consumer groups in the image of a partition, beside groups of other kinds."""

import pytest

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.image import EMPTY, apply
from coordinator.records.consumer import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coordinator.records.schema import CoordinatorRecord, CoordinatorRecordError
from coordinator.runtime.write import Applied
from tests.coordinator.group.test_image import committed, group_record
from wire.types import Offset

EPOCH_KEY = ConsumerGroupMetadataKey(group_id="g")
EPOCH = CoordinatorRecord(EPOCH_KEY, ConsumerGroupMetadataValue(epoch=4, metadata_hash=9))
NO_EPOCH = CoordinatorRecord(EPOCH_KEY, None)
AT = Applied(Offset(0), 0)


def test_a_record_of_a_consumer_group_makes_one() -> None:
    image = apply(EMPTY, EPOCH, AT)
    assert image.groups["g"] == ConsumerGroup(group_id="g", group_epoch=4, metadata_hash=9)
    assert apply(EMPTY, NO_EPOCH, AT) == EMPTY


def test_a_consumer_group_takes_over_a_simple_one_with_its_offsets() -> None:
    simple = apply(EMPTY, committed(5), AT)
    image = apply(simple, EPOCH, AT)
    assert isinstance(image.groups["g"], ConsumerGroup)
    assert image.offsets == simple.offsets
    assert apply(simple, NO_EPOCH, AT) == simple


def test_a_consumer_group_ends_with_the_tombstone_of_its_epoch() -> None:
    no_targets = CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), None)
    image = apply(apply(EMPTY, EPOCH, AT), no_targets, AT)
    assert apply(image, NO_EPOCH, AT) == EMPTY


def test_a_classic_group_is_no_consumer_group() -> None:
    classic = apply(EMPTY, group_record("g"), AT)
    assert apply(classic, NO_EPOCH, AT) is classic
    with pytest.raises(CoordinatorRecordError, match="group g is not a consumer group"):
        apply(classic, EPOCH, AT)
