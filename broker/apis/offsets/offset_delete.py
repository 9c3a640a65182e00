"""OffsetDelete.

(apache/kafka: core/.../server/KafkaApis.scala, handleOffsetDeleteRequest)
"""

from collections.abc import Callable
from typing import Any

from broker.apis.access import Access
from broker.apis.offsets.offset_topics import OffsetTopics, Rows, all_of, merged
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.offsets.commits import NO_TOPIC_ID
from coordinator.group.offsets.requests import TopicResult
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import OFFSET_DELETE
from wire.errors import ApiError, ErrorCode
from wire.messages import codec


class OffsetDelete:
    """Handler of OffsetDelete, version 0.

    Args:
        groups: the coordinator.
        access: DELETE of the group and READ of each topic is asked for.
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
        body = call.body()
        group_id = str(body.group_id)
        if not self._access.allows(call.caller, Operation.DELETE, ResourceType.GROUP, group_id):
            call.answer(_deleted([], ErrorCode.group_authorization_failed))
            return
        refused: Rows = []
        topics: list[tuple[str, list[int]]] = []
        for topic in body.topics:
            name, numbers = str(topic.name), [each.partition_index for each in topic.partitions]
            code = self._topics.error(call, Operation.READ, name, has_id=False)
            if code is not None:
                refused.append(all_of(name, NO_TOPIC_ID, numbers, code))
                continue
            here, unknown = self._topics.split(name, numbers)
            if unknown:
                refused.append(TopicResult(name, NO_TOPIC_ID, tuple(unknown)))
            if here:
                topics.append((name, here))

        def answer(result: tuple[TopicResult, ...] | ApiError) -> None:
            if isinstance(result, ApiError):
                call.answer(_deleted([], result.code))
            else:
                call.answer(_deleted(merged(refused, result), ErrorCode.none))

        if not group_id:
            answer(ApiError(ErrorCode.invalid_group_id))
            return
        shard = self._groups.of(group_id)
        if isinstance(shard, ApiError):
            answer(shard)
            return
        machine = machine_of(shard)
        shard.write(lambda groups: machine.delete_offsets(groups, group_id, topics), answer)
        call.park(forget)


def _deleted(rows: Rows, code: ErrorCode) -> Any:
    new = codec.newest(OFFSET_DELETE, "response")
    return new.OffsetDeleteResponse(
        error_code=code,
        throttle_time=NO_TIME,
        topics=tuple(
            new.OffsetDeleteResponseTopic(
                name=row.name,
                partitions=tuple(
                    new.OffsetDeleteResponsePartition(partition_index=number, error_code=each)
                    for number, each in row.codes
                ),
            )
            for row in rows
        ),
    )
