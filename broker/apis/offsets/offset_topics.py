"""Topics of requests about offsets: their names and ids, and which of them exist and are allowed.

OffsetCommit and OffsetFetch name topics below version 10; from then on they have ids. Both are read
and answered in the version of the request.
(apache/kafka: core/.../server/KafkaApis.scala, handleOffset*Request)
"""

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain
from typing import Any, Final
from uuid import UUID

from broker.apis.access import Access
from broker.clients.call import Call
from coordinator.group.offsets.commits import NO_TOPIC_ID
from coordinator.group.offsets.requests import TopicCommit, TopicResult
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation
from wire.errors import ErrorCode
from wire.messages.offset_commit_request import PartitionCommit
from wire.types import TopicId

TOPIC_ID_VERSION_MIN: Final = 10
"""First version of OffsetCommit and OffsetFetch with topic ids."""
THROTTLE_VERSION_MIN: Final = 3
"""First version of both with a throttle time."""

_NO_EPOCH: Final = -1
_UNKNOWN: Final = ErrorCode.unknown_topic_or_partition

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

    def committed(self, name: str | None, topic_id: TopicId | None) -> tuple[str, TopicId]:
        """Name and id of a topic that has one of them; as `named`.

        One with a name has the id of now, by which its offsets are told from those of a later topic
        of the name.
        """
        if name is not None:
            return name, self.id_of(name)
        assert topic_id is not None, "it has a name or an id"
        found = self._image().topics.get(topic_id)
        return ("" if found is None else found.name), topic_id

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
        self,
        call: Call,
        asked: Iterable[tuple[str, TopicId, tuple[PartitionCommit, ...]]],
        *,
        has_id: bool,
    ) -> tuple[Rows, list[TopicCommit]]:
        """Refusals of offsets of topics, and the offsets that the coordinator is to judge."""
        refused: Rows = []
        topics: list[TopicCommit] = []
        for name, topic_id, commits in asked:
            code = self.error(call, Operation.READ, name, has_id=has_id)
            if code is not None:
                numbers = [each.partition for each in commits]
                refused.append(all_of(name, topic_id, numbers, code))
                continue
            known, here = self._numbers(name), commits
            absent = [each.partition for each in commits if each.partition not in known]
            if absent:
                here = tuple([each for each in commits if each.partition in known])
                refused.append(all_of(name, topic_id, absent, _UNKNOWN))
            if here:
                topics.append(TopicCommit(name=name, topic_id=topic_id, partitions=here))
        return refused, topics

    def split(
        self, name: str, numbers: Iterable[int]
    ) -> tuple[list[int], list[tuple[int, ErrorCode]]]:
        """Partitions that exist, and rows of those that do not."""
        known, here = self._numbers(name), []
        absent: list[tuple[int, ErrorCode]] = []
        for number in numbers:
            if number in known:
                here.append(number)
            else:
                absent.append((number, _UNKNOWN))
        return here, absent

    def _numbers(self, name: str) -> Container[int]:
        """The partitions of a topic; none of one that does not exist."""
        image = self._image()
        topic_id = image.topic_id_by_name.get(name)
        return () if topic_id is None else image.topics[topic_id].partitions


def commits_of(rows: Sequence[Any]) -> tuple[PartitionCommit, ...]:
    """Offsets of a topic as kio has read them, in any version."""
    has_epochs = bool(rows) and hasattr(rows[0], "committed_leader_epoch")
    return tuple(
        PartitionCommit(
            row.partition_index,
            row.committed_offset,
            row.committed_leader_epoch if has_epochs else _NO_EPOCH,
            row.committed_metadata,
        )
        for row in rows
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


def all_of(name: str, topic_id: TopicId, numbers: Iterable[int], code: ErrorCode) -> TopicResult:
    """One code for all partitions that are asked for."""
    return TopicResult(name, topic_id, tuple((int(number), code) for number in numbers))


def named(version: int, name: str, topic_id: TopicId) -> dict[str, Any]:
    """Fields of a topic's row that say which topic it is."""
    if version < TOPIC_ID_VERSION_MIN:
        return {"name": name}
    return {"topic_id": UUID(bytes=topic_id) if topic_id != NO_TOPIC_ID else None}


def throttle(version: int) -> dict[str, Any]:
    """Fields of a response for the throttle time."""
    return {"throttle_time": NO_TIME} if version >= THROTTLE_VERSION_MIN else {}
