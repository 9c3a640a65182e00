"""Configs of consumer groups, of the broker and of one group.

(apache/kafka: GroupCoordinatorConfig, GroupConfig, ConsumerGroupMigrationPolicy; 4.3)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from coordinator.group.consumer.targets import ASSIGNORS

SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"
DYNAMIC_ASSIGNMENT_INTERVAL_MS: Final = "group.consumer.assignment.interval.ms"
"""Config of brokers that changes while they run: the default of the one above."""


class MigrationPolicy(StrEnum):
    """Conversions between classic and consumer groups while they have members."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def is_upgrade_enabled(self) -> bool:
        """True if a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def is_downgrade_enabled(self) -> bool:
        """True if a consumer group may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A config that a group may set for itself, within the broker's bounds, inclusive."""

    default: int
    minimum: int
    maximum: int

    def of_group(self, text: str | None) -> int:
        """The value of a group with this config, None without it.

        A value that the bounds no longer allow counts as the nearest that they do; the broker's
        own is used as it is.
        """
        return self.default if text is None else min(max(int(text), self.minimum), self.maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """`group.consumer.*` of a broker, with Kafka's defaults."""

    is_enabled: bool = True
    """True if `group.coordinator.rebalance.protocols` has `consumer`."""
    session_timeout_ms: Bounded = Bounded(default=45_000, minimum=45_000, maximum=60_000)
    heartbeat_interval_ms: Bounded = Bounded(default=5_000, minimum=5_000, maximum=15_000)
    assignment_interval_ms: Bounded = Bounded(default=1_000, minimum=0, maximum=15_000)
    max_size: int = 2**31 - 1
    """Members of a group."""
    classic_max_size: int = 2**31 - 1
    """`group.max.size`: members of a classic group."""
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    """Names; the first is that of a group whose members name none."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
    """Longest time between two resolutions of a group's regular expressions."""

    def _assignment_interval_ms(self, configs: Mapping[str, str]) -> int:
        text = configs.get(ASSIGNMENT_INTERVAL_MS)
        if text is None and DYNAMIC_ASSIGNMENT_INTERVAL_MS in configs:
            return int(configs[DYNAMIC_ASSIGNMENT_INTERVAL_MS])
        return self.assignment_interval_ms.of_group(text)

    def of_group(self, configs: Mapping[str, str]) -> "GroupSettings":
        """Settings of a group with these configs of its own, and dynamic ones of the broker."""
        return GroupSettings(
            session_timeout_ms=self.session_timeout_ms.of_group(configs.get(SESSION_TIMEOUT_MS)),
            heartbeat_interval_ms=self.heartbeat_interval_ms.of_group(
                configs.get(HEARTBEAT_INTERVAL_MS)
            ),
            assignment_interval_ms=self._assignment_interval_ms(configs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Times of one group, ms."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
