"""Entities whose configs `configs` describes and alters: types, names, changes."""

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
"""Name of the default entity of a type."""


class Entities(msgspec.Struct, frozen=True):
    """Entity types of a command line with their names, in the order given."""

    kinds: tuple[str, ...]
    """One type, or users and clients together."""
    names: tuple[str, ...]
    """Shorter than `kinds` when all entities of a type are meant."""

    @property
    def kind(self) -> str:
        """First entity type."""
        return self.kinds[0]

    @property
    def name(self) -> str | None:
        """Name of the first type; None for all entities, DEFAULT for the default."""
        return self.names[0] if self.names else None


class Change(msgspec.Struct, frozen=True):
    """Configs to set and names to delete."""

    added: dict[str, str]
    deleted: tuple[str, ...]


def singular(kind: str) -> str:
    """Singular of an entity type as Kafka's tool prints it: topic, client-metric."""
    return kind.removesuffix("s")
