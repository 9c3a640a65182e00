"""Limits of connections that configs of brokers change while a node runs."""

import pytest

from kernel.events import ConnectionClosed, Now
from kernel.serving.dynamic_limits import DYNAMIC_KEYS, limits_at
from metadata.records import CONFIG_BROKER
from network.connection_limits import ConnectionLimits
from tests.broker.metadata_log import MetadataLog
from tests.kernel.harness import Client, World, config_of
from tests.network.raw_client import Raw, api_versions, ready_world
from wire.api_keys import INCREMENTAL_ALTER_CONFIGS
from wire.errors import ErrorCode
from wire.messages.codec import newest

OVERRIDES = "max.connections.per.ip.overrides"
STATIC = ConnectionLimits(connections_max=7, per_address_overrides=(("10.0.0.1", 3),))
CONFIG = config_of(1, connection_limits=STATIC)


def alter(admin: Client, broker: str, **configs: str | None) -> None:
    """Set configs of a broker, of all with an empty name; delete those that are None."""
    new = newest(INCREMENTAL_ALTER_CONFIGS, "request")
    rows = tuple(
        new.AlterableConfig(
            name=key.replace("_", "."), config_operation=int(value is None), value=value
        )
        for key, value in configs.items()
    )
    resource = new.AlterConfigsResource(
        resource_type=CONFIG_BROKER, resource_name=broker, configs=rows
    )
    body = new.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = admin.call(INCREMENTAL_ALTER_CONFIGS, body)
    assert answer.responses[0].error_code is ErrorCode.none, answer


def opened(world: World, count: int, listener: str = "PLAINTEXT") -> list[bool]:
    raws = [Raw(world, 1, listener) for _ in range(count)]
    world.run_for(10)
    return [raw.is_open for raw in raws]


@pytest.mark.parametrize("broker", ["1", ""])
def test_limits_hold_from_the_config_on_until_it_is_deleted(broker: str) -> None:
    world = ready_world(1)
    admin, other = world.client(1), Raw(world, 1)
    alter(admin, broker, max_connections_per_ip="4")
    assert opened(world, 3) == [True, True, False]
    alter(admin, broker, max_connections_per_ip=None, max_connections="5")
    assert opened(world, 2) == [True, False]
    alter(admin, broker, max_connections="1")
    assert other.is_open
    alter(admin, broker, max_connections=None)
    assert opened(world, 1) == [True]


def test_who_waits_by_a_rate_is_let_in_when_there_is_none_any_more() -> None:
    world = ready_world(1)
    admin = world.client(1)
    alter(admin, "", max_connection_creation_rate="1")
    world.run_for(12_000)
    raws = [Raw(world, 1) for _ in range(14)]
    for raw in raws:
        raw.send(api_versions(1))
    world.run_for(50)
    assert sum(raw.correlation_ids == [1] for raw in raws) == 10
    (delayed,) = (log for log in world.nodes[1].logs if log.event == "connections_delayed")
    assert "more than 1 new connections a second" in str(delayed.fields["reason"])
    alter(admin, "", max_connection_creation_rate=None)
    left = ConnectionClosed(raws.pop().pipe.server[2])
    world.kernel(1).step(left, Now(world.now_ms, world.now_ms))
    world.run_for(1_000)
    assert all(raw.correlation_ids == [1] for raw in raws)


def limits(**of_brokers: dict[str, str]) -> ConnectionLimits:
    log = MetadataLog()
    for name, configs in of_brokers.items():
        for key, value in configs.items():
            log.broker_config(key, value, name.strip("_"))
    image, _ = log.take()
    return limits_at(CONFIG, image)


def test_a_broker_is_stronger_than_all_and_both_than_its_file() -> None:
    assert limits() == STATIC
    assert limits(_={"max.connections": "8"}).connections_max == 8
    both = limits(_={"max.connections": "8"}, _1={"max.connections": "9"})
    assert both.connections_max == 9
    assert limits(_2={"max.connections": "8"}) == STATIC
    more = limits(_={"max.connections.per.ip": "5", "max.connection.creation.rate": "6"})
    assert (more.per_address_max, more.creation_rate, more.connections_max) == (5, 6, 7)


def test_overrides_replace_those_of_the_file_unless_they_name_hosts() -> None:
    found = limits(_={OVERRIDES: "10.0.0.2:4, [::1]:5"})
    assert found.per_address_overrides == (("10.0.0.2", 4), ("::1", 5))
    assert limits(_={OVERRIDES: "localhost:4"}) == STATIC
    assert limits(_={"max.connections": "many"}) == STATIC
    assert len(DYNAMIC_KEYS) == 4
