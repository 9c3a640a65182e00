"""A finalized level that a node cannot do: a controller ends with one line, a broker goes on."""

from immutables import Map
from msgspec.structs import replace

from metadata.delta import MetadataDelta
from tests.kernel.harness import Node, World, config_of

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
