"""Targets of replicas: reassignment files, JSON texts, a proposal for new brokers."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from typing_extensions import override

from cli.admin.json_files import (
    is_id,
    partition_of,
    read_json,
    rows_of,
)
from cli.arguments import UsageError, shortened

Plan = dict[tuple[str, int], tuple[int, ...]]
"""(topic, partition) -> replicas, the preferred leader first."""


class Replica(NamedTuple):
    """One replica of a partition."""

    topic: str
    partition: int
    broker: int

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


LogDirs = dict[Replica, str]
"""Log directories of replicas on their brokers; a replica that may be in any is not there."""
ANY: Final = "any"


class Reassignment(NamedTuple):
    """Content of a --reassignment-json-file."""

    plan: Plan
    log_dirs: LogDirs


def by_broker(replica: Replica) -> tuple[int, str, int]:
    """Key of the order in which Kafka's tool lists replicas."""
    return replica.broker, replica.topic, replica.partition


def read_plan(path: str) -> Reassignment:
    """Read the moves of a --reassignment-json-file.

    Raises:
        UsageError: the file has another form, or a move that cannot be meant.
    """
    plan: Plan = {}
    log_dirs: LogDirs = {}
    for row in rows_of(path, read_json(path), "partitions"):
        key = partition_of(path, row)
        name = f"{key[0]}-{key[1]}"
        replicas = row.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(map(is_id, replicas)):
            raise UsageError(f"{path}: 'replicas' of {name} is not a list of broker ids")
        twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
        if twice:
            raise UsageError(
                f"Partition replica lists may not contain duplicate entries: {name} contains "
                f"multiple entries for {','.join(map(str, twice))}"
            )
        if key in plan:
            raise UsageError(f"Partition reassignment contains duplicate topic partitions: {name}")
        plan[key] = tuple(replicas)
        for broker, folder in zip(replicas, _log_dirs(path, row, name), strict=True):
            if folder != ANY:
                log_dirs[Replica(*key, broker)] = folder
    return Reassignment(plan, log_dirs)


def _log_dirs(path: str, row: dict[str, Any], name: str) -> list[str]:
    """The directories of a row, as many as its replicas."""
    replicas = row["replicas"]
    folders = row.get("log_dirs", [ANY] * len(replicas))
    if not isinstance(folders, list) or not all(isinstance(entry, str) for entry in folders):
        raise UsageError(f"{path}: 'log_dirs' of {name} is not a list of log directories")
    if len(folders) != len(replicas):
        raise UsageError(
            f"Size of replicas list [{_listed(replicas)}] is different from size of log dirs list "
            f"[{_listed(folders)}] for partition {name}"
        )
    return folders


def _listed(values: Sequence[Any]) -> str:
    return shortened(", ".join(map(str, values)))


def read_topics(path: str) -> list[str]:
    """Read the topics of a --topics-to-move-json-file.

    Raises:
        UsageError: the file has another form, or names a topic twice.
    """
    names: list[str] = []
    for row in rows_of(path, read_json(path), "topics"):
        name = row.get("topic")
        if not isinstance(name, str) or not name:
            raise UsageError(f"{path}: 'topic' is {name!r}, not a name")
        if name in names:
            raise UsageError(f"List of topics to reassign contains duplicate entries: {name}")
        names.append(name)
    return names


def broker_ids(text: str) -> list[int]:
    """Broker ids of `1,2,3`.

    Raises:
        UsageError: an entry is not a broker id, or one is named twice.
    """
    found: list[int] = []
    for entry in text.split(","):
        number = entry.strip()
        if not (number.isascii() and number.isdigit() and is_id(int(number[:12]))):
            raise UsageError(f"--broker-list: '{number[:80]}' is not the id of a broker")
        if int(number) in found:
            raise UsageError(f"Broker list contains duplicate entries: {number}")
        found.append(int(number))
    return found


def sorted_partitions(plan: Mapping[tuple[str, int], Any]) -> list[tuple[str, int]]:
    """Partitions sorted by topic and number."""
    return sorted(plan)


def assignment_json(
    plan: Mapping[tuple[str, int], Sequence[int]],
    folders: Mapping[Replica, str] | None = None,
) -> str:
    """The text of a --reassignment-json-file, as Kafka writes it.

    Args:
        plan: replicas by topic and number.
        folders: log directories of replicas; `any` for an unknown one.
    """
    known = folders or {}
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(plan[topic, partition]),
            "log_dirs": [
                known.get(Replica(topic, partition, broker), ANY)
                for broker in plan[topic, partition]
            ],
        }
        for topic, partition in sorted_partitions(plan)
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))


def proposed(
    current: Plan, racks: Mapping[int, str | None], rng: Random, *, is_rack_aware: bool
) -> Plan:
    """An assignment of the same partitions to the given brokers, with as many replicas as now.

    Raises:
        ValueError: too few brokers, or only some have a rack; the text is shown to the person.
        (apache/kafka: server-common/.../AdminUtils.java)
    """
    with_rack = [broker for broker, rack in racks.items() if rack is not None]
    if is_rack_aware and with_rack and len(with_rack) < len(racks):
        raise ValueError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    place_by = dict(racks) if is_rack_aware and with_rack else dict.fromkeys(racks, None)
    plan: Plan = {}
    for topic in sorted({topic for topic, _ in current}):
        numbers = [partition for name, partition in sorted_partitions(current) if name == topic]
        factor = len(current[topic, numbers[0]])
        if factor > len(racks):
            raise ValueError(
                f"Replication factor: {factor} larger than available brokers: {len(racks)}."
            )
        for number, replicas in zip(
            numbers, _placed(len(numbers), factor, place_by, rng), strict=True
        ):
            plan[topic, number] = replicas
    return plan


def _placed(
    partitions: int, factor: int, racks: dict[int, str | None], rng: Random
) -> list[tuple[int, ...]]:
    """Replicas, round robin over brokers ordered by alternating racks, from a random start."""
    order = _alternating(racks)
    count = len(order)
    has_racks = any(rack is not None for rack in racks.values())
    rack_count = len(set(racks.values())) if has_racks else count
    start, shift = rng.randrange(count), rng.randrange(count)
    found = []
    for number in range(partitions):
        if number > 0 and number % count == 0:
            shift += 1
        first = (number + start) % count
        replicas = [order[first]]
        step = 0
        while len(replicas) < factor:
            offset = 1 + (shift * (rack_count if has_racks else 1) + step) % (count - 1)
            broker = order[(first + offset) % count]
            step += 1
            used = {racks[replica] for replica in replicas}
            is_new_rack = not has_racks or racks[broker] not in used or len(used) == rack_count
            if broker not in replicas and is_new_rack:
                replicas.append(broker)
        found.append(tuple(replicas))
    return found


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    order: list[int] = []
    for index in range(max(map(len, by_rack.values()))):
        order += [brokers[index] for _, brokers in sorted(by_rack.items()) if index < len(brokers)]
    return order
