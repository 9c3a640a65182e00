"""A finalized level that a node cannot do: a controller ends with one line, a broker goes on."""

import re

import pytest
from immutables import Map
from msgspec.structs import replace

from kernel.kraft_version import UnsupportedFeatureError
from metadata.delta import MetadataDelta
from metadata.image import METADATA_VERSION
from metadata.records import FeatureLevelRecord
from metadata.snapshot import encode_snapshot
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import snapshot_name
from storage.vfs import join, write_file_atomically
from tests.kernel.harness import Node, World, config_of
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

FOLDER = "/data/__cluster_metadata-0"
TEXT = "share.version is finalized at 2, supported is 0 to 1"


def publish_share_version(world: World, node_id: int, level: int) -> None:
    """As if another controller had finalized the level."""
    kernel = world.kernel(node_id)
    image = kernel.cache.image
    features = Map({**dict(image.features), "share.version": level})
    delta = MetadataDelta(features={"share.version"})
    kernel._publish(replace(image, features=features), delta)
    world.run_for(1_000)


def test_a_running_controller_ends_with_one_line() -> None:
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    publish_share_version(world, 1, 1)
    assert world.nodes[1].exit is None
    publish_share_version(world, 1, 2)
    exit_ = world.nodes[1].exit
    assert exit_ is not None
    assert (exit_.code, exit_.reason) == (1, TEXT)
    (line,) = (log for log in world.nodes[1].logs if log.event == "unsupported")
    assert line.fields == {"error": TEXT}


def test_a_broker_goes_on() -> None:
    world = World(1)
    world.nodes[2] = Node(config_of(2, 1, is_controller=False))
    world.nodes[2].vfs.make_directory("/data")
    world.nodes[2].vfs.sync_directory("/")
    world.start_all()
    world.run_until(world.is_ready)
    publish_share_version(world, 2, 2)
    assert world.nodes[2].exit is None


def with_snapshot(level: int) -> World:
    """A quorum of one, with a broker, whose newest snapshot has finalized share.version."""
    world = World(1)
    world.nodes[2] = Node(config_of(2, 1, is_controller=False))
    records = (
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=30),
        FeatureLevelRecord(name="share.version", feature_level=level),
    )
    found = OffsetAndEpoch(Offset(7), LeaderEpoch(1))
    content = b"".join(
        encode_snapshot(
            records,
            level=30,
            epoch=found.epoch,
            last_contained_timestamp_ms=0,
            timestamp_ms=0,
        )
    )
    for node in world.nodes.values():
        node.vfs.make_directory(FOLDER)
        write_file_atomically(node.vfs, join(FOLDER, snapshot_name(found)), content)
        QuorumStateFile(node.vfs, FOLDER).write(ElectionState(LeaderEpoch(0)))
    return world


def test_a_controller_with_an_unsupported_snapshot_does_not_start() -> None:
    with pytest.raises(UnsupportedFeatureError, match=re.escape(TEXT)):
        with_snapshot(2).start(1)
    world = with_snapshot(1)
    world.start(1)
    world.run_until(lambda: world.active() == 1)


def test_a_broker_with_that_snapshot_starts() -> None:
    world = with_snapshot(2)
    world.start(2)
    world.run_for(1_000)
    assert world.nodes[2].exit is None
