"""Settings of this broker that dynamic configs change while it runs.

apache/kafka: core/.../server/DynamicBrokerConfig.scala (DynamicThreadPool,
DynamicProducerStateManagerConfig)
"""

from typing import Final

import msgspec

from broker.config import RecordsConfig
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from metadata.image import CONFIG_BROKER, Image

EXPIRATION: Final = "producer.id.expiration.ms"
FETCHERS: Final = "num.replica.fetchers"
RECOVERY_THREADS: Final = "num.recovery.threads.per.data.dir"
"""Acts on the loading of logs, which begins with the first image."""
DYNAMIC_KEYS: Final = frozenset({EXPIRATION, FETCHERS, RECOVERY_THREADS})


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in force."""

    producer_expiration_ms: int
    fetchers: int
    """Of each leader."""
    recovery_threads: int
    """Of each log directory."""


def broker_settings(config: RecordsConfig, image: Image) -> BrokerSettings:
    """Return the settings at an image: those of the broker, of all brokers, of its own file."""
    upkeep = config.upkeep
    return BrokerSettings(
        producer_expiration_ms=_number(config, image, EXPIRATION, upkeep.producer_expiration_ms),
        fetchers=_number(config, image, FETCHERS, config.replica_fetch.fetchers),
        recovery_threads=_number(config, image, RECOVERY_THREADS, upkeep.recovery_threads),
    )


def _number(config: RecordsConfig, image: Image, key: str, static: int) -> int:
    for name in (str(config.node_id), ""):
        text = image.config(CONFIG_BROKER, name).get(key)
        if text is not None:
            value, error = parse_value(broker_configs()[key], text)
            if error is None:
                return int(value)
    return static
