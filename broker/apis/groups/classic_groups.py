"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: what members of classic groups ask.

Each asks for READ of its group. A member stays when its client disconnects, until its session ends.

(apache/kafka: core/.../server/KafkaApis.scala, handleJoinGroupRequest and those after it;
group-coordinator/.../GroupCoordinatorService.java)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from broker.apis.access import Access
from broker.clients.call import Call, forget
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.classic import responses
from coordinator.group.classic.groups import refusal
from coordinator.group.classic.requests import join_of
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.consumer.classic_requests import ClassicRequests
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.requests_by_kind import RequestsByKind
from quorum_controller.security.authorization import Operation, ResourceType
from wire.errors import ApiError, ErrorCode

FIRST_SYNC_WITH_PROTOCOL: Final = 5
"""Version of SyncGroup from which it must name protocol type and protocol."""
FIRST_LEAVE_OF_MANY: Final = 3
"""Version of LeaveGroup from which each member has a code."""


class MemberApis:
    """Handlers of the requests of members.

    Args:
        groups: the coordinator.
        access: READ of the group is asked for.
        new_uuid: makes a random UUID, for the id of a new member.
    """

    def __init__(
        self, groups: GroupCoordinator, access: Access, new_uuid: Callable[[], bytes]
    ) -> None:
        self._groups = groups
        self._access = access
        self._new_uuid = new_uuid

    def join(self, call: Call) -> None:
        """JoinGroup, versions 0 to 9; answered when the join phase ends."""
        request = join_of(
            call.body(),
            version=call.header.api_version,
            client_id=call.header.client_id,
            host=call.caller.host,
        )
        code = self._denied(call, request.group_id)
        if code is not None:
            call.answer(responses.join_error(code))
            return
        code = refusal(self._groups.config.classic, request)
        if code is not None:
            call.answer(responses.join_error(code, request.member_id))
            return
        room = self._room(request.group_id)
        if isinstance(room, ErrorCode):
            call.answer(responses.join_error(room))
            return
        call.park(forget)
        room.join(request, str(UUID(bytes=self._new_uuid())), call.answer)

    def sync(self, call: Call) -> None:
        """SyncGroup, versions 0 to 5; answered when the leader's assignment is committed."""
        body = call.body()
        is_complete = body.protocol_type is not None and body.protocol_name is not None
        if call.header.api_version >= FIRST_SYNC_WITH_PROTOCOL and not is_complete:
            call.answer(responses.sync_error(ErrorCode.inconsistent_group_protocol))
            return
        room = self._room_of_member(call, body.group_id)
        if isinstance(room, ErrorCode):
            call.answer(responses.sync_error(room))
            return
        call.park(forget)
        room.sync(body, call.answer)

    def heartbeat(self, call: Call) -> None:
        """Heartbeat, versions 0 to 4."""
        body = call.body()
        room = self._room_of_member(call, body.group_id)
        if isinstance(room, ErrorCode):
            # While the group loads, it is nobody's fault that its session cannot be kept.
            is_loading = room is ErrorCode.coordinator_load_in_progress
            call.answer(responses.heartbeat(ErrorCode.none if is_loading else room))
            return
        call.park(forget)
        room.heartbeat(body, call.answer)

    def leave(self, call: Call) -> None:
        """LeaveGroup, versions 0 to 5."""
        body = call.body()

        def answer(response: Any) -> None:
            if call.header.api_version < FIRST_LEAVE_OF_MANY and response.members:
                response = replace(response, error_code=response.members[0].error_code, members=())
            call.answer(response)

        room = self._room_of_member(call, body.group_id)
        if isinstance(room, ErrorCode):
            answer(responses.leave_error(room))
            return
        call.park(forget)
        room.leave(body, answer)

    def _denied(self, call: Call, group_id: str) -> ErrorCode | None:
        if self._access.allows(call.caller, Operation.READ, ResourceType.GROUP, group_id):
            return None
        return ErrorCode.group_authorization_failed

    def _room_of_member(self, call: Call, group_id: str) -> RequestsByKind | ErrorCode:
        code = self._denied(call, group_id)
        if code is not None:
            return code
        return self._room(group_id) if group_id else ErrorCode.invalid_group_id

    def _room(self, group_id: str) -> RequestsByKind | ErrorCode:
        shard = self._groups.of(group_id)
        if isinstance(shard, ApiError):
            return shard.code
        machine = machine_of(shard)
        consumer = ClassicRequests(machine.room(ConsumerGroups))
        return RequestsByKind(machine.room(ClassicRoom), consumer)
