"""AlterConfigs at a broker: what only it can judge is answered here, the rest goes on.

Source: apache/kafka: core/.../server/{KafkaApis,ConfigAdminManager}.scala (preprocess, reassemble).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from kernel.connections import Answered
from kernel.forwarding import Encoded
from metadata.image import Image
from metadata.node_configs import NodeConfigs
from quorum_controller.alter_configs import (
    alter_configs_response,
    incremental_alter_configs_response,
)
from quorum_controller.broker_config_rules import broker_refusals
from wire import codec
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from wire.connection import Request
from wire.errors import ApiError

CONFIG_REQUESTS: Final = {
    ALTER_CONFIGS: alter_configs_response,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_response,
}
"""How the answer is put together, by API key."""


def forward_alter_configs(
    request: Request,
    image: Image,
    node: NodeConfigs,
    forward: Callable[[Request, Answered], None],
    answered: Answered,
) -> None:
    """Answer a request whose every resource is this broker's business, or pass the rest on."""
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

    def merge(answer: Any) -> None:
        if isinstance(answer, Encoded):
            frame = answer.frame
            answer = codec.decode_response(request.api_key, request.api_version, frame)[1]
        told = iter(answer.responses)
        errors = [refusal or _error_of(next(told)) for refusal in refusals]
        answered(response_of(request.body, errors))

    forward(_request_with(request, rest), merge)


def _error_of(row: Any) -> ApiError:
    return ApiError(row.error_code, row.error_message)


def _request_with(request: Request, resources: list[Any]) -> Request:
    """The same request with fewer resources."""
    body = replace(request.body, resources=tuple(resources))
    frame = codec.encode_request(
        request.api_key, request.api_version, request.correlation_id, request.client_id, body
    )
    return msgspec.structs.replace(request, body=body, frame=frame)
