"""A node whose records are served by another value: the test stands in for that value."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from kernel import effects as out
from kernel import events
from kernel.lifecycle.broker_lifecycle import BrokerLifecycle
from kernel.port import RecordsPort
from metadata.image import Broker, Image
from tests.kernel.harness import World
from wire.api_keys import DESCRIBE_LOG_DIRS, FETCH, LIST_OFFSETS, PRODUCE
from wire.types import NodeId

T = TypeVar("T")
PORT: Final = RecordsPort(frozenset({PRODUCE, FETCH, LIST_OFFSETS, DESCRIBE_LOG_DIRS}))


def told(world: World, node_id: int, kind: type[T]) -> list[T]:
    """The effects of one type that the records of a node got in this life."""
    return [effect for effect in world.nodes[node_id].told if isinstance(effect, kind)]


def post(world: World, node_id: int, event: events.Event) -> None:
    """Report an event of the records."""
    world.post(node_id, world.nodes[node_id].life, event)


def lifecycle_of(world: World, node_id: int) -> BrokerLifecycle:
    """The life cycle of a node that is up."""
    lifecycle = world.kernel(node_id).lifecycle
    assert lifecycle is not None
    return lifecycle


def image_of(world: World, node_id: int = 1) -> Image:
    """The image that a node has published."""
    return world.kernel(node_id).cache.image


def broker_of(world: World, node_id: int = 1) -> Broker:
    """The registration of a node in its own image."""
    return image_of(world, node_id).brokers[NodeId(node_id)]


def is_published(world: World, node_ids: Sequence[int]) -> bool:
    """True if the records of all these nodes have an image."""
    return all(told(world, node_id, out.PublishImage) for node_id in node_ids)


def fenced_world(count: int = 1, **more: Any) -> World:
    """Nodes whose records have their first image, and are not ready."""
    world = World(count, 1, port=PORT, **more)
    world.start_all()
    world.run_until(lambda: is_published(world, list(world.nodes)))
    return world


def serving_world(count: int = 1, **more: Any) -> World:
    """Nodes whose records are ready, unfenced."""
    world = fenced_world(count, **more)
    for node_id in world.nodes:
        post(world, node_id, events.RecordsReady())
    world.run_until(world.is_ready)
    return world
