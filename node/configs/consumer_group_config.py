"""Kafka's keys about consumer groups (KIP-848): `group.consumer.*`, and the one to turn them off.

(apache/kafka: GroupCoordinatorConfig)
"""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.group.consumer.settings import Bounded, ConsumerSettings, MigrationPolicy
from coordinator.group.consumer.targets import ASSIGNORS
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from node.errors import ConfigError

_BOUNDED: Final = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
"""Values that a group may set for itself, in the order of Kafka's checks."""
MAX_SIZE_KEY: Final = "group.consumer.max.size"
REGEX_KEY: Final = "group.consumer.regex.refresh.interval.ms"
CLASSIC_MAX_SIZE_KEY: Final = "group.max.size"
ASSIGNORS_KEY: Final = "group.consumer.assignors"
POLICY_KEY: Final = "group.consumer.migration.policy"
PROTOCOLS_KEY: Final = "group.coordinator.rebalance.protocols"
CONSUMER_GROUP_KEYS: Final = frozenset(
    {
        *(f"group.consumer.{infix}{name}" for name in _BOUNDED for infix in ("", "min.", "max.")),
        MAX_SIZE_KEY,
        REGEX_KEY,
        CLASSIC_MAX_SIZE_KEY,
        ASSIGNORS_KEY,
        POLICY_KEY,
        PROTOCOLS_KEY,
    }
)


def consumer_settings(
    given: Mapping[str, str], whole: Callable[[str, str], int]
) -> ConsumerSettings:
    """The settings of a broker with these keys.

    Args:
        given: texts by key.
        whole: the number of a text of a key; raises ConfigError.

    Raises:
        ConfigError: a value is refused.
    """
    default = ConsumerSettings()

    def number(key: str, known: int) -> int:
        return whole(given[key], key) if key in given else known

    heartbeat = _bounded("heartbeat.interval.ms", default.heartbeat_interval_ms, given, whole)
    session = _bounded("session.timeout.ms", default.session_timeout_ms, given, whole)
    assignment = _bounded("assignment.interval.ms", default.assignment_interval_ms, given, whole)
    if heartbeat.default >= session.default:
        raise ConfigError(
            "group.consumer.heartbeat.interval.ms must be less than "
            "group.consumer.session.timeout.ms"
        )
    return ConsumerSettings(
        is_enabled=_is_enabled(given),
        heartbeat_interval_ms=heartbeat,
        session_timeout_ms=session,
        assignment_interval_ms=assignment,
        max_size=number(MAX_SIZE_KEY, default.max_size),
        regex_refresh_interval_ms=number(REGEX_KEY, default.regex_refresh_interval_ms),
        classic_max_size=number(CLASSIC_MAX_SIZE_KEY, default.classic_max_size),
        assignors=_assignors(given, default.assignors),
        migration_policy=_policy(given, default.migration_policy),
    )


def _bounded(
    name: str, default: Bounded, given: Mapping[str, str], whole: Callable[[str, str], int]
) -> Bounded:
    keys = {infix: f"group.consumer.{infix}{name}" for infix in ("", "min.", "max.")}
    known = {"": default.default, "min.": default.minimum, "max.": default.maximum}
    value, least, most = (
        whole(given[key], key) if key in given else known[infix] for infix, key in keys.items()
    )
    for is_wrong, key, comparison, limit in (
        (most < least, keys["max."], "greater than or equal to", keys["min."]),
        (value < least, keys[""], "greater than or equal to", keys["min."]),
        (value > most, keys[""], "less than or equal to", keys["max."]),
    ):
        if is_wrong:
            raise ConfigError(f"{key} must be {comparison} {limit}")
    return Bounded(default=value, minimum=least, maximum=most)


def _assignors(given: Mapping[str, str], default: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the assignors, the preferred one first; classes of one's own cannot be loaded."""
    if ASSIGNORS_KEY not in given:
        return default
    names = tuple(name.strip() for name in given[ASSIGNORS_KEY].split(","))
    for name in names:
        if name not in ASSIGNORS:
            raise ConfigError.invalid(name, ASSIGNORS_KEY, f"Class {name} cannot be found")
    if len(set(names)) < len(names):
        raise ConfigError.invalid(given[ASSIGNORS_KEY], ASSIGNORS_KEY, "duplicate values")
    return names


def _is_enabled(given: Mapping[str, str]) -> bool:
    """True if the protocol of KIP-848 is one of a broker; the classic one must be."""
    if PROTOCOLS_KEY not in given:
        return True
    values, message = parse_value(broker_configs()[PROTOCOLS_KEY], given[PROTOCOLS_KEY])
    if message is not None:
        raise ConfigError(message)
    if "classic" not in values:
        raise ConfigError("Disabling the 'Classic' protocol is not supported.")
    return "consumer" in values


def _policy(given: Mapping[str, str], default: MigrationPolicy) -> MigrationPolicy:
    text = given.get(POLICY_KEY, default)
    try:
        return MigrationPolicy(text.lower())
    except ValueError:
        names = ", ".join(policy.upper() for policy in MigrationPolicy)
        reason = f"String must be one of (case insensitive): {names}"
        raise ConfigError.invalid(text, POLICY_KEY, reason) from None
