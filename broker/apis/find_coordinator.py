"""FindCoordinator: the leader of the partition that a group or transactional id belongs to.

The topic of the coordinator is created when a client looks for it first; until it has leaders the
answer is COORDINATOR_NOT_AVAILABLE, and clients ask again.
(apache/kafka: core/.../server/KafkaApis.scala, handleFindCoordinatorRequest)
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from broker.apis.access import Access
from broker.clients.call import Call
from broker_publisher.partition_view import leader_view
from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.runtime.shards import partition_for
from metadata.image import Image
from quorum_controller.bodies import NO_TIME
from quorum_controller.security.authorization import Operation, ResourceType
from wire.api_keys import FIND_COORDINATOR
from wire.errors import ErrorCode
from wire.messages import codec

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
LIST_VERSION_MIN: Final = 4
"""First version with several keys in a request."""
KEY_TYPE_VERSION_MIN: Final = 1
"""First version with a type; before it all keys are groups."""
MESSAGES: Final = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
}
"""Of the versions with one key; those with several have none (Errors.java)."""
NO_SHARE_GROUPS: Final = "kraftline has no share groups"
_DENIED: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    TRANSACTION: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.transactional_id_authorization_failed,
    ),
}


class Found(NamedTuple):
    """A coordinator, or the error for its absence."""

    code: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


TOPICS: Final[Mapping[int, str]] = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
"""Topics of the coordinators that brokers have, by type of key."""


class FindCoordinator:
    """Handler of FindCoordinator, versions 0 to 6.

    Args:
        access: DESCRIBE of the group or transactional id is asked for.
        image: returns the newest image.
        create: asks for a topic that does not exist.
    """

    def __init__(
        self,
        access: Access,
        image: Callable[[], Image],
        create: Callable[[str], None],
    ) -> None:
        self._access = access
        self._image = image
        self._create = create

    def serve(self, call: Call) -> None:
        """Answer a request."""
        body, version = call.body_as_sent(), call.header.api_version
        new: Any = codec.response_module(FIND_COORDINATOR, version)
        key_type = body.key_type if version >= KEY_TYPE_VERSION_MIN else GROUP
        if version >= LIST_VERSION_MIN:
            rows = [(key, self._find(call, key_type, key)) for key in body.coordinator_keys]
            call.answer(
                new.FindCoordinatorResponse(
                    throttle_time=NO_TIME,
                    coordinators=tuple(
                        new.Coordinator(
                            key=key,
                            node_id=found.node_id,
                            host=found.host,
                            port=found.port,
                            error_code=found.code,
                            error_message=found.message or "",
                        )
                        for key, found in rows
                    ),
                )
            )
            return
        found = self._find(call, key_type, body.key)
        fields: dict[str, Any] = {}
        if version >= KEY_TYPE_VERSION_MIN:
            message = found.message or MESSAGES.get(found.code)
            fields = {"throttle_time": NO_TIME, "error_message": message}
        call.answer(
            new.FindCoordinatorResponse(
                error_code=found.code,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                **fields,
            )
        )

    def _find(self, call: Call, key_type: int, key: str) -> Found:
        resource_type, code = _DENIED.get(key_type, (None, ErrorCode.none))
        if resource_type is not None and not self._access.allows(
            call.caller, Operation.DESCRIBE, resource_type, key
        ):
            return Found(code)
        topic = TOPICS.get(key_type)
        if topic is None:
            return Found(ErrorCode.invalid_request, NO_SHARE_GROUPS if key_type == SHARE else None)
        image = self._image()
        topic_id = image.topic_id_by_name.get(topic)
        if topic_id is None:
            self._create(topic)
            return Found(ErrorCode.coordinator_not_available)
        partitions = image.topics[topic_id].partitions
        partition = partitions[partition_for(key, len(partitions))]
        leader = image.brokers.get(leader_view(image, partition, call.listener).leader_id)
        endpoint = None if leader is None else leader.endpoint(call.listener)
        if leader is None or leader.fenced or endpoint is None:
            return Found(ErrorCode.coordinator_not_available)
        return Found(ErrorCode.none, None, leader.id, endpoint.host, endpoint.port)
