"""Handlers of the APIs of groups, in one table."""

from collections.abc import Callable

from broker.apis.access import Access
from broker.apis.admin_groups import AdminApis
from broker.apis.classic_groups import MemberApis
from broker.apis.consumer_groups import ConsumerGroupApis
from broker.apis.offset_commit import OffsetCommit
from broker.apis.offset_delete import OffsetDelete
from broker.apis.offset_fetch import OffsetFetch
from broker.clients.front import Handler
from broker.coordinators.groups import GroupCoordinator
from metadata.image import Image
from wire.api_keys import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)


def group_handlers(
    groups: GroupCoordinator,
    access: Access,
    image: Callable[[], Image],
    new_uuid: Callable[[], bytes],
) -> dict[int, Handler]:
    """Handlers by API key.

    Args:
        groups: the coordinator.
        access: asked for groups and topics.
        image: returns the newest image.
        new_uuid: makes random ones, for the ids of members.
    """
    members, admin = MemberApis(groups, access, new_uuid), AdminApis(groups, access)
    consumer = ConsumerGroupApis(groups, access, image, new_uuid)
    return {
        OFFSET_COMMIT: OffsetCommit(groups, access, image).serve,
        OFFSET_FETCH: OffsetFetch(groups, access, image).serve,
        OFFSET_DELETE: OffsetDelete(groups, access, image).serve,
        JOIN_GROUP: members.join,
        SYNC_GROUP: members.sync,
        HEARTBEAT: members.heartbeat,
        LEAVE_GROUP: members.leave,
        DESCRIBE_GROUPS: admin.describe,
        LIST_GROUPS: admin.list_groups,
        DELETE_GROUPS: admin.delete,
        CONSUMER_GROUP_HEARTBEAT: consumer.heartbeat,
        CONSUMER_GROUP_DESCRIBE: consumer.describe,
    }
