"""Invariants of every image, checked from scratch: for tests and the simulator.

INV-MD-1  `topic_id_by_name` and `topic_names_by_normalised` are those that `topics` yields.
INV-MD-2  every partition has one directory per replica; isr, elr, adding and removing are replicas,
          no member is there twice, and none is in isr and elr.
INV-MD-3  a leader is in the ISR.
INV-MD-4  no owner of configs or quotas is empty; topic configs belong to live topics.
INV-MD-5  keys equal the ids in their values; no two brokers share a directory.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from metadata.image import CONFIG_TOPIC, Image, Partition, normalised_topic_name, sorted_items

_MEMBERSHIPS: Final = ("replicas", "isr", "elr", "adding_replicas", "removing_replicas")
"""Fields of a partition that hold replicas."""


def violations(image: Image, sound: Image | None = None) -> list[str]:
    """One line per broken invariant, empty for a sound image.

    Args:
        image: to be checked.
        sound: an image without violations, usually the previous one. Objects that both share are
            not checked again: images share everything that did not change.
    """
    return [
        *_index_violations(image, sound),
        *_partition_violations(image, sound),
        *_settings_violations(image, sound),
        *_registration_violations(image, sound),
    ]


def _shares(image: Image, sound: Image | None, *names: str) -> bool:
    """True if both images hold the same objects in these fields."""
    if sound is None:
        return False
    return all(getattr(image, name) is getattr(sound, name) for name in names)


def _index_violations(image: Image, sound: Image | None) -> Iterator[str]:
    if _shares(image, sound, "topics", "topic_id_by_name", "topic_names_by_normalised"):
        return
    by_name = {topic.name: topic_id for topic_id, topic in image.topics.items()}
    if len(by_name) != len(image.topics):
        yield "INV-MD-1 two topics share a name"
    if dict(image.topic_id_by_name) != by_name:
        yield "INV-MD-1 topic_id_by_name is not what topics give"
    by_normalised: dict[str, tuple[str, ...]] = {}
    for name in sorted(by_name):
        key = normalised_topic_name(name)
        by_normalised[key] = (*by_normalised.get(key, ()), name)
    if dict(image.topic_names_by_normalised) != by_normalised:
        yield "INV-MD-1 topic_names_by_normalised is not what topics give"


def _partition_violations(image: Image, sound: Image | None) -> Iterator[str]:
    if _shares(image, sound, "topics"):
        return
    known = {} if sound is None else sound.topics
    fresh = (
        (topic_id, topic)
        for topic_id, topic in image.topics.items()
        if topic is not known.get(topic_id)
    )
    for topic_id, topic in sorted(fresh, key=itemgetter(0)):
        if topic.topic_id != topic_id:
            yield f"INV-MD-5 topic {topic.name} is stored under another id"
        for partition_id, partition in sorted_items(topic.partitions):
            for text in _one_partition(partition):
                yield f"{text}: {topic.name}-{partition_id}"


def _one_partition(partition: Partition) -> Iterator[str]:
    replicas = set(partition.replicas)
    if len(partition.directories) != len(partition.replicas):
        yield "INV-MD-2 directories do not pair with replicas"
    for name in _MEMBERSHIPS:
        members = getattr(partition, name)
        if not replicas.issuperset(members):
            yield f"INV-MD-2 {name} has a member that is no replica"
        if len(set(members)) != len(members):
            yield f"INV-MD-2 {name} has a member twice"
    if not set(partition.isr).isdisjoint(partition.elr):
        yield "INV-MD-2 a member of the ISR is in the ELR"
    if partition.has_leader and partition.leader not in partition.isr:
        yield "INV-MD-3 the leader is not in the ISR"


def _settings_violations(image: Image, sound: Image | None) -> Iterator[str]:
    if _shares(image, sound, "configs", "topic_id_by_name", "client_quotas", "features"):
        return
    for (resource_type, name), configs in sorted_items(image.configs):
        if not configs:
            yield f"INV-MD-4 no configs under {resource_type} {name!r}"
        if resource_type == CONFIG_TOPIC and name not in image.topic_id_by_name:
            yield f"INV-MD-4 configs of topic {name!r}, which does not exist"
    if any(not quotas for quotas in image.client_quotas.values()):
        yield "INV-MD-4 a quota entity without quotas"
    if any(level <= 0 for level in image.features.values()):
        yield "INV-MD-4 a feature at level 0 or below"


def _registration_violations(image: Image, sound: Image | None) -> Iterator[str]:
    if _shares(image, sound, "brokers", "controllers"):
        return
    owners: dict[bytes, int] = {}
    for broker_id, broker in sorted_items(image.brokers):
        if broker.id != broker_id:
            yield f"INV-MD-5 broker {broker.id} is stored as {broker_id}"
        for directory in broker.log_dirs:
            other = owners.setdefault(directory, broker_id)
            if other != broker_id:
                yield f"INV-MD-5 brokers {other} and {broker_id} share a directory"
    for controller_id, controller in sorted_items(image.controllers):
        if controller.id != controller_id:
            yield f"INV-MD-5 controller {controller.id} is stored as {controller_id}"
