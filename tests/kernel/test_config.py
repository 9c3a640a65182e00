"""A setting that nobody configured has Kafka's default."""

from kernel.config import WEEK_MS, BrokerConfig, MetadataLogConfig, QuorumConfig, TopicDefaults
from metadata.config_schema import broker_config
from network.connection_limits import ConnectionLimits
from node.configs.config_keys import NUMBERS
from quorum_controller.config import MutationWindow, TokenSettings

GROUPS = {
    "quorum": QuorumConfig(),
    "metadata_log": MetadataLogConfig(),
    "broker": BrokerConfig(),
    "topics": TopicDefaults(),
    "tokens": TokenSettings(),
    "connections": ConnectionLimits(),
    "mutations": MutationWindow(),
}


def test_the_defaults_are_kafkas() -> None:
    ours, kafkas = {}, {}
    for number in NUMBERS:
        definition = broker_config(number.key)
        if number.group in GROUPS and definition is not None and definition.default is not None:
            ours[number.key] = str(getattr(GROUPS[number.group], number.field))
            kafkas[number.key] = definition.default
    assert ours == kafkas
    assert len(ours) >= 28
    assert ours["metadata.max.retention.ms"] == str(WEEK_MS)
