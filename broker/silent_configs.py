"""Dynamic configs that change nothing at this broker: each is named once, when it is first set.

They are stored and described all the same, as Kafka's brokers in the cluster act on them. Keys of
server.properties without effect are named at the start of the node.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from broker.cleaning.cleaner_settings import DYNAMIC_KEYS
from broker.replicas.broker_settings import DYNAMIC_KEYS as BROKER_KEYS
from broker.replicas.replica_moves import RATE
from broker.replicas.topic_settings import ACTED_ON_ELSEWHERE, NO_EFFECT, VERIFICATION_KEY
from coordinator.group.consumer.settings import DYNAMIC_ASSIGNMENT_INTERVAL_MS
from metadata.config_schema import topic_configs
from metadata.cordoned_directories import CORDONED_LOG_DIRS
from metadata.delta import MetadataDelta
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC, Image
from metadata.records import CONFIG_GROUP
from replication.throttle import FOLLOWER_RATE, LEADER_RATE
from wire.types import NodeId

_TOPIC_KEYS: Final = frozenset(NO_EFFECT) - ACTED_ON_ELSEWHERE
CONNECTION_LIMITS: Final = frozenset(
    {
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.connection.creation.rate",
    }
)
"""Keys that the kernel acts on, which has all connections."""
_OWN: Final = frozenset(
    {
        LEADER_RATE,
        FOLLOWER_RATE,
        RATE,
        CORDONED_LOG_DIRS,
        VERIFICATION_KEY,
        DYNAMIC_ASSIGNMENT_INTERVAL_MS,
    }
)
GROUP_KEYS_PREFIX: Final = "consumer."
"""Begin of the keys of groups that are acted on: there are no share and no streams groups."""
ACTED_ON_BROKER_KEYS: Final = (_OWN | DYNAMIC_KEYS | BROKER_KEYS | CONNECTION_LIMITS) | {
    synonym.name
    for name, definition in topic_configs().items()
    if name not in _TOPIC_KEYS
    for synonym in definition.synonyms
}
"""Keys of brokers that are acted on."""


class SilentConfigs:
    """The dynamic configs without effect that have been named.

    Args:
        node_id: of the broker.
    """

    def __init__(self, node_id: NodeId) -> None:
        self._brokers = ("", str(node_id))
        self._named: set[str] = set()

    def publish(self, image: Image, delta: MetadataDelta) -> list[str]:
        """Take the next image; the keys to be named now, sorted."""
        found = {
            key
            for kind, name in delta.configs
            for key in self._without_effect(kind, name, image.config(kind, name))
        }
        new = sorted(found - self._named)
        self._named.update(new)
        return new

    def _without_effect(self, kind: int, name: str, configs: Mapping[str, str]) -> Iterator[str]:
        if kind == CONFIG_TOPIC:
            yield from _TOPIC_KEYS.intersection(configs)
        elif kind == CONFIG_GROUP:
            yield from (key for key in configs if not key.startswith(GROUP_KEYS_PREFIX))
        elif kind == CONFIG_BROKER and name in self._brokers:
            yield from set(configs) - ACTED_ON_BROKER_KEYS
