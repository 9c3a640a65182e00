"""Invariant of a compacted topic over what its leaders store.

    D8  cleaning keeps the last record of each key, and where each record is: of a key that was
        acknowledged at an offset, the log has a record at or above it, and at it the same value; a
        key that was deleted does not come back; offsets ascend

Replicas clean by themselves, and so have different bytes: D1, D3 and D5 do not look at this topic.
A tombstone may go; then nothing of its key from before it is left.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from metadata.image import Image, Topic
from quorum_controller.topics.internal_topics import INTERNAL
from simulator.checks.violation import Violation
from storage.logs.unified_log import UnifiedLog
from wire.batches.batch import iterate_batches
from wire.types import TopicId

if TYPE_CHECKING:
    from simulator.checks.partitions.records import RecordChecks
    from simulator.records.machine import RecordsMachine

COMPACTED: Final = "compacted"
CLEANED: Final = frozenset({COMPACTED, *INTERNAL})
"""Topics of which every replica is cleaned by itself."""
Stored = dict[bytes | None, dict[int, bytes | None]]
"""Values by offset, by key."""


def plain_topics(image: Image) -> Iterator[tuple[TopicId, Topic]]:
    """The topics of which all replicas have the same bytes."""
    for topic_id, topic in image.topics.items():
        if topic.name not in CLEANED:
            yield topic_id, topic


def application_topics(image: Image) -> Iterator[tuple[TopicId, Topic]]:
    """Those of them that are not topics of coordinators."""
    return (each for each in plain_topics(image) if not each[1].name.startswith("__"))


class CompactedChecks:
    """The check of the compacted topic of a world.

    Args:
        machines: of the world.
        checks: of its records, which know what may be lost.
    """

    def __init__(self, machines: "Mapping[int, RecordsMachine]", checks: "RecordChecks") -> None:
        self._machines = machines
        self._checks = checks
        self._acknowledged: dict[tuple[bytes, int], dict[bytes, tuple[int, bytes | None]]] = {}
        """By partition and key: the highest offset, and the value there; None for a tombstone."""

    def acknowledged(
        self, place: tuple[bytes, int], key: bytes, offset: int, value: bytes | None
    ) -> None:
        """Note what a producer was told; attempts that came too late may be above it."""
        known = self._acknowledged.setdefault(place, {})
        if key not in known or known[key][0] < offset:
            known[key] = offset, value

    def look(self, image: Image) -> None:
        """Check D8 of the leaders of the image.

        Raises:
            Violation: it is broken.
        """
        for place, known in self._acknowledged.items():
            topic = image.topics.get(place[0])  # type: ignore[call-overload]
            if topic is None or self._checks.may_have_lost(place):
                continue
            row = topic.partitions[place[1]]
            reign = self._checks.reign_of(int(row.leader), place)
            if reign is None or reign.leader_epoch != row.leader_epoch:
                continue
            partition = self._checks.partition_at(int(row.leader), place)  # type: ignore[arg-type]
            if partition is not None and partition.log is not None:
                machine = self._machines[int(row.leader)]
                self._compare(machine.id, known, stored(machine, partition.log))

    def _compare(
        self, node: int, known: Mapping[bytes, tuple[int, bytes | None]], found: Stored
    ) -> None:
        for key, (offset, value) in known.items():
            values = found.get(key, {})
            newest = max(values, default=-1)
            text = f"node {node}, key {key!r}, acknowledged {value!r} at {offset}"
            if value is None and (newest < offset) and values:
                raise Violation("D8", f"{text}: {newest} is left of what was deleted")
            if value is not None and newest < offset:
                raise Violation("D8", f"{text}: {newest} is its newest")
            if offset in values and values[offset] != value:
                raise Violation("D8", f"{text}: there is {values[offset]!r}")


def stored(machine: "RecordsMachine", log: UnifiedLog) -> Stored:
    """All records of a log, by the files of its segments, be they on their way into place.

    Raises:
        Violation: D8: offsets do not ascend.
    """
    found: Stored = {}
    end_offset = 0
    for segment in log.log.segments:
        content = machine.vfs.written_content(segment.path)
        assert content is not None, f"{segment.path} is gone"
        for batch in iterate_batches(bytes(content)):
            if batch.header.base_offset < end_offset:
                text = f"node {machine.id}: {batch.header.base_offset} follows {end_offset}"
                raise Violation("D8", text)
            end_offset = batch.header.end_offset
            for record in batch.records():
                found.setdefault(record.key, {})[record.offset] = record.value
    return found
