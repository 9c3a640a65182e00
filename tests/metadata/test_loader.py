"""Publications of the loader: transactions, aborts, snapshots, adoption."""

import pytest

from metadata.apply import IllegalRecordError
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from metadata.loader import CommittedBatch, Loader
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from wire.types import OffsetAndEpoch


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=bytes(15) + bytes((number,)))


def batch(base_offset, *records, epoch=1, control=False):
    count = 1 if control else len(records)
    return CommittedBatch(base_offset, base_offset + count, epoch, 1000 + base_offset, records)


BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


def names(image):
    return sorted(image.topic_id_by_name)


def test_several_batches_of_one_call_give_one_image():
    loader = Loader()
    ((image, delta),) = loader.commit(
        [batch(0, control=True), batch(1, topic(1)), batch(2, topic(2))]
    )
    assert names(image) == ["t1", "t2"]
    assert len(delta.topics_created) == 2
    assert image.provenance.snapshot_id == OffsetAndEpoch(3, 1)
    assert image.provenance.timestamp_ms == 1002
    assert loader.image is image


def test_control_batch_moves_the_offset():
    loader = Loader()
    ((image, delta),) = loader.commit([batch(0, control=True)])
    assert image.provenance.end_offset == 1
    assert delta.is_empty
    assert loader.commit([]) == []


def test_transaction_shows_at_its_end():
    loader = Loader()
    assert loader.commit([batch(0, BEGIN, topic(1))]) == []
    assert loader.transaction_start == 0
    assert (names(loader.image), names(loader.latest)) == ([], ["t1"])
    assert loader.commit([batch(2, topic(2))]) == []
    ((image, delta),) = loader.commit([batch(3, topic(3), END, topic(4))])
    assert names(image) == ["t1", "t2", "t3", "t4"]
    assert len(delta.topics_created) == 4
    assert image.provenance.end_offset == 6
    assert loader.transaction_start is None


def test_whole_transaction_in_one_batch():
    loader = Loader()
    ((image, _),) = loader.commit([batch(0, BEGIN, topic(1), END)])
    assert (names(image), image.provenance.end_offset) == (["t1"], 3)


def test_abort_takes_the_image_before_begin_and_moves_the_offset():
    loader = Loader()
    loader.commit([batch(0, topic(1))])
    assert loader.commit([batch(1, BEGIN, topic(2))]) == []
    ((image, delta),) = loader.commit([batch(3, ABORT, epoch=2)])
    assert names(image) == ["t1"]
    assert delta.is_empty
    assert image.provenance.snapshot_id == OffsetAndEpoch(4, 2)


def test_what_precedes_begin_in_the_same_call_is_published_first():
    loader = Loader()
    ((image, _),) = loader.commit([batch(0, topic(1)), batch(1, BEGIN, topic(2), epoch=2)])
    assert names(image) == ["t1"]
    assert image.provenance.snapshot_id == OffsetAndEpoch(1, 1)
    assert image.provenance.is_batch_aligned


def test_begin_inside_a_batch_publishes_an_image_that_no_snapshot_may_use():
    loader = Loader()
    first, second = loader.commit([batch(0, topic(1), BEGIN, topic(2), END)])
    assert names(first[0]) == ["t1"]
    assert first[0].provenance.end_offset == 1
    assert not first[0].provenance.is_batch_aligned
    assert names(second[0]) == ["t1", "t2"]
    assert second[0].provenance.is_batch_aligned
    assert len(second[1].topics_created) == 1


@pytest.mark.parametrize("records", [[BEGIN, BEGIN], [END], [ABORT], [BEGIN, END, END]])
def test_markers_out_of_place(records):
    with pytest.raises(IllegalRecordError):
        Loader().commit([batch(0, *records)])


def test_batches_below_the_end_are_refused():
    loader = Loader()
    loader.commit([batch(0, topic(1))])
    with pytest.raises(AssertionError):
        loader.commit([batch(0, topic(1))])


def test_snapshot_replaces_everything_and_drops_a_transaction():
    loader = Loader()
    loader.commit([batch(0, topic(1), topic(2))])
    loader.commit([batch(2, BEGIN, topic(3))])
    level = FeatureLevelRecord(name="metadata.version", feature_level=21)
    image, delta = loader.load_snapshot([level, topic(2), topic(4)], OffsetAndEpoch(9, 3), 77)
    assert names(image) == ["t2", "t4"]
    assert delta.topics_created == {topic(4).topic_id}
    assert delta.topics_deleted == {topic(1).topic_id}
    assert delta.features == {"metadata.version"}
    assert (loader.end_offset, loader.transaction_start) == (9, None)
    ((image, _),) = loader.commit([batch(9, topic(5), epoch=3)])
    assert names(image) == ["t2", "t4", "t5"]


@pytest.mark.parametrize("marker", [BEGIN, END, ABORT])
def test_snapshot_with_a_marker(marker):
    with pytest.raises(IllegalRecordError, match="inside a snapshot"):
        Loader().load_snapshot([marker], OffsetAndEpoch(1, 1), 0)


def test_adopted_image_is_the_committed_one():
    computed = Loader()
    ((image, delta),) = computed.commit([batch(0, topic(1))])
    loader = Loader()
    assert loader.adopt(image, delta) == (image, delta)
    assert loader.image is image
    assert loader.end_offset == 1
    with pytest.raises(AssertionError):
        loader.adopt(EMPTY, MetadataDelta())
