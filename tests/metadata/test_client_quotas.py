"""The quota of a client, and who shares it."""

import pytest
from immutables import Map

from metadata.client_quotas import client_quota, keys_in_use

KEY = "producer_byte_rate"
LEVELS = [
    ((("client-id", "app"), ("user", "alice")), ("alice", "app")),
    ((("client-id", None), ("user", "alice")), ("alice", "app")),
    ((("user", "alice"),), ("alice", "")),
    ((("client-id", "app"), ("user", None)), ("alice", "app")),
    ((("client-id", None), ("user", None)), ("alice", "app")),
    ((("user", None),), ("alice", "")),
    ((("client-id", "app"),), ("", "app")),
    ((("client-id", None),), ("", "app")),
]
"""Kafka's order, and who shares the value."""


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_quota_counts(first):
    quotas = Map({entity: Map({KEY: 10.0 + i}) for i, (entity, _) in enumerate(LEVELS[first:])})
    assert client_quota(quotas, KEY, "alice", "app") == (LEVELS[first][1], 10.0)


def test_quotas_of_other_keys_users_and_clients_do_not_count():
    quotas = Map(
        {
            (("client-id", "app"), ("user", "alice")): Map({"consumer_byte_rate": 1.0}),
            (("user", "bob"),): Map({KEY: 2.0}),
            (("client-id", "other"),): Map({KEY: 3.0}),
            (("client-id", None), ("user", None)): Map({KEY: 4.0}),
        }
    )
    assert client_quota(quotas, KEY, "alice", "app") == (("alice", "app"), 4.0)
    assert client_quota(quotas, "request_percentage", "alice", "app") is None


@pytest.mark.parametrize(("level", "entity"), list(enumerate(entity for entity, _ in LEVELS)))
def test_an_empty_client_id_has_the_quotas_of_its_user_only(level, entity):
    found = client_quota(Map({entity: Map({KEY: 5.0})}), KEY, "alice", "")
    assert found == ((("alice", ""), 5.0) if level in (2, 5) else None)


def test_keys_in_use_are_those_of_any_entity():
    assert keys_in_use(Map()) == frozenset()
    quotas = Map({(("user", None),): Map({KEY: 1.0}), (("ip", None),): Map({"c": 1.0})})
    assert keys_in_use(quotas) == {KEY, "c"}
