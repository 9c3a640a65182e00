import pytest

from broker_publisher.local_changes import local_changes, local_partitions
from broker_publisher.metadata_cache import MetadataCache
from broker_publisher.publisher import Publishers
from metadata.delta import MetadataDelta, delta_between
from metadata.image import EMPTY, Image, Provenance
from tests.broker_publisher.builders import broker, directory, image, partition, topic


def changes(before, after, broker_id):
    found = local_changes(before, after, delta_between(before, after), broker_id)
    return [
        [(one.topic_name, one.partition, one.topic_id[-1]) for one in side]
        for side in (found.created, found.deleted)
    ]


def test_created_topic_gives_only_own_partitions_sorted():
    after = image(topic(2, "b", partition(1, 2), partition(2, 3)), topic(1, "a", partition(2)))
    assert changes(EMPTY, after, 2) == [[("a", 0, 1), ("b", 0, 2), ("b", 1, 2)], []]
    assert changes(EMPTY, after, 1) == [[("b", 0, 2)], []]
    assert changes(EMPTY, after, 9) == [[], []]


def test_created_partition_names_its_folder():
    after = image(topic(1, "a", partition(1, 2)))
    (created,) = local_changes(EMPTY, after, delta_between(EMPTY, after), 2).created
    assert created.directory_id == directory(2)


def test_deleted_topic_and_recreated_name_show_on_both_sides():
    before = image(topic(1, "a", partition(1)))
    after = image(topic(7, "a", partition(1)))
    assert changes(before, after, 1) == [[("a", 0, 7)], [("a", 0, 1)]]


def test_moved_replica_is_deleted_here_and_created_there():
    before = image(topic(1, "a", partition(1, 2)))
    after = image(topic(1, "a", partition(1, 3)))
    assert changes(before, after, 2) == [[], [("a", 0, 1)]]
    assert changes(before, after, 3) == [[("a", 0, 1)], []]


def test_change_of_leader_is_no_local_change():
    before = image(topic(1, "a", partition(1, 2)))
    after = image(topic(1, "a", partition(1, 2, leader=2)))
    assert local_changes(before, after, delta_between(before, after), 1).is_empty


def test_local_partitions_lists_everything():
    whole = image(topic(2, "b", partition(1), partition(2)), topic(1, "a", partition(2, 1)))
    assert [(one.topic_name, one.partition) for one in local_partitions(whole, 2)] == [
        ("a", 0),
        ("b", 1),
    ]


class Recorder:
    def __init__(self, name, seen, cache):
        self.name, self.seen, self.cache = name, seen, cache

    def publish(self, before, after, delta):
        self.seen.append((self.name, self.cache.image is after))


def test_publishers_run_in_order_and_the_cache_is_already_new():
    seen, cache = [], MetadataCache()
    publishers = Publishers(
        (cache, Recorder("first", seen, cache), Recorder("second", seen, cache))
    )
    after = image(broker(1))
    publishers.publish(after, delta_between(EMPTY, after))
    assert seen == [("first", True), ("second", True)]
    assert publishers.image is cache.image is after


def test_publishing_an_older_image_is_a_programmer_error():
    publishers = Publishers((MetadataCache(),))
    publishers.publish(Image(provenance=Provenance(5, 1, 0)), MetadataDelta())
    with pytest.raises(AssertionError, match="backwards"):
        publishers.publish(Image(provenance=Provenance(4, 1, 0)), MetadataDelta())
