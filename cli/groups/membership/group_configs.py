"""Configs of a consumer that has a group: Kafka's names, values and refusals."""

from collections.abc import Mapping
from typing import Final

from cli.arguments import UsageError, shortened
from cli.groups.membership.actions import GroupConfig
from cli.groups.membership.assignors import CLASSES
from cli.records.clients.client_configs import flag_of, number_of

PROTOCOLS: Final = ("classic", "consumer")
OF_OTHER_PROTOCOL: Final = {
    "classic": ("group.remote.assignor",),
    "consumer": ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
}
"""Protocol -> configs that it does not have."""
DEFAULTS: Final = GroupConfig(group_id="")


def group_config(properties: Mapping[str, str], group_id: str) -> GroupConfig:
    """The configs of a member.

    Raises:
        UsageError: a value is impossible, or two do not fit.
    """
    if not group_id.strip():
        raise UsageError("The configured group.id should not be an empty string or whitespace.")
    protocol = properties.get("group.protocol", PROTOCOLS[0]).lower()
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"Invalid value {shortened(properties['group.protocol'])} for configuration "
            "group.protocol: String must be one of (case insensitive): CLASSIC, CONSUMER"
        )
    for name in OF_OTHER_PROTOCOL[protocol]:
        if name in properties:
            raise UsageError(f"{name} cannot be set when group.protocol={protocol.upper()}")

    def number(name: str, default: int) -> int:
        return number_of(properties, name, default)

    return GroupConfig(
        group_id=group_id,
        is_consumer_protocol=protocol == "consumer",
        group_instance_id=properties.get("group.instance.id"),
        session_timeout_ms=number("session.timeout.ms", DEFAULTS.session_timeout_ms),
        heartbeat_interval_ms=number("heartbeat.interval.ms", DEFAULTS.heartbeat_interval_ms),
        max_poll_interval_ms=number("max.poll.interval.ms", DEFAULTS.max_poll_interval_ms),
        assignors=_assignors(properties),
        group_remote_assignor=properties.get("group.remote.assignor"),
        enable_auto_commit=flag_of(properties, "enable.auto.commit", default=True),
        auto_commit_interval_ms=number("auto.commit.interval.ms", DEFAULTS.auto_commit_interval_ms),
        metadata_max_age_ms=number("metadata.max.age.ms", DEFAULTS.metadata_max_age_ms),
        request_timeout_ms=number("request.timeout.ms", DEFAULTS.request_timeout_ms),
    )


def _assignors(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = properties.get("partition.assignment.strategy")
    if text is None:
        return DEFAULTS.assignors
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in CLASSES]
    if unknown:
        raise UsageError(
            f"Invalid value {shortened(unknown[0])} for configuration "
            f"partition.assignment.strategy: spoken are {', '.join(CLASSES)}"
        )
    return tuple(dict.fromkeys(CLASSES[name] for name in names))
