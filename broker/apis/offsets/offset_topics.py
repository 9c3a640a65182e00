"""Topics of requests about offsets: their names and ids, and which of them exist and are allowed.

OffsetCommit and OffsetFetch name topics below version 10; from then on they have ids. Both are read
and answered in the version of the request.
(apache/kafka: core/.../server/KafkaApis.scala, handleOffset*Request)
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final
from uuid import UUID

from broker.apis.access import Access
from broker.clients.call import Call
from coordinator.group.offsets.commits import NO_TOPIC_ID
from coordinator.group.offsets.requests import PartitionCommit, TopicCommit, TopicResult
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from wire.errors import ErrorCode
from wire.types import TopicId

TOPIC_ID_VERSION_MIN: Final = 10
"""First version of OffsetCommit and OffsetFetch with topic ids."""
THROTTLE_VERSION_MIN: Final = 3
"""First version of both with a throttle time."""

Rows = list[TopicResult]


class OffsetTopics:
    """Topics of requests about offsets, in the newest image.

    Args:
        access: asked for topics.
        image: returns the newest image.
    """

    def __init__(self, access: Access, image: Callable[[], Image]) -> None:
        self._access = access
        self._image = image

    def named(self, topic: Any) -> tuple[str, TopicId]:
        """Name and id of a topic as it is asked for; an unknown id has the empty name."""
        if hasattr(topic, "name"):
            return str(topic.name), NO_TOPIC_ID
        topic_id = TopicId((topic.topic_id or UUID(int=0)).bytes)
        found = self._image().topics.get(topic_id)
        return ("" if found is None else found.name), topic_id

    def committed(self, topic: Any) -> tuple[str, TopicId]:
        """As `named`; one without an id has that of now, by which its offsets are told later."""
        if hasattr(topic, "name"):
            return str(topic.name), self.id_of(str(topic.name))
        return self.named(topic)

    def id_of(self, name: str) -> TopicId:
        """Id of a topic; zeros if there is none."""
        return self._image().topic_id_by_name.get(name, NO_TOPIC_ID)

    def error(
        self, call: Call, operation: Operation, name: str, *, has_id: bool
    ) -> ErrorCode | None:
        """The error of a topic that is not known or not allowed; None if it is."""
        if has_id and not name:
            return ErrorCode.unknown_topic_id
        if not self._access.allows_topic(call.caller, operation, name):
            return ErrorCode.topic_authorization_failed
        return None

    def to_commit(
        self, call: Call, asked: Iterable[tuple[str, TopicId, Sequence[Any]]], *, has_id: bool
    ) -> tuple[Rows, list[TopicCommit]]:
        """Refusals of offsets of topics, and the offsets that the coordinator is to judge."""
        refused: Rows = []
        topics: list[TopicCommit] = []
        for name, topic_id, partitions in asked:
            code = self.error(call, Operation.READ, name, has_id=has_id)
            if code is not None:
                refused.append(all_of(name, topic_id, partitions, code))
                continue
            here, unknown = self.split(name, partitions)
            if unknown:
                refused.append(TopicResult(name, topic_id, tuple(unknown)))
            if here:
                commits = _partition_commits(here)
                topics.append(TopicCommit(name=name, topic_id=topic_id, partitions=commits))
        return refused, topics

    def split(
        self, name: str, partitions: Sequence[Any]
    ) -> tuple[list[Any], list[tuple[int, ErrorCode]]]:
        """Partitions that exist, and rows of those that do not."""
        image, unknown = self._image(), ErrorCode.unknown_topic_or_partition
        topic_id = image.topic_id_by_name.get(name)
        known = () if topic_id is None else image.topics[topic_id].partitions
        here: list[Any] = []
        absent: list[tuple[int, ErrorCode]] = []
        for each in partitions:
            if each.partition_index in known:
                here.append(each)
            else:
                absent.append((each.partition_index, unknown))
        return here, absent


def _partition_commits(asked: Sequence[Any]) -> tuple[PartitionCommit, ...]:
    if not hasattr(asked[0], "committed_leader_epoch"):
        return tuple(
            PartitionCommit(
                partition=each.partition_index,
                offset=each.committed_offset,
                metadata=each.committed_metadata,
            )
            for each in asked
        )
    return tuple(
        PartitionCommit(
            partition=each.partition_index,
            offset=each.committed_offset,
            leader_epoch=each.committed_leader_epoch,
            metadata=each.committed_metadata,
        )
        for each in asked
    )


def merged(refused: Rows, results: Iterable[TopicResult]) -> Rows:
    """Rows of one response, one for each topic: refused ones, then those of the coordinator."""
    rows: dict[tuple[str, TopicId], TopicResult] = {}
    for row in chain(refused, results):
        place = (row.name, row.topic_id)
        known = rows.get(place)
        rows[place] = row if known is None else TopicResult(*place, known.codes + row.codes)
    return list(rows.values())


def failed(topics: Iterable[TopicCommit], code: ErrorCode) -> tuple[TopicResult, ...]:
    """One code for all that the coordinator was to judge; what was refused before has its own."""
    return tuple(
        TopicResult(
            topic.name, topic.topic_id, tuple((row.partition, code) for row in topic.partitions)
        )
        for topic in topics
    )


def all_of(name: str, topic_id: TopicId, partitions: Sequence[Any], code: ErrorCode) -> TopicResult:
    """One code for all partitions that are asked for."""
    codes = tuple((int(each.partition_index), code) for each in partitions)
    return TopicResult(name, topic_id, codes)


def named(version: int, name: str, topic_id: TopicId) -> dict[str, Any]:
    """Fields of a topic's row that say which topic it is."""
    if version < TOPIC_ID_VERSION_MIN:
        return {"name": name}
    return {"topic_id": UUID(bytes=topic_id) if topic_id != NO_TOPIC_ID else None}


def throttle(version: int) -> dict[str, Any]:
    """Fields of a response for the throttle time."""
    return {"throttle_time": NO_TIME} if version >= THROTTLE_VERSION_MIN else {}
