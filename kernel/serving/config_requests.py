"""AlterConfigs at a broker: some resources are answered here, the rest is forwarded.

Source: apache/kafka: core/.../server/{KafkaApis,ConfigAdminManager}.scala (preprocess, reassemble).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from metadata.image import Image
from metadata.node_configs import NodeConfigs
from network.answers import Encoded
from network.connections import Answered
from quorum_controller.configs.alter_configs import (
    alter_configs_response,
    incremental_alter_configs_response,
)
from quorum_controller.configs.broker_config_rules import broker_refusals
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from wire.connections.connection import Request
from wire.errors import ApiError, ErrorCode, RemoteProtocolError
from wire.messages import codec
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsResource
    from kio.schema.alter_configs.v2.response import (
        AlterConfigsResourceResponse,
        AlterConfigsResponse,
    )

CONFIG_REQUESTS: Final[dict[int, Callable[[Any, list[ApiError]], Entity]]] = {
    ALTER_CONFIGS: alter_configs_response,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_response,
}
"""Functions that make the response, by API key."""
MISSING: Final = ApiError(
    ErrorCode.unknown_server_error,
    "The server experienced an unexpected error when processing the request.",
)
"""Error of a resource that the controller's response does not name."""


def forward_alter_configs(
    request: Request,
    image: Image,
    node: NodeConfigs,
    forward: Callable[[Request, Answered], None],
    answered: Answered,
) -> None:
    """Answer the resources that only this broker can validate, and forward the others."""
    refusals = broker_refusals(request.api_key, request.body, image, node)
    rest = [
        resource
        for resource, refusal in zip(request.body.resources, refusals, strict=True)
        if refusal is None
    ]
    if len(rest) == len(refusals):
        forward(request, answered)
        return
    response_of = CONFIG_REQUESTS[request.api_key]
    if not rest:
        answered(response_of(request.body, [r for r in refusals if r is not None]))
        return

    def merge(answer: "Encoded | AlterConfigsResponse") -> None:
        answers = {_key_of(row): _error_of(row) for row in _rows_of(request, answer)}
        errors = [
            refusal or answers.get(_key_of(resource), MISSING)
            for resource, refusal in zip(request.body.resources, refusals, strict=True)
        ]
        answered(response_of(request.body, errors))

    forward(_request_with(request, rest), merge)


def _rows_of(
    request: Request, answer: "Encoded | AlterConfigsResponse"
) -> "tuple[AlterConfigsResourceResponse, ...]":
    """Return the rows of a controller's response; none if its bytes cannot be decoded."""
    response: AlterConfigsResponse
    if isinstance(answer, Encoded):
        try:
            _, response = codec.decode_response(request.api_key, request.api_version, answer.frame)
        except RemoteProtocolError:
            return ()
    else:
        response = answer
    return response.responses


def _key_of(row: "AlterConfigsResourceResponse | AlterConfigsResource") -> tuple[int, str]:
    return row.resource_type, row.resource_name


def _error_of(row: "AlterConfigsResourceResponse") -> ApiError:
    return ApiError(row.error_code, row.error_message)


def _request_with(request: Request, resources: list[object]) -> Request:
    """Return the request with only the given resources."""
    body = replace(request.body, resources=tuple(resources))
    frame = codec.encode_request(
        request.api_key, request.api_version, request.correlation_id, request.client_id, body
    )
    return msgspec.structs.replace(request, body=body, frame=frame)
