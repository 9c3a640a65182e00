"""OffsetCommit.

(apache/kafka: core/.../server/KafkaApis.scala, handleOffsetCommitRequest)
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker.apis.access import Access
from broker.apis.offsets.offset_topics import (
    TOPIC_ID_VERSION_MIN,
    OffsetTopics,
    Rows,
    all_of,
    commits_of,
    failed,
    merged,
)
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.offsets.commits import NO_TOPIC_ID, commit_offsets
from coordinator.group.offsets.requests import (
    Commit,
    Committer,
    TopicResult,
)
from metadata.image import Image
from quorum_controller.security.authorization import Operation, ResourceType
from wire.errors import ApiError, ErrorCode
from wire.messages.offset_commit_request import (
    CommittedTopic,
    PartitionCommit,
    read_plain_commit,
)
from wire.messages.offset_commit_response import encode_offset_commit_response
from wire.types import TopicId, milliseconds

RETENTION_VERSIONS: Final = range(2, 5)
"""Versions with a retention time."""
NO_RETENTION: Final = -1


class OffsetCommit:
    """Handler of OffsetCommit, versions 2 to 10.

    Args:
        groups: the coordinator.
        access: READ of the group and of each topic is asked for.
        image: returns the newest image.
    """

    def __init__(
        self, groups: GroupCoordinator, access: Access, image: Callable[[], Image]
    ) -> None:
        self._groups = groups
        self._access = access
        self._topics = OffsetTopics(access, image)

    def serve(self, call: Call) -> None:
        """Answer a request, maybe later."""
        version = call.header.api_version
        plain = read_plain_commit(version, call.frame, call.position)
        body: Any = plain or call.body_as_sent()
        rows = body.topics if plain is not None else map(_topic_of, body.topics)
        committed = self._topics.committed
        asked = [(*committed(each.name, each.topic_id), each.partitions) for each in rows]
        group_id, has_id = str(body.group_id), version >= TOPIC_ID_VERSION_MIN
        if not self._access.allows(call.caller, Operation.READ, ResourceType.GROUP, group_id):
            _answer(call, _denied(asked))
            return
        refused, topics = self._topics.to_commit(call, asked, has_id=has_id)
        if not topics:
            _answer(call, merged(refused, ()))
            return
        commit = Commit(
            group_id=group_id,
            committer=Committer(
                member_id=str(body.member_id),
                group_instance_id=getattr(body, "group_instance_id", None),
                generation_id=int(body.generation_id_or_member_epoch),
                api_version=version,
            ),
            topics=tuple(topics),
            retention_ms=_retention_ms(body, version),
        )

        def answer(result: tuple[TopicResult, ...] | ApiError) -> None:
            rows = failed(topics, result.code) if isinstance(result, ApiError) else result
            _answer(call, merged(refused, rows))

        self._commit(call, commit, answer)

    def _commit(
        self,
        call: Call,
        commit: Commit,
        answer: Callable[[tuple[TopicResult, ...] | ApiError], None],
    ) -> None:
        shard = self._groups.of(commit.group_id)
        if isinstance(shard, ApiError):
            answer(shard)
            return
        rules, clock = machine_of(shard).rules, shard.clock
        metadata_max = self._groups.config.offsets.metadata_max
        shard.write(
            lambda groups: commit_offsets(
                groups, commit, rules, metadata_max=metadata_max, wall_ms=clock.wall_ms
            ),
            answer,
        )
        call.park(forget)


def _topic_of(topic: Any) -> CommittedTopic:
    """A topic as kio has read it."""
    rows = commits_of(topic.partitions)
    if hasattr(topic, "name"):
        return CommittedTopic(str(topic.name), None, rows)
    topic_id = NO_TOPIC_ID if topic.topic_id is None else TopicId(topic.topic_id.bytes)
    return CommittedTopic(None, topic_id, rows)


def _denied(asked: Iterable[tuple[str, TopicId, Iterable[PartitionCommit]]]) -> Rows:
    code = ErrorCode.group_authorization_failed
    return [
        all_of(name, topic_id, [each.partition for each in rows], code)
        for name, topic_id, rows in asked
    ]


def _retention_ms(body: Any, version: int) -> int | None:
    if version not in RETENTION_VERSIONS:
        return None
    retention_ms = milliseconds(body.retention_time)
    return None if retention_ms == NO_RETENTION else retention_ms


def _answer(call: Call, rows: Rows) -> None:
    throttle_ms = 0 if call.throttle is None else call.throttle.answered()
    topics = [(row.name, row.topic_id, row.codes) for row in rows]
    codes = [code for row in rows for _, code in row.codes]
    for code in dict.fromkeys(codes):
        call.count(code, codes.count(code))
    version = call.header.api_version
    call.answer_parts([encode_offset_commit_response(version, topics, throttle_ms)])
