"""The kio classes of the requests the controller answers: the newest version of each API.

They are named here once. The response classes are typed `Any`: kio's constructors want its phantom
integer types, which plain integers satisfy at run time; the encoder checks every range again.
"""

import uuid
from datetime import timedelta
from typing import Any, Final

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

from wire.types import ZERO_UUID

__all__ = [
    "NO_TIME",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
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
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "to_bytes",
    "to_uuid",
]


NO_TIME: Final = timedelta(0)

BrokerHeartbeatResponse: Any = _broker_heartbeat.BrokerHeartbeatResponse
BrokerRegistrationResponse: Any = _broker_registration.BrokerRegistrationResponse
ControllerRegistrationResponse: Any = _controller_registration.ControllerRegistrationResponse
CreatableTopicConfigs: Any = _create_topics.CreatableTopicConfigs
CreatableTopicResult: Any = _create_topics.CreatableTopicResult
CreateTopicsResponse: Any = _create_topics.CreateTopicsResponse
DeletableTopicResult: Any = _delete_topics.DeletableTopicResult
DeleteTopicsResponse: Any = _delete_topics.DeleteTopicsResponse
UnregisterBrokerResponse: Any = _unregister_broker.UnregisterBrokerResponse


def to_bytes(value: uuid.UUID | None) -> bytes:
    """16 bytes of a kio UUID; kio says None for the zero UUID."""
    return ZERO_UUID if value is None else value.bytes


def to_uuid(value: bytes) -> uuid.UUID | None:
    """The kio form of 16 bytes; the zero UUID is None."""
    return None if value == ZERO_UUID else uuid.UUID(bytes=value)
