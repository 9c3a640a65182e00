"""OffsetFetch.

(apache/kafka: core/.../server/KafkaApis.scala, handleOffsetFetchRequest)
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from broker.apis.access import Access
from broker.apis.offsets.offset_topics import TOPIC_ID_VERSION_MIN, OffsetTopics, named, throttle
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.image import GroupsImage
from coordinator.group.offsets.commits import NO_TOPIC_ID
from coordinator.group.offsets.fetches import NO_OFFSET, fetch_offsets
from coordinator.group.offsets.requests import (
    GroupFetch,
    PartitionOffset,
    TopicFetch,
    TopicOffsets,
)
from coordinator.runtime.write import Write
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import OFFSET_FETCH
from wire.errors import ApiError, ErrorCode
from wire.messages import codec

GROUPS_VERSION_MIN: Final = 8
"""First version with several groups."""
ERROR_VERSION_MIN: Final = 2
"""First version with an error of its own, and with null for all topics."""
LEADER_EPOCH_VERSION_MIN: Final = 5
"""First version with leader epochs."""
_EPOCH_UNKNOWN: Final = -1


class GroupRow(NamedTuple):
    """A group of a response."""

    group_id: str
    code: ErrorCode
    topics: Sequence[TopicOffsets]


class OffsetFetch:
    """Handler of OffsetFetch, versions 1 to 10.

    Args:
        groups: the coordinator.
        access: DESCRIBE of each group and topic is asked for.
        image: returns the newest image.
    """

    def __init__(
        self, groups: GroupCoordinator, access: Access, image: Callable[[], Image]
    ) -> None:
        self._groups = groups
        self._access = access
        self._topics = OffsetTopics(access, image)

    def serve(self, call: Call) -> None:
        """Answer a request, later if it asks for stable offsets and writes are pending."""
        body, version = call.body_as_sent(), call.header.api_version
        asked = body.groups if version >= GROUPS_VERSION_MIN else (body,)
        rows: dict[int, GroupRow] = {}

        def put(index: int, row: GroupRow) -> None:
            rows[index] = row
            if len(rows) == len(asked):
                call.answer(_fetched(version, [rows[each] for each in range(len(asked))]))

        if not asked:
            call.answer(_fetched(version, []))
        is_stable = bool(getattr(body, "require_stable", False))
        for index, group in enumerate(asked):
            self._fetch(call, group, partial(put, index), is_stable=is_stable)
        call.park(forget)

    def _fetch(
        self, call: Call, group: Any, put: Callable[[GroupRow], None], *, is_stable: bool
    ) -> None:
        version, group_id = call.header.api_version, str(group.group_id)
        if not self._access.allows(call.caller, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            put(_group_error(version, group, ErrorCode.group_authorization_failed))
            return
        refused: list[TopicOffsets] = []
        topics = self._asked_topics(call, group, refused)
        fetch = GroupFetch(
            group_id=group_id,
            topics=topics,
            member_id=getattr(group, "member_id", None),
            member_epoch=int(getattr(group, "member_epoch", _EPOCH_UNKNOWN)),
            requires_stable=is_stable,
        )

        def answer(result: tuple[TopicOffsets, ...] | ApiError) -> None:
            if isinstance(result, ApiError):
                code = _fetch_error(result.code) if is_stable else result.code
                put(_group_error(version, group, code))
                return
            found = self._shown(call, result) if topics is None else (*result, *refused)
            put(GroupRow(group_id, ErrorCode.none, found))

        shard = self._groups.of(group_id)
        if isinstance(shard, ApiError):
            answer(shard)
            return
        rules = machine_of(shard).rules
        if not is_stable:
            shard.read(lambda groups: fetch_offsets(groups, fetch, rules), answer)
            return

        def decide(groups: GroupsImage) -> Write[tuple[TopicOffsets, ...]] | ApiError:
            found = fetch_offsets(groups, fetch, rules)
            return found if isinstance(found, ApiError) else Write(response=found)

        shard.write(decide, answer)

    def _asked_topics(
        self, call: Call, group: Any, refused: list[TopicOffsets]
    ) -> tuple[TopicFetch, ...] | None:
        """Topics that the caller may see; rows of the others are added to `refused`."""
        if group.topics is None:
            return None
        has_id = call.header.api_version >= TOPIC_ID_VERSION_MIN
        topics = []
        for topic in group.topics:
            name, topic_id = self._topics.named(topic)
            numbers = tuple(int(number) for number in topic.partition_indexes)
            code = self._topics.error(call, Operation.DESCRIBE, name, has_id=has_id)
            if code is None:
                topics.append(TopicFetch(name, topic_id, numbers))
            else:
                refused.append(TopicOffsets(name, topic_id, _no_offsets(numbers, code)))
        return tuple(topics)

    def _shown(self, call: Call, found: tuple[TopicOffsets, ...]) -> tuple[TopicOffsets, ...]:
        """Of all topics of a group those that the caller may see, with their ids if they have."""
        has_id = call.header.api_version >= TOPIC_ID_VERSION_MIN
        shown = []
        for topic in found:
            if not self._access.allows_topic(call.caller, Operation.DESCRIBE, topic.name):
                continue
            topic_id = self._topics.id_of(topic.name)
            if not has_id or topic_id != NO_TOPIC_ID:
                shown.append(TopicOffsets(topic.name, topic_id, topic.partitions))
        return tuple(shown)


def _fetch_error(code: ErrorCode) -> ErrorCode:
    """Clients before 3.9 retry only NOT_COORDINATOR (GroupCoordinatorService)."""
    unavailable = code is ErrorCode.coordinator_not_available
    return ErrorCode.not_coordinator if unavailable else code


def _no_offsets(numbers: Iterable[int], code: ErrorCode) -> tuple[PartitionOffset, ...]:
    return tuple(PartitionOffset(number, code, NO_OFFSET, _EPOCH_UNKNOWN, "") for number in numbers)


def _group_error(version: int, group: Any, code: ErrorCode) -> GroupRow:
    """A group that is refused; in version 1 each of its partitions is."""
    if version >= ERROR_VERSION_MIN:
        return GroupRow(str(group.group_id), code, ())
    rows = tuple(
        TopicOffsets(
            str(topic.name), NO_TOPIC_ID, _no_offsets(map(int, topic.partition_indexes), code)
        )
        for topic in group.topics
    )
    return GroupRow(str(group.group_id), ErrorCode.none, rows)


def _fetched(version: int, groups: Sequence[GroupRow]) -> Any:
    new: Any = codec.response_module(OFFSET_FETCH, version)
    if version >= GROUPS_VERSION_MIN:
        rows = tuple(
            new.OffsetFetchResponseGroup(
                group_id=group_id,
                error_code=code,
                topics=_offset_rows(
                    version,
                    topics,
                    new.OffsetFetchResponseTopics,
                    new.OffsetFetchResponsePartitions,
                ),
            )
            for group_id, code, topics in groups
        )
        return new.OffsetFetchResponse(throttle_time=NO_TIME, groups=rows)
    ((_, code, topics),) = groups
    error = {"error_code": code} if version >= ERROR_VERSION_MIN else {}
    return new.OffsetFetchResponse(
        topics=_offset_rows(
            version, topics, new.OffsetFetchResponseTopic, new.OffsetFetchResponsePartition
        ),
        **error,
        **throttle(version),
    )


def _offset_rows(
    version: int, topics: Sequence[TopicOffsets], topic_class: Any, partition_class: Any
) -> tuple[Any, ...]:
    def partition(row: PartitionOffset) -> Any:
        has_epoch = version >= LEADER_EPOCH_VERSION_MIN
        return partition_class(
            partition_index=row.partition,
            committed_offset=row.offset,
            metadata=row.metadata,
            error_code=row.code,
            **({"committed_leader_epoch": row.leader_epoch} if has_epoch else {}),
        )

    return tuple(
        topic_class(
            **named(version, topic.name, topic.topic_id),
            partitions=tuple(map(partition, topic.partitions)),
        )
        for topic in topics
    )
