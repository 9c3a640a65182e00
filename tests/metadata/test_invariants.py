"""Invariants of an image: each rule broken once, whole and beside a sound image."""

import pytest
from immutables import Map
from msgspec.structs import replace

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import CONFIG_TOPIC, EMPTY
from metadata.invariants import violations
from metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)

A, B = b"\x0a" * 16, b"\x0b" * 16
RECORDS = (
    FeatureLevelRecord(name="metadata.version", feature_level=21),
    RegisterBrokerRecord(broker_id=1, incarnation_id=bytes(16), broker_epoch=1, log_dirs=(A,)),
    RegisterBrokerRecord(broker_id=2, incarnation_id=bytes(16), broker_epoch=2, log_dirs=(B,)),
    RegisterControllerRecord(controller_id=3, incarnation_id=bytes(16)),
    *(TopicRecord(name=name, topic_id=topic_id) for name, topic_id in (("a", A), ("b", B))),
    *(
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=(1, 2),
            isr=(1, 2),
            directories=(A, B),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        for topic_id in (A, B)
    ),
    ConfigRecord(resource_type=CONFIG_TOPIC, resource_name="a", name="retention.ms", value="7"),
)
SOUND = apply_all(EMPTY, RECORDS, 0, MetadataDelta())


def with_partition(**more):
    topic = SOUND.topics[B]
    other = replace(topic.partitions[0], **more)
    topic = replace(topic, partitions=topic.partitions.set(0, other))
    return replace(SOUND, topics=SOUND.topics.set(B, topic))


def with_broker(**more):
    return replace(SOUND, brokers=SOUND.brokers.set(2, replace(SOUND.brokers[2], **more)))


NO_CONFIGS = SOUND.configs.set((CONFIG_TOPIC, "b"), Map())
STRANGE_CONFIGS = SOUND.configs.set((CONFIG_TOPIC, "c"), Map({"retention.ms": "7"}))
OTHER_ID = replace(SOUND, topics=SOUND.topics.set(B, replace(SOUND.topics[B], topic_id=A)))
SAME_NAME = replace(SOUND, topics=SOUND.topics.set(B, replace(SOUND.topics[B], name="a")))
UNSOUND = [
    (SAME_NAME, "INV-MD-1 two topics share a name"),
    (replace(SOUND, topic_id_by_name=Map({"a": A})), "INV-MD-1 topic_id_by_name is not"),
    (replace(SOUND, topic_names_by_normalised=Map()), "INV-MD-1 topic_names_by_normalised is not"),
    (with_partition(replicas=(1, 1)), "INV-MD-2 replicas has a member twice: b-0"),
    (with_partition(directories=(A,)), "INV-MD-2 directories do not pair with replicas: b-0"),
    *(
        (with_partition(**{name: (1, 3)}), f"INV-MD-2 {name} has a member that is no replica: b-0")
        for name in ("isr", "elr", "adding_replicas", "removing_replicas")
    ),
    *(
        (with_partition(**{name: (1, 2, 1)}), f"INV-MD-2 {name} has a member twice: b-0")
        for name in ("isr", "elr", "adding_replicas", "removing_replicas")
    ),
    (with_partition(isr=(1,), elr=(2, 1)), "INV-MD-2 a member of the ISR is in the ELR: b-0"),
    (with_partition(isr=(2,)), "INV-MD-3 the leader is not in the ISR: b-0"),
    (replace(SOUND, configs=NO_CONFIGS), f"INV-MD-4 no configs under {CONFIG_TOPIC} 'b'"),
    (replace(SOUND, configs=STRANGE_CONFIGS), "INV-MD-4 configs of topic 'c', which does not"),
    (
        replace(SOUND, client_quotas=Map({(("user", "u"),): Map()})),
        "INV-MD-4 a quota entity without quotas",
    ),
    (replace(SOUND, features=SOUND.features.set("f", 0)), "INV-MD-4 a feature at level 0 or below"),
    (OTHER_ID, "INV-MD-5 topic b is stored under another id"),
    (with_broker(id=4), "INV-MD-5 broker 4 is stored as 2"),
    (with_broker(log_dirs=(A,)), "INV-MD-5 brokers 1 and 2 share a directory"),
    (
        replace(SOUND, controllers=SOUND.controllers.set(5, SOUND.controllers[3])),
        "INV-MD-5 controller 3 is stored as 5",
    ),
]


def test_a_sound_image_breaks_nothing():
    assert violations(EMPTY) == violations(SOUND) == violations(SOUND, EMPTY) == []
    moving = with_partition(isr=(1,), elr=(2,), adding_replicas=(2,), removing_replicas=(1,))
    assert violations(moving) == []


@pytest.mark.parametrize(("image", "text"), UNSOUND)
def test_each_rule_is_found_broken_whole_and_beside_a_sound_image(image, text):
    found = violations(image)
    assert any(line.startswith(text) for line in found)
    assert violations(image, SOUND) == found


def test_a_topic_that_is_gone_takes_its_name_out_of_the_indexes():
    image = replace(SOUND, topics=SOUND.topics.delete(B))
    assert any("INV-MD-1" in line for line in violations(image, SOUND))


@pytest.mark.parametrize(("image", "text"), UNSOUND)
def test_what_two_images_share_is_not_looked_at_again(image, text):
    del text
    assert violations(replace(image, producer_ids=7), image) == []
