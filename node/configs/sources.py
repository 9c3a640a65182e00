"""The configuration of a node from where a start takes it: a file, the environment, overrides."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel.config import NodeConfig
from node.configs.config import node_config, parse_overrides, read_config, read_properties
from node.configs.environment import effective


def configuration(
    properties: Path | None,
    overrides: Sequence[str],
    environment: Mapping[str, str],
    *,
    is_environment_stronger: bool,
) -> NodeConfig:
    """Return the configuration of a node.

    Args:
        properties: server.properties with Kafka's keys; None: the environment alone.
        overrides: `key=value`, stronger than all others.
        environment: all variables of the process.
        is_environment_stronger: True if KAFKA_* variables override the file.

    Raises:
        ConfigError: the file cannot be read, or a value is refused.
    """
    if properties is not None and not is_environment_stronger:
        return read_config(properties, overrides)
    file = None if properties is None else read_properties(properties)
    return node_config({**effective(file, environment), **parse_overrides(overrides)})
