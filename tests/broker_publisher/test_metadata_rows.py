"""Kept bytes of Metadata answers are what the answer made of objects encodes to, at every image."""

import gc

from hypothesis import given, settings
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from broker_publisher.metadata_cache import MetadataCache
from broker_publisher.responses import ResponseContext, metadata_response
from metadata.delta import delta_between
from metadata.image import EMPTY, Broker, Image, Partition, Provenance, Topic
from tests.broker_publisher.builders import broker, directory, image, partition, topic
from wire.api_keys import METADATA
from wire.messages.codec import encode_response, newest
from wire.types import LeaderEpoch, Offset

NAMES = ("a", "b.c", "__consumer_offsets", "d" * 130)
CONTEXT = ResponseContext(cluster_id="cluster", listener="PLAINTEXT", controller_id=1)

brokers = st.builds(
    broker,
    st.integers(1, 4),
    fenced=st.booleans(),
    listener=st.sampled_from(["PLAINTEXT", "OTHER"]),
    rack=st.sampled_from([None, "r"]),
)
partitions = st.builds(
    lambda replicas, leader, offline: Partition(
        replicas=replicas,
        isr=replicas[:1],
        leader=leader,
        leader_epoch=LeaderEpoch(leader + 2),
        directories=tuple(directory(9 if offline else replica) for replica in replicas),
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True).map(tuple),
    st.integers(-1, 5),
    st.booleans(),
)
topics = st.builds(
    lambda index, parts: topic(index + 1, NAMES[index], *parts),
    st.integers(0, len(NAMES) - 1),
    st.lists(partitions, max_size=4),
)
images = st.builds(
    lambda nodes, rows: image(*nodes, *rows),
    st.lists(brokers, max_size=4, unique_by=lambda one: one.id),
    st.lists(topics, max_size=4, unique_by=lambda one: one.name),
)


def metadata_request(names=None):
    new = newest(METADATA, "request")
    rows = None
    if names is not None:
        rows = tuple(new.MetadataRequestTopic(name=name, topic_id=None) for name in names)
    return new.MetadataRequest(topics=rows, include_topic_authorized_operations=False)


def publish(cache: MetadataCache, after: Image) -> None:
    end_offset = Offset(cache.image.provenance.end_offset + 1)
    after = replace(after, provenance=Provenance(end_offset, LeaderEpoch(1), 0))
    cache.publish(cache.image, after, delta_between(cache.image, after))


def made_of_objects(cache: MetadataCache, request, version: int) -> bytes:
    body = metadata_response(cache.image, request, CONTEXT, version)
    return encode_response(METADATA, version, 77, body)


@settings(deadline=None)
@given(st.lists(images, min_size=1, max_size=4), st.lists(st.sampled_from(NAMES), max_size=3))
def test_the_same_bytes_as_objects_after_every_change(history, names):
    cache = MetadataCache()
    for after in history:
        publish(cache, after)
        for version in (10, 11, 12, 13):
            request = metadata_request()
            kept = cache.rows.frame(cache.image, request, CONTEXT, version, 77)
            assert kept == made_of_objects(cache, request, version)
            request = metadata_request(names)
            kept = cache.rows.frame(cache.image, request, CONTEXT, version, 77)
            known = all(name in cache.image.topic_id_by_name for name in names)
            assert (kept is not None) == known
            if known:
                assert kept == made_of_objects(cache, request, version)


def test_other_versions_operations_and_ids_are_left_to_objects():
    cache = MetadataCache()
    publish(cache, image(broker(1), topic(1, "a", partition(1))))
    asks = metadata_request(("a",))
    new = newest(METADATA, "request")
    with_operations = new.MetadataRequest(topics=None, include_topic_authorized_operations=True)
    assert cache.rows.frame(cache.image, asks, CONTEXT, 12, 1) is not None
    assert cache.rows.frame(cache.image, asks, CONTEXT, 9, 1) is None
    assert cache.rows.frame(cache.image, with_operations, CONTEXT, 12, 1) is None
    assert cache.rows.frame(cache.image, metadata_request(("b",)), CONTEXT, 12, 1) is None


def test_only_a_changed_topic_is_written_again_and_no_image_is_held():
    cache = MetadataCache()
    first = image(broker(1), broker(2), topic(1, "a", partition(1)), topic(2, "b", partition(2)))
    publish(cache, first)
    cache.rows.frame(cache.image, metadata_request(), CONTEXT, 12, 1)
    kept = cache.rows._listeners["PLAINTEXT"].rows
    untouched = kept[first.topic_id_by_name["a"]]
    changed = topic(2, "b", partition(2, 1))
    publish(cache, replace(first, topics=first.topics.set(changed.topic_id, changed)))
    assert list(kept) == [first.topic_id_by_name["a"]]
    cache.rows.frame(cache.image, metadata_request(), CONTEXT, 12, 1)
    assert kept[first.topic_id_by_name["a"]] is untouched
    assert not {type(one) for one in reachable(cache.rows)} & {Image, Topic, Partition, Broker, Map}
    assert cache.image is not EMPTY


def reachable(start: object) -> list[object]:
    found: dict[int, object] = {}
    waiting: list[object] = [vars(start)]
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not isinstance(one, type):
            found[id(one)] = one
            waiting += gc.get_referents(one)
            waiting += list(getattr(one, "__dict__", {}).values())
    return list(found.values())
