"""Changes of configs: IncrementalAlterConfigs (KIP-339) and the older AlterConfigs.

All changes of one resource are accepted or refused together, resources are independent, the whole
request is one batch. A record is written only for a changed value, except for brokers: a record
makes them read the files that a config names again.
Source: apache/kafka: metadata/.../controller/ConfigurationControlManager.java,
core/.../server/ControllerApis.scala; 4.3.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from metadata.config_schema import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_NAMES,
    RESOURCE_TOPIC,
    ConfigType,
    broker_config,
    definitions_of,
)
from metadata.config_values import whole_number
from metadata.cordoned_directories import CORDONED_LOG_DIRS
from metadata.features import LEVEL_CORDONED_DIRECTORIES
from metadata.image import Image
from metadata.node_configs import NodeConfigs
from metadata.records import ConfigRecord
from metadata.topic_names import illegal_topic_name
from quorum_controller.bodies import NO_TIME
from quorum_controller.configs.config_rules import (
    client_metrics_config_error,
    group_config_error,
    topic_config_error,
)
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.elr import (
    MIN_INSYNC_REPLICAS,
    clear_elr_records,
    min_isr_change_error,
)
from quorum_controller.result import RECORDS_PER_BATCH_MAX, Draft
from quorum_controller.security.authorization import Operation, config_error
from quorum_controller.services import Services
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity, Schema
from wire.types import NodeId

if TYPE_CHECKING:
    from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterConfigsResource as IncrementalResource,
    )
    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

_alter: Final = codec.newest(ALTER_CONFIGS, "response")
_incremental: Final = codec.newest(INCREMENTAL_ALTER_CONFIGS, "response")


SET, DELETE, APPEND, SUBTRACT = range(4)
_LIST_OPERATIONS: Final = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}
VALUE_CHARS_MAX: Final = 32_767
NODE_ID_MAX: Final = 2**31 - 1

_NONE: Final = ApiError(ErrorCode.none)
_DUPLICATE: Final = ApiError(ErrorCode.invalid_request, "Duplicate resource.")

Changes = dict[str, str | None]
"""New values by config name; None removes the config."""


def incremental_alter_configs(
    draft: Draft, request: "IncrementalAlterConfigsRequest", services: Services
) -> HandlerResult | ApiError:
    """Set, delete, append to or subtract from single configs; a row per resource, in its order."""

    def changes_of(resource: "IncrementalResource") -> Changes | ApiError:
        current = draft.image.config(resource.resource_type, resource.resource_name)
        return _incremental_changes(resource, current)

    rows = _alter_all(draft, request, services, changes_of)
    if isinstance(rows, ApiError):
        return rows
    return HandlerResult(incremental_alter_configs_response(request, rows))


def alter_configs(
    draft: Draft, request: "AlterConfigsRequest", services: Services
) -> HandlerResult | ApiError:
    """Replace all configs of each resource: configs that are not in the request are removed."""

    def changes_of(resource: "AlterConfigsResource") -> Changes | ApiError:
        current = draft.image.config(resource.resource_type, resource.resource_name)
        wanted: Changes = {config.name: config.value for config in resource.configs}
        is_broker = resource.resource_type == RESOURCE_BROKER
        changed = {n: v for n, v in wanted.items() if is_broker or current.get(n) != v}
        return changed | dict.fromkeys(sorted(set(current) - set(wanted)))

    rows = _alter_all(draft, request, services, changes_of)
    if isinstance(rows, ApiError):
        return rows
    return HandlerResult(alter_configs_response(request, rows))


def incremental_alter_configs_response(
    request: "IncrementalAlterConfigsRequest", errors: list[ApiError]
) -> Entity:
    """The response with one error (or NONE) per resource of the request."""
    return _incremental.IncrementalAlterConfigsResponse(
        throttle_time=NO_TIME, responses=_rows(_incremental, request.resources, errors)
    )


def alter_configs_response(request: "AlterConfigsRequest", errors: list[ApiError]) -> Entity:
    """The response with one error (or NONE) per resource of the request."""
    return _alter.AlterConfigsResponse(
        throttle_time=NO_TIME, responses=_rows(_alter, request.resources, errors)
    )


def incremental_alter_configs_error(
    request: "IncrementalAlterConfigsRequest", error: ApiError
) -> Entity:
    """The response with this error for every resource."""
    return incremental_alter_configs_response(request, [error] * len(request.resources))


def alter_configs_error(request: "AlterConfigsRequest", error: ApiError) -> Entity:
    """The response with this error for every resource."""
    return alter_configs_response(request, [error] * len(request.resources))


def _rows(
    schema: Schema,
    resources: "Iterable[AlterConfigsResource | IncrementalResource]",
    errors: list[ApiError],
) -> tuple[Entity, ...]:
    return tuple(
        schema.AlterConfigsResourceResponse(
            error_code=error.code,
            error_message=error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(resources, errors, strict=True)
    )


# --- the change ---------------------------------------------------------------------------------


def _alter_all(
    draft: Draft,
    request: "AlterConfigsRequest | IncrementalAlterConfigsRequest",
    services: Services,
    changes_of: Callable[[Any], Changes | ApiError],
) -> list[ApiError] | ApiError:
    """Emit the records of every accepted resource; return an error or NONE per resource."""
    target = Draft(draft.image, draft.base_offset) if request.validate_only else draft
    counts: dict[tuple[int, str], int] = {}
    for resource in request.resources:
        key = (int(resource.resource_type), str(resource.resource_name))
        counts[key] = counts.get(key, 0) + 1
    errors = []
    for resource in request.resources:
        key = (int(resource.resource_type), str(resource.resource_name))
        if counts[key] > 1:
            errors.append(_DUPLICATE)
            continue
        refused = config_error(
            draft.image, services.config.access, services.caller, Operation.ALTER_CONFIGS, *key
        )
        errors.append(refused or _alter_one(target, resource, services, changes_of))
        if len(target.records) > RECORDS_PER_BATCH_MAX:
            return RECORDS_EXCEEDED
    changed = [record for record in target.records if isinstance(record, ConfigRecord)]
    for record in clear_elr_records(target.image, changed):
        target.emit(record)
    return RECORDS_EXCEEDED if len(target.records) > RECORDS_PER_BATCH_MAX else errors


def _alter_one(
    target: Draft,
    resource: "AlterConfigsResource | IncrementalResource",
    services: Services,
    changes_of: Callable[[Any], Changes | ApiError],
) -> ApiError:
    """Write the changes of one resource; return its error, `_NONE` without one."""
    kind, name = int(resource.resource_type), str(resource.resource_name)
    if kind == RESOURCE_BROKER_LOGGER:
        return broker_logger_error(resource)
    if kind not in RESOURCE_NAMES:
        return ApiError(ErrorCode.unsupported_version, f"Unknown resource type {kind}.")
    changes = changes_of(resource)
    if isinstance(changes, ApiError):
        return changes
    node = services.defaults.node_configs(target.image)
    error = _changes_error(target.image, kind, name, changes, services)
    error = error or _resource_error(target.image, kind, name, changes, node)
    error = error or _existence_error(target.image, kind, name)
    if error is not None:
        return error
    for config, value in changes.items():
        target.emit(ConfigRecord(resource_type=kind, resource_name=name, name=config, value=value))
    return _NONE


def _incremental_changes(
    resource: "IncrementalResource", current: Mapping[str, str]
) -> Changes | ApiError:
    kind = int(resource.resource_type)
    changes: Changes = {}
    for config in resource.configs:
        operation, name = int(config.config_operation), str(config.name)
        before = current.get(name)
        if operation in (SET, DELETE):
            after = config.value if operation == SET else None
        elif operation in _LIST_OPERATIONS:
            changed = _changed_list(kind, name, before, operation, config.value)
            if isinstance(changed, ApiError):
                return changed
            after = changed
        else:
            return ApiError(ErrorCode.invalid_request, f"Unknown operations type {operation}")
        if before != after or kind == RESOURCE_BROKER:
            changes[name] = after
    return changes


def _changed_list(
    kind: int, name: str, before: str | None, operation: int, value: str | None
) -> str | ApiError:
    definition = (
        broker_config(name) if kind == RESOURCE_BROKER else (definitions_of(kind) or {}).get(name)
    )
    if definition is None or definition.type is not ConfigType.LIST:
        text = f"Can't {_LIST_OPERATIONS[operation]} to key {name} because its type is not LIST."
        return ApiError(ErrorCode.invalid_config, text)
    if value is None:
        return ApiError(ErrorCode.invalid_request, f"Null value not supported for : {name}")
    text = before if before is not None else definition.default or ""
    parts = [part for part in text.split(",") if part]
    for part in _split(value):
        if operation == APPEND and part not in parts:
            parts.append(part)
        elif operation == SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _split(value: str) -> list[str]:
    """The parts of Java's `split(",")`: no empty ones at the end; "" is one empty part."""
    kept = value.rstrip(",")
    return kept.split(",") if kept or not value else []


# --- refusals -----------------------------------------------------------------------------------


def _changes_error(
    image: Image, kind: int, name: str, changes: Changes, services: Services
) -> ApiError | None:
    """The error of the first invalid single change, independent of other configs."""
    for config, value in changes.items():
        error = None
        if config == MIN_INSYNC_REPLICAS:
            error = min_isr_change_error(image, kind, name, value)
        elif config == CORDONED_LOG_DIRS and kind == RESOURCE_BROKER:
            before = image.config(kind, name).get(config)
            is_forwarded = services.context.is_forwarded
            error = _cordoning_error(image, before, value, is_forwarded=is_forwarded)
        if error is None and value is not None and len(value) > VALUE_CHARS_MAX:
            text = (
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {VALUE_CHARS_MAX} bytes."
            )
            error = ApiError(ErrorCode.invalid_config, text)
        if error is not None:
            return error
    return None


def _cordoning_error(
    image: Image, before: str | None, after: str | None, *, is_forwarded: bool
) -> ApiError | None:
    """The error of a change not from its broker that adds cordoned directories (KIP-1066)."""
    if image.metadata_version < LEVEL_CORDONED_DIRECTORIES:
        text = (
            "The cordoned.log.dirs configuration value cannot be set because it requires "
            "metadata.version >= 4.3-IV0"
        )
        return ApiError(ErrorCode.invalid_config, text)
    if is_forwarded or after is None or not after.strip():
        return None
    current = {part.strip() for part in (before or "").split(",")}
    if {part.strip() for part in after.split(",")} <= current:
        return None
    text = (
        "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the "
        "current configuration value."
    )
    return ApiError(ErrorCode.invalid_config, text)


def _resource_error(
    image: Image, kind: int, name: str, changes: Changes, node: NodeConfigs
) -> ApiError | None:
    """The error of the name, or of all configs that the resource would have."""
    existing = dict(image.config(kind, name))
    merged = {n: v for n, v in (existing | changes).items() if v is not None}
    match kind:
        case 2:
            return _topic_name_error(name) or topic_config_error(merged, existing, node)
        case 4:
            return _broker_name_error(name)
        case 16:
            if not name:
                text = "Subscription name can't be empty"
                return ApiError(ErrorCode.invalid_request, text)
            return client_metrics_config_error(merged)
        case _:
            assert kind == RESOURCE_GROUP, f"{kind=}"
            if not name:
                text = "Default group resources are not allowed."
                return ApiError(ErrorCode.invalid_request, text)
            return group_config_error(merged, node)


def _topic_name_error(name: str) -> ApiError | None:
    if not name:
        return ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    text = illegal_topic_name(name)
    if text is None:
        return None
    return ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {text}")


def _broker_name_error(name: str) -> ApiError | None:
    if not name:
        return None
    broker_id = whole_number(name)
    if broker_id is None or abs(broker_id) > NODE_ID_MAX:
        text = "Unable to parse broker name as a base 10 number."
        return ApiError(ErrorCode.invalid_request, text)
    if broker_id < 0:
        return ApiError(ErrorCode.invalid_request, "Invalid negative broker ID.")
    return None


def _existence_error(image: Image, kind: int, name: str) -> ApiError | None:
    if kind == RESOURCE_TOPIC and name not in image.topic_id_by_name:
        text = f"The topic '{name}' does not exist."
        return ApiError(ErrorCode.unknown_topic_or_partition, text)
    if kind == RESOURCE_BROKER and name:
        number = whole_number(name)
        assert number is not None, f"{name=}"
        node_id = NodeId(number)
        if node_id not in image.brokers and node_id not in image.controllers:
            text = f"No node with id {name} found."
            return ApiError(ErrorCode.broker_id_not_registered, text)
    return None


def broker_logger_error(resource: "AlterConfigsResource | IncrementalResource") -> ApiError:
    """The error of a change of loggers, of which none exists here."""
    for config in resource.configs:
        return ApiError(ErrorCode.invalid_config, f"Logger {config.name} does not exist!")
    return _NONE


assert RESOURCE_CLIENT_METRICS == 16, "the match above spells the numbers"
