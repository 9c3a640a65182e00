"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of KIP-848.

Served once `group.version` is 1, by a broker whose `group.coordinator.rebalance.protocols` has it.
READ of the group, and DESCRIBE of each topic that is subscribed by name, is asked of a member;
DESCRIBE of the group and of its topics, of who describes it.
(apache/kafka: core/.../server/KafkaApis.scala, handleConsumerGroupHeartbeat and -Describe;
group-coordinator/.../GroupCoordinatorService.java)
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from kio.schema.consumer_group_describe.v1.response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kio.static.primitive import i32

from broker.apis.access import Access
from broker.apis.groups.group_operations import group_operations
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer, heartbeat_error
from coordinator.group.consumer.responses import (
    described_error,
    heartbeat_of,
    heartbeat_response,
)
from metadata.features import GROUP_VERSION
from metadata.image import Image
from metadata.json_form import uuid_text
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Caller, Operation, ResourceType
from wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

DENIED_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


class ConsumerGroupApis:
    """Handlers of the two requests.

    Args:
        groups: the coordinator.
        access: asked for groups and topics.
        image: returns the newest image.
        new_uuid: makes a random UUID, for the id of a member of version 0 that has none.
    """

    def __init__(
        self,
        groups: GroupCoordinator,
        access: Access,
        image: Callable[[], Image],
        new_uuid: Callable[[], bytes],
    ) -> None:
        self._groups = groups
        self._access = access
        self._image = image
        self._new_uuid = new_uuid

    def heartbeat(self, call: Call) -> None:
        """ConsumerGroupHeartbeat, versions 0 and 1; answered when its records are committed."""
        request = heartbeat_of(
            call.body(),
            client_id=call.header.client_id or "",
            client_host=call.caller.host,
            api_version=call.header.api_version,
        )

        def answer(found: HeartbeatAnswer | ApiError) -> None:
            call.answer(heartbeat_response(found))

        refused = self._heartbeat_error(call.caller, request)
        if refused is not None:
            answer(refused)
            return
        shard = self._groups.of(request.group_id)
        if isinstance(shard, ApiError):
            answer(shard)
            return
        if not request.member_id:
            member_id = uuid_text(self._new_uuid())
            request = msgspec.structs.replace(request, member_id=member_id)
        call.park(forget)
        may_describe = partial(self._access.allows_topic, call.caller, Operation.DESCRIBE)
        machine_of(shard).room(ConsumerGroups).serve(request, may_describe, answer)

    def describe(self, call: Call) -> None:
        """ConsumerGroupDescribe, versions 0 and 1; groups that are denied come first."""
        body = call.body()
        rows, allowed = [], []
        for group_id in map(str, body.group_ids):
            if not self._is_enabled():
                rows.append(described_error(group_id, ApiError(ErrorCode.unsupported_version)))
            elif not self._allows_group(call.caller, Operation.DESCRIBE, group_id):
                denied = ApiError(ErrorCode.group_authorization_failed)
                rows.append(described_error(group_id, denied))
            else:
                allowed.append(group_id)
        rows += (self._described(call.caller, body, group_id) for group_id in allowed)
        call.answer(ConsumerGroupDescribeResponse(throttle_time=NO_TIME, groups=tuple(rows)))

    def _heartbeat_error(self, caller: Caller, request: Heartbeat) -> ApiError | None:
        """The error of a request that no coordinator is asked about."""
        if not self._is_enabled():
            return ApiError(ErrorCode.unsupported_version)
        if not self._allows_group(caller, Operation.READ, request.group_id):
            return ApiError(ErrorCode.group_authorization_failed)
        if not self._may_describe(caller, request.subscribed_topic_names or ()):
            return ApiError(ErrorCode.topic_authorization_failed)
        return heartbeat_error(request, self._groups.config.consumer.assignors)

    def _described(
        self, caller: Caller, body: "ConsumerGroupDescribeRequest", group_id: str
    ) -> DescribedGroup:
        if not group_id:
            return described_error(group_id, ApiError(ErrorCode.invalid_group_id))
        shard = self._groups.of(group_id)
        if isinstance(shard, ApiError):
            return described_error(group_id, shard)
        row = machine_of(shard).room(ConsumerGroups).described(group_id)
        if row.error_code is not ErrorCode.none:
            return row
        if not self._may_describe(caller, _topics(row)):
            denied = ApiError(ErrorCode.topic_authorization_failed, DENIED_TOPICS)
            return described_error(group_id, denied)
        if not body.include_authorized_operations:
            return row
        operations = group_operations(self._access, caller, group_id)
        return replace(row, authorized_operations=i32(operations))

    def _is_enabled(self) -> bool:
        is_served = self._groups.config.consumer.is_enabled
        return is_served and self._image().features.get(GROUP_VERSION, 0) >= 1

    def _allows_group(self, caller: Caller, operation: Operation, group_id: str) -> bool:
        return self._access.allows(caller, operation, ResourceType.GROUP, group_id)

    def _may_describe(self, caller: Caller, topics: Iterable[str]) -> bool:
        allows = self._access.allows_topic
        return all(allows(caller, Operation.DESCRIBE, topic) for topic in topics)


def _topics(row: DescribedGroup) -> set[str]:
    """Names of the topics that a description of a group has."""
    assignments: list[Any] = []
    for member in row.members:
        assignments += (member.assignment, member.target_assignment)
    return {
        str(partitions.topic_name)
        for assignment in assignments
        for partitions in assignment.topic_partitions
    }
