"""Cordoned log directories in the heartbeats of a broker."""

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kernel.config import BrokerConfig
from kernel.formatting import bootstrap_checkpoint
from kernel.lifecycle.cordoned_directories import cordoned_directories
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, METADATA_VERSION, Image
from metadata.records import CONFIG_BROKER, ConfigRecord, FeatureLevelRecord
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from tests.kernel.harness import Node, World, config_of
from wire.types import DirectoryId

IDS = {"/a": DirectoryId(bytes([7]) * 16), "/b": DirectoryId(bytes([1]) * 16)}
A, B = (UUID(bytes=IDS[path]) for path in ("/a", "/b"))


def image_with(level: int, *configs: tuple[str, str]) -> Image:
    records: list[Any] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    records += [
        ConfigRecord(
            resource_type=CONFIG_BROKER, resource_name=name, name="cordoned.log.dirs", value=value
        )
        for name, value in configs
    ]
    image = EMPTY
    for offset, record in enumerate(records):
        image = apply(image, record, offset, MetadataDelta())
    return image


@pytest.mark.parametrize(
    ("configs", "static", "expected"),
    [
        ((), None, ()),
        ((), "/a", (A,)),
        ((), " /a , /b,/c", (B, A)),
        ((), "*", (B, A)),
        ((("", "/b"),), "/a", (B,)),
        ((("1", "/a"), ("", "/b")), "*", (A,)),
        ((("1", ""),), "/a", ()),
        ((("2", "/b"),), None, ()),
        ((("1", "/a,,/a"), ("", "/b")), None, (B,)),  # does not parse: the next layer counts
        ((("1", "/a,,/a"),), "/b", (B,)),
    ],
)
def test_the_nearest_layer_counts(
    configs: tuple[tuple[str, str], ...], static: str | None, expected: tuple[UUID, ...]
) -> None:
    properties = () if static is None else (("cordoned.log.dirs", static),)
    config = config_of(1, properties=properties)
    assert cordoned_directories(image_with(30, *configs), config, IDS) == expected


def test_below_4_3_nothing_is_said() -> None:
    config = config_of(1, properties=(("cordoned.log.dirs", "/a"),))
    assert cordoned_directories(image_with(29), config, IDS) is None


def test_heartbeats_carry_it_and_follow_a_change_at_once() -> None:
    world = World(1, broker=BrokerConfig(heartbeat_interval_ms=60_000, session_timeout_ms=120_000))
    content = bootstrap_checkpoint({METADATA_VERSION: 30}, 0)
    write_bootstrap_checkpoint(world.nodes[1].vfs, "/data", content)
    world.start_all()
    world.run_until(lambda: 1 in world.kernel(1).cache.image.brokers)

    def cordoned() -> tuple[bytes, ...] | None:
        broker: Any = world.kernel(1).cache.image.brokers[1]
        found: tuple[bytes, ...] | None = broker.cordoned_log_dirs
        return found

    assert cordoned() is None
    world.run_until(lambda: cordoned() is not None, 1_000)
    assert cordoned() == ()
    assert world.is_ready(), "it comes with the record that unfences"
    lifecycle = world.kernel(1).lifecycle
    assert lifecycle is not None
    after = image_with(30, ("1", "*"))
    delta = MetadataDelta()
    delta.configs.add((CONFIG_BROKER, "1"))
    before = world.kernel(1).cache.image
    provenance = before.provenance
    brokers = before.brokers
    lifecycle.publish(before, replace(after, provenance=provenance, brokers=brokers), delta)
    world.run_until(lambda: cordoned() == (bytes([1]) * 16,), 1_000)


def test_a_broker_that_is_not_caught_up_says_nothing_yet() -> None:
    world = World(1, is_broker=False)
    content = bootstrap_checkpoint({METADATA_VERSION: 30}, 0)
    write_bootstrap_checkpoint(world.nodes[1].vfs, "/data", content)
    world.nodes[2] = Node(config_of(2, 1, is_controller=False))
    world.nodes[2].vfs.make_directory("/data")
    world.nodes[2].vfs.sync_directory("/")
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    world.start(2)

    def brokers() -> list[Any]:
        return list(world.kernel(1).cache.image.brokers.values())

    world.run_until(lambda: any(broker.cordoned_log_dirs is not None for broker in brokers()))
    assert [broker.fenced for broker in brokers()] == [False]
