"""Registration of controllers (KIP-919).

Source: apache/kafka: metadata/.../controller/ClusterControlManager.java (registerController).
"""

from metadata.features import LEVEL_CONTROLLER_REGISTRATION
from metadata.records import RegisterControllerRecord, RegisteredEndpoint, SupportedFeature
from quorum_controller.bodies import (
    NO_TIME,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    to_bytes,
)
from quorum_controller.handler_result import HandlerResult
from quorum_controller.result import Draft
from quorum_controller.services import Services
from wire.errors import ApiError, ErrorCode
from wire.messages.codec import Entity
from wire.types import NodeId


def registered_endpoints(
    request: BrokerRegistrationRequest | ControllerRegistrationRequest,
) -> tuple[RegisteredEndpoint, ...]:
    """The endpoints of a broker or controller, in the order of its request."""
    return tuple(
        RegisteredEndpoint(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in request.listeners
    )


def register_controller(
    draft: Draft, request: ControllerRegistrationRequest, _services: Services
) -> HandlerResult | ApiError:
    """Register a controller; UNSUPPORTED_VERSION below metadata.version 15."""
    if draft.image.metadata_version < LEVEL_CONTROLLER_REGISTRATION:
        text = "The current MetadataVersion is too old to support controller registrations."
        return HandlerResult(
            controller_registration_error(request, ApiError(ErrorCode.unsupported_version, text))
        )
    draft.emit(
        RegisterControllerRecord(
            controller_id=NodeId(request.controller_id),
            incarnation_id=to_bytes(request.incarnation_id),
            # ZooKeeper migration ended with 3.9.
            zk_migration_ready=False,
            end_points=registered_endpoints(request),
            features=tuple(
                SupportedFeature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in request.features
            ),
        )
    )
    return HandlerResult(controller_registration_error(request, ApiError(ErrorCode.none, "")))


def controller_registration_error(
    _request: ControllerRegistrationRequest, error: ApiError
) -> Entity:
    """The response with this code and text; Kafka's text for success is empty, not null."""
    return ControllerRegistrationResponse(
        throttle_time=NO_TIME, error_code=error.code, error_message=error.message
    )
