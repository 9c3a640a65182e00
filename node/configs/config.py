"""Conversion of Kafka's `server.properties`, used unchanged, to a validated `NodeConfig`.

Kafka's key names are written only here and in `config_keys.py`. Every invalid value is a
`ConfigError` of one line that names key, value and the allowed values, with Kafka's text where
there is one (apache/kafka: core/.../KafkaConfig.scala validateValues,
clients/.../ConfigDef.java; 3.9, 4.x).
Keys without meaning here are collected in `unknown_keys` for one warning, as in Kafka. Unsupported
settings that would change the guarantees of the node (another security protocol, ZooKeeper) are
refused instead of ignored.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kernel.config import BrokerConfig, MetadataLogConfig, NodeConfig, QuorumConfig, TopicDefaults
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from network.connection_limits import ConnectionLimits
from node.configs.config_keys import (
    ABOUT_RECORDS,
    ACTED_ON,
    FLAGS,
    INT_MAX,
    NUMBERS,
    STATIC_DEFAULTS,
    Whole,
)
from node.configs.listeners import (
    ADDRESS_LIMITS_KEY,
    BOOTSTRAP_KEY,
    INSPECTION_KEY,
    advertised_listeners,
    bound_listeners,
    check_protocols,
    check_roles_of_listeners,
    inspection_listener,
    inter_broker_listener,
    parse_address_limits,
    parse_bootstrap_servers,
    parse_voters,
    split_list,
)
from node.configs.properties import PropertiesError, parse_properties
from node.configs.records_config import check_records
from node.errors import ConfigError, shortened
from quorum_controller.config import ElectionIntervals, MutationWindow, TokenSettings
from quorum_controller.security.authorization import AccessRules
from wire.types import Endpoint, NodeId

__all__ = ["ConfigError", "node_config", "parse_overrides", "read_config"]

WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ROLES: Final = ("broker", "controller")


def read_config(
    path: Path, overrides: Sequence[str] = (), *, host_name: str = "localhost"
) -> NodeConfig:
    """Return the configuration in a file, with `key=value` overrides of the command line.

    Raises:
        ConfigError: the file cannot be read, or a value is refused.
    """
    properties = read_properties(path)
    return node_config({**properties, **parse_overrides(overrides)}, host_name=host_name)


def read_properties(path: Path) -> dict[str, str]:
    """Return the keys and values of a file, unvalidated.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, PropertiesError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` strings of the command line; the last of equal keys wins.

    Raises:
        ConfigError: no `=`, or an empty key.
    """
    found: dict[str, str] = {}
    for override in overrides:
        key, separator, value = override.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"Invalid override {override}: expected key=value")
        found[key.strip()] = value.strip()
    return found


def node_config(properties: Mapping[str, str], *, host_name: str = "localhost") -> NodeConfig:
    """Return the configuration of these keys and values.

    Args:
        properties: Kafka's keys, with their values as strings.
        host_name: advertised for a listener without a host (Kafka: the canonical name).

    Raises:
        ConfigError: the first value that is refused.
    """
    given = {key: value.strip() for key, value in properties.items()}
    _refuse_bytes(given)
    _refuse_unsupported(given)
    roles = _roles(given)
    node_id = _node_id(given)
    voters = _voters(given, node_id, roles)
    controller_names = _controller_listener_names(given)
    protocols = check_protocols(given, controller_names)
    bound = bound_listeners(given, controller_names, protocols, roles)
    advertised = advertised_listeners(given, bound, controller_names, host_name)
    check_roles_of_listeners(bound, advertised, controller_names, roles)
    inter_broker_name = inter_broker_listener(given, advertised, controller_names, roles)
    groups = _groups(given)
    if groups["quorum"].get("joins") and "controller" not in roles:
        raise ConfigError(
            "controller.quorum.auto.join.enable is only supported when process.roles contains the "
            "'controller' role."
        )
    log_dirs = _log_dirs(given)
    unknown_keys = tuple(sorted(set(given) - ACTED_ON))
    _check_by_schema(
        given, (*sorted((STATIC_DEFAULTS | ABOUT_RECORDS) & set(given)), *unknown_keys)
    )
    config = NodeConfig(
        node_id=node_id,
        is_broker="broker" in roles,
        is_controller="controller" in roles,
        voters=voters,
        bootstrap_servers=parse_bootstrap_servers(given.get(BOOTSTRAP_KEY, "")),
        controller_listener_names=controller_names,
        listeners=bound,
        advertised_listeners=advertised,
        log_dirs=log_dirs,
        metadata_log_dir=given.get("metadata.log.dir") or log_dirs[0],
        quorum=QuorumConfig(**groups["quorum"]),
        metadata_log=MetadataLogConfig(**groups["metadata_log"]),
        broker=_broker(given, groups["broker"]),
        topic_defaults=_topic_defaults(groups["topics"]),
        access=_access(given, groups["access"]),
        tokens=_tokens(given, groups["tokens"]),
        elections=_elections(groups["elections"]),
        mutations=MutationWindow(**groups["mutations"]),
        inspection_listener=inspection_listener(given.get(INSPECTION_KEY, "")),
        properties=tuple(sorted(given.items())),
        unknown_keys=unknown_keys,
        connection_limits=_connection_limits(
            given, groups["connections"], bound, controller_names, inter_broker_name
        ),
    )
    if config.is_broker:
        check_records(config)
    return config


def inspection_limits(properties: Mapping[str, str]) -> dict[str, int]:
    """Return the configured fields of `inspection.server.Limits`, which has the defaults.

    Raises:
        ConfigError: a value is refused.
    """
    given = {key: value.strip() for key, value in properties.items()}
    return _groups(given)["inspection"]


def _refuse_bytes(given: Mapping[str, str]) -> None:
    """Refuse keys and values that are not text, as environment variables may be."""
    for key, value in given.items():
        try:
            f"{key}{value}".encode()
        except UnicodeEncodeError as error:
            raise ConfigError.invalid(value, key, "not UTF-8") from error


def _refuse_unsupported(given: Mapping[str, str]) -> None:
    """Refuse unsupported settings that would be dangerous to ignore."""
    reasons = {
        "zookeeper.connect": "ZooKeeper is not supported; set process.roles and "
        "controller.quorum.voters",
    }
    for key, reason in reasons.items():
        if given.get(key):
            raise ConfigError.invalid(given[key], key, reason)


def _check_by_schema(given: Mapping[str, str], keys: Sequence[str]) -> None:
    """Refuse values that Kafka would not start with, for keys that are not read elsewhere."""
    if not keys:
        return
    definitions = broker_configs()
    for key in keys:
        definition = definitions.get(key)
        if definition is not None:
            _, message = parse_value(definition, given[key])
            if message is not None:
                shown = given[key]
                raise ConfigError(message.replace(shown, shortened(shown)) if shown else message)


def _access(given: Mapping[str, str], fields: dict[str, Any]) -> AccessRules | None:
    key = "authorizer.class.name"
    name = given.get(key, "")
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise ConfigError.invalid(name, key, f"String must be one of: {STANDARD_AUTHORIZER}")
    users = [user.strip() for user in given.get("super.users", "").split(";")]
    for user in users:
        if user and not all(user.partition(":")):
            reason = "each principal must be of the form principalType:principalName"
            raise ConfigError.invalid(user, "super.users", reason)
    return AccessRules(super_users=frozenset(user for user in users if user), **fields)


def _tokens(given: Mapping[str, str], fields: dict[str, Any]) -> TokenSettings:
    return TokenSettings(secret_key=given.get("delegation.token.secret.key") or None, **fields)


def _elections(fields: dict[str, Any]) -> ElectionIntervals:
    given = dict(fields)
    is_balanced = given.pop("is_balanced", True)
    if "preferred_seconds" in given:
        given["preferred_ms"] = 1000 * given.pop("preferred_seconds")
    if not is_balanced:
        given["preferred_ms"] = None
    return ElectionIntervals(**given)


def _topic_defaults(fields: dict[str, Any]) -> TopicDefaults:
    """Make the defaults; of the replication factor Kafka's controller takes the low 16 bits.

    One that is not positive is refused with each topic that would get it.
    """
    given = dict(fields)
    if "replication_factor" in given:
        low_bits = given["replication_factor"] % 2**16
        given["replication_factor"] = low_bits - 2**16 if low_bits >= 2**15 else low_bits
    return TopicDefaults(**given)


def _roles(given: Mapping[str, str]) -> tuple[str, ...]:
    key = "process.roles"
    roles = split_list(given.get(key, ""))
    if not roles:
        raise ConfigError(f'Missing required configuration "{key}" which has no default value.')
    for role in roles:
        if role not in ROLES:
            raise ConfigError.invalid(given[key], key, f"String must be one of: {', '.join(ROLES)}")
    if len(set(roles)) != len(roles):
        raise ConfigError(f"Duplicate role names found in `{key}`: {given[key]}")
    return roles


def _node_id(given: Mapping[str, str]) -> NodeId:
    if "node.id" not in given and "broker.id" not in given:
        raise ConfigError('Missing required configuration "node.id" which has no default value.')
    key = "node.id" if "node.id" in given else "broker.id"
    node_id = _number(given[key], Whole(key, "node", "node_id", 0))
    if "broker.id" in given and _number(
        given["broker.id"], Whole("broker.id", "node", "node_id", -1)
    ) not in (node_id, -1):
        raise ConfigError(
            "You must set `node.id` to the same value as `broker.id`: "
            f"node.id={node_id}, broker.id={given['broker.id']}"
        )
    return NodeId(node_id)


def _voters(given: Mapping[str, str], node_id: NodeId, roles: tuple[str, ...]) -> tuple[Any, ...]:
    key = "controller.quorum.voters"
    voters = parse_voters(given.get(key, ""))
    if not voters:
        if not given.get(BOOTSTRAP_KEY):
            raise ConfigError(
                f"If using process.roles, either {BOOTSTRAP_KEY} must contain the set of bootstrap "
                f"controllers or {key} must contain a parseable set of controllers."
            )
        return voters
    ids = ",".join(str(voter.id) for voter in voters)
    is_listed = any(voter.id == node_id for voter in voters)
    if "controller" in roles and not is_listed:
        raise ConfigError(
            f"If process.roles contains the 'controller' role, the node id {node_id} must be "
            f"included in the set of voters {key}=Set({ids})"
        )
    if "controller" not in roles and is_listed:
        raise ConfigError(
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be "
            f"included in the set of voters {key}=Set({ids})"
        )
    return voters


def _controller_listener_names(given: Mapping[str, str]) -> tuple[str, ...]:
    key = "controller.listener.names"
    names = tuple(name.upper() for name in split_list(given.get(key, "")))
    if not names:
        raise ConfigError(f"{key} must contain at least one value when running KRaft")
    if len(set(names)) != len(names):
        raise ConfigError.invalid(given[key], key, "each listener may be named once")
    return names


def _log_dirs(given: Mapping[str, str]) -> tuple[str, ...]:
    key = "log.dirs" if given.get("log.dirs") else "log.dir"
    # Kafka's own default if neither key is set.
    value = given.get(key) or "/tmp/kafka-logs"  # noqa: S108
    folders = split_list(value)
    if not folders:
        raise ConfigError.invalid(value, key, "at least one folder must be named")
    if len(set(folders)) != len(folders):
        raise ConfigError.invalid(value, key, "a folder is named twice")
    for folder_key in (key, "metadata.log.dir"):
        if "\0" in given.get(folder_key, ""):
            raise ConfigError.invalid(given[folder_key], folder_key, "a folder's name has no NUL")
    return folders


def _groups(given: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the configured fields by group; the defaults are in kernel/config.py."""
    names = {number.group for number in NUMBERS} | {flag.group for flag in FLAGS}
    groups: dict[str, dict[str, Any]] = {name: {} for name in sorted(names)}
    for number in NUMBERS:
        if number.key in given:
            groups[number.group][number.field] = _number(given[number.key], number)
    for flag in FLAGS:
        if flag.key in given:
            groups[flag.group][flag.field] = _flag(given[flag.key], flag.key)
    return groups


def _connection_limits(
    given: Mapping[str, str],
    fields: dict[str, Any],
    bound: Sequence[Endpoint],
    controller_names: tuple[str, ...],
    inter_broker_name: str | None,
) -> ConnectionLimits:
    """Make the limits; Kafka's idle time 0 means "closed at once when idle", negative "never"."""
    overrides = parse_address_limits(given.get(ADDRESS_LIMITS_KEY, ""))
    if fields.get("per_address_max") == 0 and not overrides:
        reason = f"can be set to zero only if {ADDRESS_LIMITS_KEY} property is set."
        raise ConfigError.invalid("0", "max.connections.per.ip", reason)
    if "idle_ms_max" in fields:
        idle_ms_max = fields["idle_ms_max"]
        fields = {**fields, "idle_ms_max": 0 if idle_ms_max < 0 else max(1, idle_ms_max)}
    broker_listeners = [e for e in bound if e.listener not in controller_names]
    protected = inter_broker_name if len(broker_listeners) > 1 else None
    return ConnectionLimits(per_address_overrides=overrides, protected_listener=protected, **fields)


def _broker(given: Mapping[str, str], fields: dict[str, Any]) -> BrokerConfig:
    broker = BrokerConfig(rack=given.get("broker.rack") or None, **fields)
    interval, limit = str(broker.heartbeat_interval_ms), broker.session_timeout_ms
    if broker.heartbeat_interval_ms >= limit:
        key = "broker.heartbeat.interval.ms"
        written = given.get(key, interval)
        value = "Value" if written == interval else f"Value (used as {interval})"
        reason = f"{value} must be less than broker.session.timeout.ms={limit}"
        raise ConfigError.invalid(written, key, reason)
    return broker


def _number(text: str, allowed: Whole) -> int:
    if WHOLE_NUMBER.fullmatch(text) is None:
        kind = "LONG" if allowed.maximum > INT_MAX else "INT"
        raise ConfigError.invalid(text, allowed.key, f"Not a number of type {kind}")
    value = int(text)
    if value < allowed.minimum:
        raise ConfigError.invalid(text, allowed.key, f"Value must be at least {allowed.minimum}")
    if value > allowed.maximum:
        raise ConfigError.invalid(
            text, allowed.key, f"Value must be no more than {allowed.maximum}"
        )
    return value if allowed.least is None else max(allowed.least, value)


def _flag(text: str, key: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ConfigError.invalid(text, key, "Expected value to be either true or false")
    return lowered == "true"
