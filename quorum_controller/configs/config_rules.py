"""Validation of topic, group and client metrics configs: names, values, conflicts.

Errors are INVALID_CONFIG with Kafka's texts; unknown names and invalid intervals of client metrics
are INVALID_REQUEST. Broker configs are validated by the broker that receives the request
(`broker_config_rules.py`): a controller does not know the settings of other nodes.
Source: apache/kafka: core/.../server/ControllerConfigurationValidator.scala, storage/.../LogConfig,
group-coordinator/.../GroupConfig.java, server/.../metrics/ClientMetricsConfigs.java.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from metadata.config_schema import client_metrics_configs, group_configs, topic_configs
from metadata.config_values import parse_value
from metadata.node_configs import NodeConfigs
from wire.errors import ApiError, ErrorCode

_LAGS: Final = frozenset({"min.compaction.lag.ms", "max.compaction.lag.ms"})
_REMOTE_STORAGE: Final = "remote.storage.enable"
_LOCAL_IS_REMOTE: Final = -2
"""The value of local.retention.* that means that of retention.*."""
_METRICS_INTERVAL_MS: Final = range(100, 3_600_001)
_METRICS_MATCHES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.invalid_config, text)


# --- topics -------------------------------------------------------------------------------------


def topic_config_error(
    configs: Mapping[str, str], existing: Mapping[str, str], node: NodeConfigs
) -> ApiError | None:
    """The error of the configs of a topic, None if they are valid.

    Args:
        configs: all configs that the topic would have.
        existing: its current configs, empty for a new topic.
        node: of this controller, for defaults and for whether remote storage is enabled.
    """
    definitions = topic_configs()
    for name in configs:
        if name not in definitions:
            return _invalid(f"Unknown topic config name: {name}")
    parsed: dict[str, Any] = {}
    for name, text in sorted(configs.items()):
        value, reason = parse_value(definitions[name], text)
        if reason is not None:
            return _invalid(reason)
        parsed[name] = value

    def value_of(name: str) -> Any:
        if name not in parsed:
            default = node.topic_value(definitions[name])
            assert default is not None, f"{name} has no default"
            parsed[name] = parse_value(definitions[name], default)[0]
        return parsed[name]

    error = None
    if not _LAGS.isdisjoint(parsed):  # the defaults of a node do not contradict each other
        error = _lag_conflict(value_of)
    if error is None and (_REMOTE_STORAGE in configs or _REMOTE_STORAGE in existing):
        error = _remote_storage_conflict(value_of, existing, node)
    return error


_ValueOf = Callable[[str], Any]
"""The parsed value of a config by name (bool, int, float, str or list)."""


def _lag_conflict(value_of: _ValueOf) -> ApiError | None:
    least, most = value_of("min.compaction.lag.ms"), value_of("max.compaction.lag.ms")
    if least <= most:
        return None
    return _invalid(
        f"conflict topic config setting min.compaction.lag.ms ({least}) > "
        f"max.compaction.lag.ms ({most})"
    )


def _remote_storage_conflict(
    value_of: _ValueOf, existing: Mapping[str, str], node: NodeConfigs
) -> ApiError | None:
    """Error of remote storage together with the other configs of a topic."""
    if not value_of(_REMOTE_STORAGE):
        was_remote = existing.get(_REMOTE_STORAGE, "false").lower() == "true"
        if was_remote and not value_of("remote.log.delete.on.disable"):
            return _invalid(
                "It is invalid to disable remote storage without deleting remote data. If you want "
                "to keep the remote data and turn to read only, please set `remote.storage.enable="
                "true,remote.log.copy.disable=true`. If you want to disable remote storage and "
                "delete all remote data, please set `remote.storage.enable=false,"
                "remote.log.delete.on.disable=true`."
            )
        return None
    if node.value("remote.log.storage.system.enable") != "true":
        return _invalid(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if value_of("cleanup.policy") not in ([], ["delete"]):
        return _invalid(
            "Remote log storage only supports topics with cleanup.policy=delete or "
            "cleanup.policy being an empty list."
        )
    for unit in ("bytes", "ms"):
        error = _local_retention_error(value_of, unit)
        if error is not None:
            return error
    return _copy_disabled_error(value_of)


def _local_retention_error(value_of: _ValueOf, unit: str) -> ApiError | None:
    total, local = value_of(f"retention.{unit}"), value_of(f"local.retention.{unit}")
    is_limited = total > -1 if unit == "bytes" else total != -1
    if not is_limited or local == _LOCAL_IS_REMOTE:
        return None
    prefix = f"Invalid value {local} for configuration local.retention.{unit}: "
    if local == -1:
        text = f"Value must not be -1 as retention.{unit} value is set as {total}."
        return _invalid(prefix + text)
    if local > total:
        text = f"Value must not be more than retention.{unit} property value: {total}"
        return _invalid(prefix + text)
    return None


def _copy_disabled_error(value_of: _ValueOf) -> ApiError | None:
    if not value_of("remote.log.copy.disable"):
        return None
    for unit in ("bytes", "ms"):
        total, local = value_of(f"retention.{unit}"), value_of(f"local.retention.{unit}")
        if local not in (_LOCAL_IS_REMOTE, total):
            return _invalid(
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
                f"`retention.{unit}` must be set to the identical value because there will be no "
                "more logs copied to the remote storage."
            )
    return None


# --- groups -------------------------------------------------------------------------------------

_LIMITS: Final = (
    ("consumer.heartbeat.interval.ms", "consumer", "heartbeat.interval.ms"),
    ("consumer.session.timeout.ms", "consumer", "session.timeout.ms"),
    ("consumer.assignment.interval.ms", "consumer", "assignment.interval.ms"),
    ("share.heartbeat.interval.ms", "share", "heartbeat.interval.ms"),
    ("share.session.timeout.ms", "share", "session.timeout.ms"),
    ("share.record.lock.duration.ms", "share", "record.lock.duration.ms"),
    ("share.delivery.count.limit", "share", "delivery.count.limit"),
    ("share.partition.max.record.locks", "share", "partition.max.record.locks"),
    ("share.assignment.interval.ms", "share", "assignment.interval.ms"),
    ("streams.heartbeat.interval.ms", "streams", "heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "streams", "session.timeout.ms"),
    ("streams.num.standby.replicas", "streams", "standby.replicas"),
    ("streams.assignment.interval.ms", "streams", "assignment.interval.ms"),
)
"""Name of the group config, then KIND and REST of its limits `group.KIND.min.REST` and
`group.KIND.max.REST` in the broker configs; in Kafka's order."""


def group_config_error(configs: Mapping[str, str], node: NodeConfigs) -> ApiError | None:
    """The error of the configs of a group, None if they are valid; the limits are this node's."""
    definitions = group_configs()
    for name in configs:
        if name not in definitions:
            return _invalid(f"Unknown group config name: {name}")
    values: dict[str, Any] = {}
    for definition, default in node.group_values():
        text = configs.get(definition.name, default)
        assert text is not None, f"{definition.name} has no default"
        values[definition.name], error = parse_value(definition, text)
        if error is not None:
            return _invalid(error)
    for name, kind, rest in _LIMITS:
        excess = _limit_error(name, values[name], kind, rest, node)
        if excess is not None:
            return _invalid(excess)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            return _invalid(f"{session} must be greater than {heartbeat}")
    return None


def _limit_error(name: str, value: int, kind: str, rest: str, node: NodeConfigs) -> str | None:
    least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    if rest != "standby.replicas" and value < node.integer(least):
        return f"{name} must be greater than or equal to {least}"
    if value > node.integer(most):
        return f"{name} must be less than or equal to {most}"
    return None


# --- client metrics -----------------------------------------------------------------------------


def client_metrics_config_error(configs: Mapping[str, str]) -> ApiError | None:
    """The error of the configs of a client metrics subscription, None if they are valid."""
    definitions = client_metrics_configs()
    for name in configs:
        if name not in definitions:
            message = f"Unknown client metrics configuration: {name}"
            return ApiError(ErrorCode.invalid_request, message)
    values: dict[str, Any] = {}
    for name, text in configs.items():
        values[name], error = parse_value(definitions[name], text)
        if error is not None:
            return _invalid(error)
    interval_ms = values.get("interval.ms")
    if interval_ms is not None and interval_ms not in _METRICS_INTERVAL_MS:
        message = (
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and "
            "3600000 (1 hour)"
        )
        return ApiError(ErrorCode.invalid_request, message)
    for pattern in values.get("match", []):
        if not _is_match(pattern):
            return _invalid(f"Illegal client matching pattern: {pattern}")
    return None


def _is_match(pattern: str) -> bool:
    """True for `name=regular expression` with the name of a known client attribute."""
    parts = pattern.split("=")
    while parts and not parts[-1]:
        parts.pop()
    if len(parts) != 2 or parts[0].strip() not in _METRICS_MATCHES:
        return False
    try:
        re.compile(parts[1].strip())
    except (re.error, OverflowError, RecursionError):  # a huge repetition, deep nesting
        return False
    return True
