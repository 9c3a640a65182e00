"""Table of the APIs of the active controller: one row per API, with its handler and its refusal.

To add an API: write `handle` and `refuse` in the manager of its resource, add one row. The kernel
derives the APIs of each listener and of an Envelope from this table; requests that only read are in
`queries.py`.
Source: apache/kafka: core/.../server/ControllerApis.scala.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from quorum_controller.brokers.controllers import controller_registration_error, register_controller
from quorum_controller.brokers.registrations import (
    broker_heartbeat,
    broker_heartbeat_error,
    broker_registration_error,
    register_broker,
    unregister_broker,
    unregister_broker_error,
)
from quorum_controller.configs.alter_configs import (
    alter_configs,
    alter_configs_error,
    incremental_alter_configs,
    incremental_alter_configs_error,
)
from quorum_controller.configs.quotas import alter_client_quotas, alter_client_quotas_error
from quorum_controller.feature_updates import update_features, update_features_error
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.elections import elect_leaders, elect_leaders_error
from quorum_controller.partitions.isr_changes import alter_partition, alter_partition_error
from quorum_controller.partitions.reassignments import (
    alter_partition_reassignments,
    alter_partition_reassignments_error,
)
from quorum_controller.partitions.replica_directories import (
    assign_replicas_to_directories,
    assign_replicas_to_directories_error,
)
from quorum_controller.producer_ids import allocate_producer_ids, allocate_producer_ids_error
from quorum_controller.result import Draft
from quorum_controller.security.acls import (
    create_acls,
    create_acls_error,
    delete_acls,
    delete_acls_error,
)
from quorum_controller.security.delegation_tokens import (
    create_delegation_token,
    create_delegation_token_error,
    expire_delegation_token,
    expire_delegation_token_error,
    renew_delegation_token,
    renew_delegation_token_error,
)
from quorum_controller.security.scram import (
    alter_user_scram_credentials,
    alter_user_scram_credentials_error,
)
from quorum_controller.services import Services
from quorum_controller.topics.new_partitions import create_partitions, create_partitions_error
from quorum_controller.topics.topic_access import create_topics_for, delete_topics_for
from quorum_controller.topics.topics import create_topics_error, delete_topics_error
from wire.api_keys import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_USER_SCRAM_CREDENTIALS,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONTROLLER_REGISTRATION,
    CREATE_ACLS,
    CREATE_DELEGATION_TOKEN,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    EXPIRE_DELEGATION_TOKEN,
    INCREMENTAL_ALTER_CONFIGS,
    RENEW_DELEGATION_TOKEN,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)
from wire.errors import ApiError, ErrorCode
from wire.messages.codec import Entity
from wire.types import NodeId, milliseconds

Handle = Callable[[Draft, Any, Services], HandlerResult | ApiError]
"""(draft, request body, services) -> the response, or an ApiError for the whole request. Records
are emitted to the draft; after an ApiError the draft is dropped."""

Refuse = Callable[[Any, ApiError], Entity]
"""(request body, error) -> the response with the error where the API has a place for it."""

TIMED_OUT: Final = ApiError(ErrorCode.request_timed_out, "The request timed out.")


class Handler(msgspec.Struct, frozen=True):
    """The handler of one API of the active controller."""

    handle: Handle
    refuse: Refuse
    is_forwarded: bool = False
    """True if clients send it to brokers, which forward it inside an Envelope."""
    has_timeout: bool = False
    """True if the request has a `timeout` for its answer."""


HANDLERS: Final[dict[int, Handler]] = {
    CREATE_TOPICS: Handler(
        create_topics_for, create_topics_error, is_forwarded=True, has_timeout=True
    ),
    DELETE_TOPICS: Handler(
        delete_topics_for, delete_topics_error, is_forwarded=True, has_timeout=True
    ),
    BROKER_REGISTRATION: Handler(register_broker, broker_registration_error),
    BROKER_HEARTBEAT: Handler(broker_heartbeat, broker_heartbeat_error),
    UNREGISTER_BROKER: Handler(unregister_broker, unregister_broker_error, is_forwarded=True),
    CONTROLLER_REGISTRATION: Handler(register_controller, controller_registration_error),
    CREATE_PARTITIONS: Handler(
        create_partitions, create_partitions_error, is_forwarded=True, has_timeout=True
    ),
    ALTER_PARTITION: Handler(alter_partition, alter_partition_error),
    ALTER_PARTITION_REASSIGNMENTS: Handler(
        alter_partition_reassignments,
        alter_partition_reassignments_error,
        is_forwarded=True,
        has_timeout=True,
    ),
    ASSIGN_REPLICAS_TO_DIRS: Handler(
        assign_replicas_to_directories, assign_replicas_to_directories_error
    ),
    CREATE_ACLS: Handler(create_acls, create_acls_error, is_forwarded=True),
    CREATE_DELEGATION_TOKEN: Handler(
        create_delegation_token, create_delegation_token_error, is_forwarded=True
    ),
    RENEW_DELEGATION_TOKEN: Handler(
        renew_delegation_token, renew_delegation_token_error, is_forwarded=True
    ),
    EXPIRE_DELEGATION_TOKEN: Handler(
        expire_delegation_token, expire_delegation_token_error, is_forwarded=True
    ),
    DELETE_ACLS: Handler(delete_acls, delete_acls_error, is_forwarded=True),
    ELECT_LEADERS: Handler(elect_leaders, elect_leaders_error, is_forwarded=True, has_timeout=True),
    ALTER_CONFIGS: Handler(alter_configs, alter_configs_error, is_forwarded=True),
    INCREMENTAL_ALTER_CONFIGS: Handler(
        incremental_alter_configs, incremental_alter_configs_error, is_forwarded=True
    ),
    ALTER_CLIENT_QUOTAS: Handler(alter_client_quotas, alter_client_quotas_error, is_forwarded=True),
    ALTER_USER_SCRAM_CREDENTIALS: Handler(
        alter_user_scram_credentials, alter_user_scram_credentials_error, is_forwarded=True
    ),
    UPDATE_FEATURES: Handler(
        update_features, update_features_error, is_forwarded=True, has_timeout=True
    ),
    ALLOCATE_PRODUCER_IDS: Handler(allocate_producer_ids, allocate_producer_ids_error),
}
"""Handlers by API key, for `Controller.submit`."""


def refusal(api_key: int, body: object, error: ApiError) -> Entity:
    """The response body of this API with the error."""
    return HANDLERS[api_key].refuse(body, error)


def timeout_ms(api_key: int, body: Any) -> int | None:
    """The time-out in the request, None if its API has none."""
    return milliseconds(body.timeout) if HANDLERS[api_key].has_timeout else None


def not_controller(leader_id: NodeId | None) -> ApiError:
    """NOT_CONTROLLER with Kafka's text; None when no leader is known."""
    text = (
        "No controller appears to be active."
        if leader_id is None
        else f"The active controller appears to be node {leader_id}."
    )
    return ApiError(ErrorCode.not_controller, text)
