"""The AdminClients of three libraries do what their users do all day, through any node."""

import re

import pytest

from tests.interop.clients import CLIENTS, Client, ConfluentClient, Refused
from tests.interop.quorum import Quorum, wait_until


def _name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-zA-Z0-9-]", "-", request.node.name)


def _visible(client: Client, name: str, *, present: bool = True) -> None:
    wait_until(lambda: (name in client.names()) is present, 10, lambda: f"{name}: {client.names()}")


def test_create_list_describe_delete(client: Client, request: pytest.FixtureRequest) -> None:
    name = _name(request)
    client.create(name, partitions=3, replicas=3)
    _visible(client, name)
    described = client.describe(name)
    assert sorted(described) == [0, 1, 2]
    assert all(sorted(replicas) == [1, 2, 3] for replicas in described.values())
    client.delete(name)
    _visible(client, name, present=False)


def test_create_with_configs(client: Client, request: pytest.FixtureRequest) -> None:
    client.create(_name(request), configs={"cleanup.policy": "compact", "retention.ms": "1000"})
    _visible(client, _name(request))


def test_create_with_replica_assignment(client: Client, request: pytest.FixtureRequest) -> None:
    name = _name(request)
    client.create(name, assignment={0: [3, 1], 1: [2, 3]})
    _visible(client, name)
    assert client.describe(name) == {0: [3, 1], 1: [2, 3]}


def test_validate_only_creates_nothing(client: Client, request: pytest.FixtureRequest) -> None:
    client.create(_name(request), validate_only=True)
    assert _name(request) not in client.names()


def test_describe_cluster(client: Client) -> None:
    assert client.broker_ids() == {1, 2, 3}


@pytest.mark.parametrize("node", [0, 1, 2])
@pytest.mark.parametrize("library", sorted(CLIENTS))
def test_through_any_node(
    quorum: Quorum, library: str, node: int, request: pytest.FixtureRequest
) -> None:
    client = CLIENTS[library](f"127.0.0.1:{quorum.base_port + node}")
    try:
        client.create(_name(request))
        _visible(client, _name(request))
    finally:
        client.close()


REFUSALS = {
    "exists": ({"name": "taken"}, 36, "Topic 'taken' already exists."),
    "bad-name": (
        {"name": "no spaces"},
        17,
        (
            "Topic name is invalid: 'no spaces' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        ),
    ),
    "replication": (
        {"name": "wide", "replicas": 7},
        38,
        (
            "Unable to replicate the partition 7 time(s): The target replication factor of 7 "
            "cannot be reached because only 3 broker(s) are registered"
        ),
    ),
    "partitions": (
        {"name": "zero", "partitions": 0},
        37,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    "unknown-broker": (
        {"name": "elsewhere", "assignment": {0: [1, 99]}},
        39,
        "The manual partition assignment includes broker 99, but no such broker is registered.",
    ),
    "duplicate-broker": (
        {"name": "twice", "assignment": {0: [1, 1]}},
        39,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    "config-value": (
        {"name": "odd", "configs": {"retention.ms": "soon"}},
        40,
        "Invalid value soon for configuration retention.ms: Not a number of type LONG",
    ),
    "config-key": (
        {"name": "odd", "configs": {"no.such.key": "1"}},
        40,
        "Unknown topic config name: no.such.key",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSALS))
def test_refused_as_kafka_does(client: Client, case: str) -> None:
    wanted, code, message = REFUSALS[case]
    if case == "partitions" and isinstance(client, ConfluentClient):
        return  # librdkafka refuses this one itself, nothing reaches the server
    if case == "exists":
        try:
            client.create(**wanted)
        except Refused as refused:
            assert refused.code == code  # noqa: PT017 - another client made it
        _visible(client, "taken")
    with pytest.raises(Refused) as refusal:
        client.create(**wanted)
    assert refusal.value.code == code
    assert message in (refusal.value.message or "")


def test_delete_of_unknown_topic(client: Client) -> None:
    with pytest.raises(Refused) as refusal:
        client.delete("never-was")
    assert refusal.value.code == 3
