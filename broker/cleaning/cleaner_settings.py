"""Kafka's keys of the log cleaner, as they are in force at an image: all but one may change.

apache/kafka: storage/.../log/CleanerConfig.java, LogCleaner.java (`reconfigurableConfigs`)
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from metadata.config_schema import broker_config
from metadata.config_values import parse_value
from metadata.image import EMPTY, Image
from metadata.node_configs import NodeConfigs
from storage.cleaner.offset_map import map_slots
from storage.cleaner.selection import RoundLimits

ENABLE: Final = "log.cleaner.enable"
THREADS: Final = "log.cleaner.threads"
BUFFER: Final = "log.cleaner.dedupe.buffer.size"
LOAD_FACTOR: Final = "log.cleaner.io.buffer.load.factor"
IO_BUFFER: Final = "log.cleaner.io.buffer.size"
RATE: Final = "log.cleaner.io.max.bytes.per.second"
BACKOFF: Final = "log.cleaner.backoff.ms"
DYNAMIC_KEYS: Final = frozenset({THREADS, BUFFER, LOAD_FACTOR, IO_BUFFER, RATE, BACKOFF})
"""Those that hold from the next round on when they change."""
CLEANER_KEYS: Final = DYNAMIC_KEYS | {ENABLE}
READ_BYTES_MIN: Final = 4096
BUFFER_BYTES_MIN: Final = 1 << 20
"""Of `log.cleaner.dedupe.buffer.size` per thread, exclusive, as Kafka asks at its start."""


class CleanerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force."""

    is_enabled: bool
    threads: int
    """Rounds at a time."""
    limits: RoundLimits
    """Of each."""
    bytes_per_second: float
    """Read and written by each, so that all of them together stay below the setting."""
    backoff_ms: int
    """Time between two looks at the logs that found nothing to clean."""


def cleaner_settings(image: Image, node_id: int, properties: Mapping[str, str]) -> CleanerSettings:
    """The settings of a broker at an image."""
    configs = NodeConfigs(image, node_id, properties)
    values = {key: _value(configs, key) for key in CLEANER_KEYS}
    threads = max(0, values[THREADS])
    share = max(1, threads)
    slots = max(1, map_slots(values[BUFFER], share))
    rate = values[RATE] / share
    return CleanerSettings(
        is_enabled=values[ENABLE] and threads > 0,
        threads=threads,
        limits=RoundLimits(
            slots=slots,
            keys_max=max(1, min(slots, int(slots * values[LOAD_FACTOR]))),
            read_bytes=max(READ_BYTES_MIN, values[IO_BUFFER] // share // 2),
        ),
        bytes_per_second=rate if rate > 0 else math.inf,
        backoff_ms=max(1, values[BACKOFF]),
    )


def _value(configs: NodeConfigs, key: str) -> Any:
    """The value of a key; a start has refused those that cannot be read."""
    definition = broker_config(key)
    assert definition is not None, f"{key=}"
    assert definition.default is not None, f"{key=}"
    text = configs.value(key)
    value, error = parse_value(definition, definition.default if text is None else text)
    assert error is None, error
    return value


DEFAULT: Final = cleaner_settings(EMPTY, 0, {})
"""Kafka's defaults."""
