"""What `configs` is about: types of entities, names, changes."""

from typing import Final

import msgspec

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
IPS: Final = "ips"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
BROKER_LOGGERS: Final = "broker-loggers"
TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS, BROKER_LOGGERS)
DEFAULT: Final = ""
"""The name of a default entity."""


class Entities(msgspec.Struct, frozen=True):
    """The entity types of a command line with the names given, in their order."""

    kinds: tuple[str, ...]
    """One, or users and clients."""
    names: tuple[str, ...]
    """Fewer than kinds when all of a kind are meant."""

    @property
    def kind(self) -> str:
        """The first type."""
        return self.kinds[0]

    @property
    def name(self) -> str | None:
        """The name of the first type, None for all, DEFAULT for the default."""
        return self.names[0] if self.names else None


class Change(msgspec.Struct, frozen=True):
    """Configs to set and names to delete."""

    added: dict[str, str]
    deleted: tuple[str, ...]


def singular(kind: str) -> str:
    """`topic` of topics; Kafka says client-metric of client-metrics too."""
    return kind.removesuffix("s")
