"""Table of the requests that only read an image: functions (image, body, context) -> response.

They need no leader: a broker answers from its metadata cache, a controller from its committed
image. To add an API: write the function in the manager of its resource, add one row.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec

from metadata.image import Image
from quorum_controller.configs.describe_configs import describe_configs, list_config_resources
from quorum_controller.configs.quotas import describe_client_quotas
from quorum_controller.partitions.reassignments import list_partition_reassignments
from quorum_controller.query_context import QueryContext
from quorum_controller.security.acls import describe_acls
from quorum_controller.security.delegation_tokens import describe_delegation_token
from quorum_controller.security.scram import describe_user_scram_credentials
from wire.api_keys import (
    DESCRIBE_ACLS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CONFIGS,
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    LIST_CONFIG_RESOURCES,
    LIST_PARTITION_REASSIGNMENTS,
)
from wire.messages.codec import Entity


class OnBroker(Enum):
    """The treatment of a query at a broker listener."""

    LOCAL = "answered from the broker's own image"
    FORWARDED = "sent to the active controller"


class Query(msgspec.Struct, frozen=True):
    """One API that only reads: its function and the listeners that serve it."""

    answer: Callable[[Image, Any, QueryContext], Entity]
    on_broker: OnBroker = OnBroker.LOCAL
    on_controller: bool = True


QUERIES: Final[dict[int, Query]] = {
    DESCRIBE_CLIENT_QUOTAS: Query(describe_client_quotas, on_controller=False),
    DESCRIBE_USER_SCRAM_CREDENTIALS: Query(describe_user_scram_credentials),
    DESCRIBE_ACLS: Query(describe_acls),
    DESCRIBE_DELEGATION_TOKEN: Query(describe_delegation_token, on_controller=False),
    DESCRIBE_CONFIGS: Query(describe_configs),
    LIST_CONFIG_RESOURCES: Query(list_config_resources, on_controller=False),
    LIST_PARTITION_REASSIGNMENTS: Query(list_partition_reassignments, on_broker=OnBroker.FORWARDED),
}
"""Queries by API key."""
