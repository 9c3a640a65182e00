"""Limits of connections that dynamic configs of brokers change while the node runs.

apache/kafka: core/.../network/SocketServer.scala (`ReconfigurableConfigs`)
"""

from typing import Final

import msgspec

from kernel.config import NodeConfig
from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from metadata.delta import MetadataDelta
from metadata.image import CONFIG_BROKER, Image
from network.connection_limits import ConnectionLimits, address_limits
from network.connections import Connections

OVERRIDES: Final = "max.connections.per.ip.overrides"
NUMBERS: Final = {
    "max.connections": "connections_max",
    "max.connections.per.ip": "per_address_max",
    "max.connection.creation.rate": "creation_rate",
}
"""Keys, and fields of `ConnectionLimits`."""
DYNAMIC_KEYS: Final = frozenset({OVERRIDES, *NUMBERS})


class DynamicLimits:
    """The publisher that sets the limits of a node's connections.

    Args:
        config: of the node; what no config sets is as its file says.
        connections: of the node.
    """

    def __init__(self, config: NodeConfig, connections: Connections) -> None:
        self._config = config
        self._connections = connections
        self._watched = ((CONFIG_BROKER, ""), (CONFIG_BROKER, str(config.node_id)))

    def publish(self, _before: Image, after: Image, delta: MetadataDelta) -> None:
        """Follow a change of the configs of this broker, or of all."""
        if not delta.configs.isdisjoint(self._watched):
            self._connections.limit(limits_at(self._config, after))


def limits_at(config: NodeConfig, image: Image) -> ConnectionLimits:
    """Return the limits at an image: those of the broker, of all brokers, of the node's file."""
    fields: dict[str, object] = {}
    for key in sorted(DYNAMIC_KEYS):
        for name in (str(config.node_id), ""):
            text = image.config(CONFIG_BROKER, name).get(key)
            if text is not None:
                fields |= _parsed(key, text)
                break
    return msgspec.structs.replace(config.connection_limits, **fields)


def _parsed(key: str, text: str) -> dict[str, object]:
    """The field of a config; nothing if it cannot be read, or names hosts."""
    if key == OVERRIDES:
        try:
            return {"per_address_overrides": address_limits(text)}
        except ValueError:
            return {}
    value, error = parse_value(broker_configs()[key], text)
    return {NUMBERS[key]: value} if error is None else {}
