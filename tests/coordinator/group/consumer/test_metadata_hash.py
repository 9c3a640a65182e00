"""Hashes of topics and groups: those of Kafka's Utils, and what the cache asks anew."""

import msgspec
from immutables import Map

from coordinator.group.consumer.metadata_hash import TopicHashes, group_hash, topic_hash
from metadata.image import Image, Partition, Topic
from tests.coordinator.group.consumer.driver import cluster_of
from wire.types import NodeId, TopicId

ID = TopicId(bytes.fromhex("0102030405060708f9fafbfcfdfeff00"))


def topic(*replicas: tuple[int, ...]) -> Topic:
    partitions = {
        number: Partition(replicas=tuple(map(NodeId, nodes)), isr=())
        for number, nodes in enumerate(replicas)
    }
    return Topic(ID, "foo", Map(partitions))


RACKS = {NodeId(1): "r2", NodeId(2): "r10", NodeId(3): "ü😀", NodeId(4): None}


def test_hashes_are_those_that_kafka_computes() -> None:
    """Values of Utils.computeTopicHash and computeGroupHash, 4.3.1."""
    with_racks = topic((1, 2, 1), (4, 3), (9,))
    assert topic_hash(with_racks, RACKS) == 2660618246205444171
    assert topic_hash(topic((1, 2, 1), (), ()), RACKS) == 7646110364811225267
    assert group_hash({"foo": 2660618246205444171, "bar": 5}) == 990421101619793186
    assert group_hash({"bar": 5, "foo": 2660618246205444171}) == 990421101619793186
    assert group_hash({"foo": 2**64 - 1}) == 5841669975847748627
    assert group_hash({}) == 0


def test_a_hash_is_an_int64() -> None:
    found = [group_hash({"t": number}) for number in range(64)]
    assert min(found) < 0 < max(found)
    assert all(-(2**63) <= value < 2**63 for value in found)


def hash_of(hashes: TopicHashes, cluster: Image) -> int:
    return hashes.of_group(["b", "a", "none"], cluster)


def test_kept_hashes_are_those_of_the_topics_as_they_are() -> None:
    hashes, clusters = TopicHashes(), [
        cluster_of({"a": 1}),
        cluster_of({"a": 1, "b": 1}),
        cluster_of({"a": 2, "b": 1}),
        cluster_of({"b": 1}),
        cluster_of({"a": 1}),
        cluster_of({}),
    ]  # fmt: skip
    found = [hash_of(hashes, cluster) for cluster in clusters]
    assert found == [hash_of(TopicHashes(), cluster) for cluster in clusters]
    assert found[0] == found[4]
    assert found[5] == 0
    assert len(set(found)) == 5


def test_a_topic_that_is_the_same_is_not_hashed_again() -> None:
    """So a broker's new rack counts from the next change of the topic on."""
    hashes = TopicHashes()
    cluster = cluster_of({"a": 1})
    before = hash_of(hashes, cluster)
    brokers = Map({NodeId(1): msgspec.defstruct("Broker", [("rack", str)])("r9")})
    racked = msgspec.structs.replace(cluster, brokers=brokers)
    assert hash_of(hashes, racked) == before
    assert hash_of(TopicHashes(), racked) != before
