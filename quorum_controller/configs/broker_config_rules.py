"""Validation of AlterConfigs requests by a broker before it forwards them.

Only the broker that receives a request can validate changes of its own configs; the rest of the
request is forwarded to the controller. Error texts are Kafka's, including exception names in them.
Source: apache/kafka: core/.../server/{ConfigAdminManager,DynamicBrokerConfig,DynamicThreadPool},
storage/.../LogCleaner.java (validateReconfiguration); 4.3.
"""

from collections.abc import Mapping
from typing import Any, Final

from metadata.config_schema import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_NAMES,
    ConfigType,
    UpdateMode,
    broker_config,
)
from metadata.config_values import parse_value, whole_number
from metadata.cordoned_directories import CORDONED_LOG_DIRS
from metadata.image import CONFIG_BROKER, Image
from metadata.node_configs import LISTENER_CONFIG, NodeConfigs, definition_of
from quorum_controller.configs.alter_configs import (
    APPEND,
    DELETE,
    NODE_ID_MAX,
    SET,
    SUBTRACT,
    broker_logger_error,
)
from wire.api_keys import INCREMENTAL_ALTER_CONFIGS
from wire.errors import ApiError, ErrorCode

_TWICE: Final = ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
_LISTENER_ONLY: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)
"""Configs that are dynamic only with a listener prefix (SslConfigs.RECONFIGURABLE_CONFIGS)."""
_POOLS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
_CLEANER_THREADS: Final = "log.cleaner.threads"


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, text)


def broker_refusals(
    api_key: int, request: Any, image: Image, node: NodeConfigs
) -> list[ApiError | None]:
    """Per resource the result that this broker returns itself (may be NONE), None to forward it.

    Args:
        api_key: AlterConfigs or IncrementalAlterConfigs.
        request: its body.
        image: of this broker.
        node: its configs.
    """
    keys = [(int(r.resource_type), str(r.resource_name)) for r in request.resources]
    is_incremental = api_key == INCREMENTAL_ALTER_CONFIGS
    return [
        _TWICE
        if keys.count(key) > 1
        else _refusal(resource, image, node, is_incremental=is_incremental)
        for key, resource in zip(keys, request.resources, strict=True)
    ]


def _refusal(
    resource: Any, image: Image, node: NodeConfigs, *, is_incremental: bool
) -> ApiError | None:
    names = [str(config.name) for config in resource.configs]
    if len(set(names)) < len(names):
        return _invalid("Error due to duplicate config keys")
    nulls = [
        str(config.name)
        for config in resource.configs
        if config.value is None and not (is_incremental and config.config_operation == DELETE)
    ]
    if nulls:
        return _invalid(f"Null value not supported for : {', '.join(nulls)}")
    kind = int(resource.resource_type)
    if kind == RESOURCE_BROKER_LOGGER and is_incremental:
        return broker_logger_error(resource)
    if kind not in RESOURCE_NAMES or kind == RESOURCE_BROKER_LOGGER:
        return _invalid(f"Unknown resource type {kind}")
    return _broker_refusal(resource, image, node) if kind == RESOURCE_BROKER else None


def _broker_refusal(resource: Any, image: Image, node: NodeConfigs) -> ApiError | None:
    name = str(resource.resource_name)
    if name:
        number = whole_number(name)
        if number is None or not -NODE_ID_MAX - 1 <= number <= NODE_ID_MAX:
            return _invalid(f"Node id must be an integer, but it is: {name}")
        if number != node.node_id:
            return _invalid(f"Unexpected broker id, expected {node.node_id}, but received {name}")
    configs = dict(image.config(CONFIG_BROKER, name))
    if resource.configs and hasattr(resource.configs[0], "config_operation"):
        for change in resource.configs:
            error = _apply_change(configs, change)
            if error is not None:
                return error
    else:
        configs = {str(config.name): str(config.value) for config in resource.configs}
    text = _unusable(configs, is_per_broker=bool(name)) or _unfit(configs, node)
    return None if text is None else _invalid(text)


def _apply_change(configs: dict[str, str], change: Any) -> ApiError | None:
    """Apply one incremental change to configs: SET, DELETE, APPEND or SUBTRACT."""
    name, operation = str(change.name), int(change.config_operation)
    if operation == SET:
        configs[name] = str(change.value)
        return None
    if operation == DELETE:
        configs.pop(name, None)
        return None
    if operation not in (APPEND, SUBTRACT):
        return _invalid(f"Unknown operations type {operation}")
    definition = broker_config(name)
    if definition is None:
        return ApiError(ErrorCode.invalid_config, f"Unknown config name: {name}")
    if definition.type is not ConfigType.LIST:
        verb = "append" if operation == APPEND else "subtract"
        text = f"Config value {verb} is not allowed for config key: {name}"
        return ApiError(ErrorCode.invalid_config, text)
    parts = [part for part in configs.get(name, definition.default or "").split(",") if part]
    values = str(change.value).split(",")
    if operation == APPEND:
        parts += [value for value in values if value not in parts]
    else:
        parts = [part for part in parts if part not in values]
    configs[name] = ",".join(parts)
    return None


def _unusable(configs: Mapping[str, str], *, is_per_broker: bool) -> str | None:
    """The error of names that cannot be dynamic (at this level) or values of the wrong type."""
    fixed = [name for name in configs if _is_fixed(name)]
    if fixed:
        return f"Cannot update these configs dynamically: {_shown(fixed)}"
    bare = [name for name in configs if name in _LISTENER_ONLY]
    if bare:
        return (
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: {_shown(bare)}"
        )
    for name, text in sorted(configs.items()):
        definition = definition_of(name)
        error = None if definition is None else parse_value(definition, text)[1]
        if error is not None:
            return error
    if is_per_broker:
        return None
    single = [name for name in configs if _is_per_broker(name)]
    if not single:
        return None
    return (
        "Cannot update these configs at default cluster level, broker id must be specified: "
        f"{_shown(single)}"
    )


def _is_fixed(name: str) -> bool:
    definition = broker_config(name)
    return definition is not None and definition.update_mode is None


def _is_per_broker(name: str) -> bool:
    listener = LISTENER_CONFIG.fullmatch(name)
    definition = broker_config(listener[1] if listener else name)
    is_cluster_wide = definition is not None and definition.update_mode is UpdateMode.CLUSTER_WIDE
    if listener is not None:
        return not is_cluster_wide
    return definition is not None and definition.update_mode is UpdateMode.PER_BROKER


def _shown(names: list[str]) -> str:
    return f"[{', '.join(sorted(names))}]"


def _unfit(configs: Mapping[str, str], node: NodeConfigs) -> str | None:
    """The error of a value to which this broker cannot change from its current one."""
    for name in _POOLS:
        if name in configs:
            text = _pool_error(name, _count(configs, name), node.integer(name))
            if text is not None:
                return _wrapped(f"{text}")
    if _CLEANER_THREADS in configs:
        text = _cleaner_error(_count(configs, _CLEANER_THREADS), node.integer(_CLEANER_THREADS))
        if text is not None:
            return _wrapped(text)
    cordoned = [part.strip() for part in configs.get(CORDONED_LOG_DIRS, "").split(",")]
    return _cordoned_error([part for part in cordoned if part], node)


def _count(configs: Mapping[str, str], name: str) -> int:
    """The number of threads in valid configs."""
    definition = broker_config(name)
    assert definition is not None, f"{name=}"
    value, error = parse_value(definition, configs[name])
    assert error is None, f"{error=}"
    return int(value)


def _pool_error(name: str, threads: int, current: int) -> str | None:
    prefix = f"Dynamic thread count update validation failed for {name}={threads}"
    if threads == current:
        return None
    if threads <= 0:
        return f"{prefix}, value should be at least 1"
    if threads < current // 2:
        return f"{prefix}, value should be at least half the current value {current}"
    if threads > current * 2:
        return f"{prefix}, value should not be greater than double the current value {current}"
    return None


def _cleaner_error(threads: int, current: int) -> str | None:
    if threads < 1:
        return "Log cleaner threads should be at least 1"
    if threads < current // 2:
        return (
            f"Log cleaner threads cannot be reduced to less than half the current value {current}"
        )
    if threads > current * 2:
        return (
            "Log cleaner threads cannot be increased to more than double the current value "
            f"{current}"
        )
    return None


def _wrapped(text: str) -> str:
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {text} for configuration "
        "Invalid dynamic configuration"
    )


def _cordoned_error(cordoned: list[str], node: NodeConfigs) -> str | None:
    if "*" in cordoned:
        if len(cordoned) == 1:
            return None
        return (
            "requirement failed: When cordoned.log.dirs is set to *, it must not contain other "
            "values"
        )
    own = (node.value("log.dirs") or node.value("log.dir") or "").split(",")
    unknown = [directory for directory in cordoned if directory not in own]
    if not unknown:
        return None
    return (
        "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
        f"log.dir. Missing entries : {', '.join(unknown)}"
    )
