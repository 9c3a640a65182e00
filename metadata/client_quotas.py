"""The quota of a client: the most specific one of those for users and client ids (KIP-13, KIP-55).

Source: apache/kafka: server/.../quota/ClientQuotaManager.java (DefaultQuotaCallback); 4.3
"""

from collections.abc import Iterator

from metadata.image import QuotaKey
from wire.persistent_map import Map

Quotas = Map[QuotaKey, Map[str, float]]
"""`Image.client_quotas`."""
ClientTags = tuple[str, str]
"""The clients that share a quota's value: a user, a client id, or both; empty for any."""


def client_quota(
    quotas: Quotas, key: str, user: str, client_id: str
) -> tuple[ClientTags, float] | None:
    """Return who shares the value of a quota with a client, and the value; None without a quota.

    Args:
        quotas: of all entities.
        key: of the quota.
        user: name of the principal.
        client_id: of the request; an empty one has the quotas of its user only.
    """
    for entity, tags in _levels(user, client_id):
        values = quotas.get(entity)
        if values is not None and key in values:
            return tags, values[key]
    return None


def keys_in_use(quotas: Quotas) -> frozenset[str]:
    """Return the keys of the quotas that any entity has."""
    return frozenset().union(*quotas.values())


def _levels(user: str, client_id: str) -> Iterator[tuple[QuotaKey, ClientTags]]:
    """The entities that a client belongs to, in Kafka's order, and who shares the value."""
    both = (user, client_id) if client_id else None
    for name in (user, None):
        if both is not None:
            yield (("client-id", client_id), ("user", name)), both
            yield (("client-id", None), ("user", name)), both
        yield (("user", name),), (user, "")
    if client_id:
        yield (("client-id", client_id),), ("", client_id)
        yield (("client-id", None),), ("", client_id)
