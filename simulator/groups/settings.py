"""Settings of brokers and members in runs with groups: short times, small files."""

from typing import Final

from msgspec.structs import replace

from broker.config import RecordsConfig
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.consumer.settings import Bounded, ConsumerSettings
from simulator.records.clients import Topic

GROUPED: Final = Topic("grouped", 3)
"""The topic that groups read."""
OFFSETS_PARTITIONS: Final = 2
SESSION_MS: Final = 2_000
REBALANCE_MS: Final = 3_000
HEARTBEAT_US: Final = 300_000
GROUPS: Final = GroupCoordinatorConfig(
    classic=ClassicSettings(initial_rebalance_delay_ms=300, session_timeout_ms_min=100),
    consumer=ConsumerSettings(
        session_timeout_ms=Bounded(default=SESSION_MS, minimum=100, maximum=60_000),
        heartbeat_interval_ms=Bounded(default=HEARTBEAT_US // 1_000, minimum=100, maximum=15_000),
        assignment_interval_ms=Bounded(default=200, minimum=0, maximum=15_000),
    ),
)
OFFSETS_CONFIGS: Final = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "300",
}
"""Of the topic of offsets, which is cleaned all along; segments are smaller than a broker allows
to those that it creates."""
OFFSETS_SEGMENTS: Final = ("3000", "5000", "20000")
"""No record of a conversion is larger: one that is finds no segment, and its group stays."""


def with_groups(config: RecordsConfig) -> RecordsConfig:
    """The settings of a broker that coordinates groups."""
    return replace(config, groups=GROUPS)
