"""The kio classes of the requests that the controller handles: the newest version of each API.

They are imported here once. Argument types of the response classes go unchecked: kio's constructors
expect its phantom integer types, which plain integers satisfy at run time; the encoder checks every
range again.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from kio.schema.broker_heartbeat.v2 import response as _broker_heartbeat
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4 import response as _broker_registration
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.controller_registration.v0 import response as _controller_registration
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.create_topics.v7 import response as _create_topics
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v6 import response as _delete_topics
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
from kio.schema.unregister_broker.v0 import response as _unregister_broker
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.static.primitive import i32Timedelta

from wire.types import ZERO_UUID

__all__ = [
    "NO_TIME",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "ConfigRow",
    "ControllerRegistrationRequest",
    "ControllerRegistrationResponse",
    "CreatableTopic",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeletableTopicResult",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DeletionRow",
    "TopicRow",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "to_bytes",
    "to_uuid",
]


_T = TypeVar("_T")

NO_TIME: Final = i32Timedelta.parse(timedelta(0))


def _unchecked(made: Callable[..., _T]) -> Callable[..., _T]:
    """The constructor with unchecked argument types: kio's expect its phantom types."""
    return made


BrokerHeartbeatResponse = _unchecked(_broker_heartbeat.BrokerHeartbeatResponse)
BrokerRegistrationResponse = _unchecked(_broker_registration.BrokerRegistrationResponse)
ControllerRegistrationResponse = _unchecked(_controller_registration.ControllerRegistrationResponse)
CreatableTopicConfigs = _unchecked(_create_topics.CreatableTopicConfigs)
CreatableTopicResult = _unchecked(_create_topics.CreatableTopicResult)
CreateTopicsResponse = _create_topics.CreateTopicsResponse
DeletableTopicResult = _unchecked(_delete_topics.DeletableTopicResult)
DeleteTopicsResponse = _delete_topics.DeleteTopicsResponse
UnregisterBrokerResponse = _unchecked(_unregister_broker.UnregisterBrokerResponse)


ConfigRow = _create_topics.CreatableTopicConfigs
TopicRow = _create_topics.CreatableTopicResult
DeletionRow = _delete_topics.DeletableTopicResult


def to_bytes(value: uuid.UUID | None) -> bytes:
    """The 16 bytes of a kio UUID; None, kio's zero UUID, gives zeros."""
    return ZERO_UUID if value is None else value.bytes


def to_uuid(value: bytes) -> uuid.UUID | None:
    """The kio form of 16 bytes; the zero UUID is None."""
    return None if value == ZERO_UUID else uuid.UUID(bytes=value)
