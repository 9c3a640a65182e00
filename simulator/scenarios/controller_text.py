"""Metadata records, images and answers of the controller as lines of text.

A record shows the fields that differ from their defaults. Ids of 16 bytes have names: `T1` is the
first topic id that was made, `D2` the directory of broker 2, `I2` its incarnation.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from metadata.image import Image, Partition, Topic
from metadata.records import Record
from wire import api_keys
from wire.types import ZERO_UUID


class IdNames:
    """Names of ids, in the order in which they were made."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {ZERO_UUID: "-"}
        self._topic_count = 0

    def new_topic_id(self) -> bytes:
        """Make the next topic id; its name is T1, T2, ..."""
        self._topic_count += 1
        return self.fixed("T", self._topic_count)

    def fixed(self, letter: str, number: int) -> bytes:
        """Make the id that `letter` and `number` name."""
        value = letter.encode() + number.to_bytes(15, "big")
        self._names[value] = f"{letter}{number}"
        return value

    def name(self, value: bytes) -> str:
        """Name of an id; the number of a reserved one."""
        return self._names.get(value, f"reserved-{int.from_bytes(value, 'big')}")


def value_text(value: Any, names: IdNames) -> str:
    """Text of a field: ids by name, lists in brackets, nested structs as `(name=value ...)`."""
    if isinstance(value, bytes):
        return names.name(value)
    if isinstance(value, tuple):
        return "[" + ",".join(value_text(part, names) for part in value) + "]"
    if isinstance(value, msgspec.Struct):
        return "(" + _fields_text(value, names) + ")"
    return "-" if value is None else str(value)


def _fields_text(struct: msgspec.Struct, names: IdNames) -> str:
    """Text of the fields that differ from their defaults."""
    shown = []
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if field.name != "unknown_tags" and value != field.default:
            shown.append(f"{field.name}={value_text(value, names)}")
    return " ".join(shown)


def record_text(record: Record, names: IdNames) -> str:
    """One record as one line."""
    return f"{type(record).__name__} {_fields_text(record, names)}".rstrip()


def image_lines(image: Image) -> list[str]:
    """Brokers and partitions of an image, sorted."""
    lines = []
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        words = [f"broker {broker_id} epoch={broker.epoch}"]
        words += ["fenced"] if broker.fenced else []
        words += ["in_controlled_shutdown"] if broker.in_controlled_shutdown else []
        lines.append(" ".join(words))
    for name in sorted(image.topic_id_by_name):
        topic: Topic = image.topics[image.topic_id_by_name[name]]
        for partition_id in sorted(topic.partitions):
            partition = topic.partitions[partition_id]
            lines.append(f"{name}-{partition_id} {_partition_text(partition)}")
    return lines


def _partition_text(partition: Partition) -> str:
    """Replicas, ISR, leader and epochs."""
    replicas, isr = (list(ids) for ids in (partition.replicas, partition.isr))
    return (
        f"replicas={replicas} isr={isr} leader={partition.leader} "
        f"leader_epoch={partition.leader_epoch} partition_epoch={partition.partition_epoch}"
    ).replace(", ", ",")


def _create_topics(body: Any) -> str:
    return ", ".join(f"{topic.name} {topic.error_code.name.upper()}" for topic in body.topics)


def _delete_topics(body: Any) -> str:
    return ", ".join(f"{topic.name} {topic.error_code.name.upper()}" for topic in body.responses)


def _registration(body: Any) -> str:
    return f"{body.error_code.name.upper()} broker_epoch={body.broker_epoch}"


def _heartbeat(body: Any) -> str:
    return (
        f"{body.error_code.name.upper()} caught_up={body.is_caught_up} fenced={body.is_fenced} "
        f"should_shut_down={body.should_shut_down}"
    )


def _unregistration(body: Any) -> str:
    return str(body.error_code.name.upper())


_ANSWERS: Final[dict[int, Callable[[Any], str]]] = {
    api_keys.CREATE_TOPICS: _create_topics,
    api_keys.DELETE_TOPICS: _delete_topics,
    api_keys.BROKER_REGISTRATION: _registration,
    api_keys.BROKER_HEARTBEAT: _heartbeat,
    api_keys.UNREGISTER_BROKER: _unregistration,
}


def answer_text(api_key: int, body: Any) -> str:
    """An answer as one line."""
    return _ANSWERS[api_key](body)
