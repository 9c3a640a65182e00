"""A client that sends bytes to a node of a small quorum and keeps what comes back."""

import struct

from tests.kernel.harness import World
from wire.connections.framing import frame

API_VERSIONS = 18


def ready_world(count: int = 3, **more: object) -> World:
    world = World(count, **more)
    world.start_all()
    world.run_until(world.is_ready)
    return world


class Raw:
    """A connection that sends bytes and keeps the frames that come back."""

    def __init__(self, world: World, node_id: int, listener: str = "PLAINTEXT") -> None:
        self._world = world
        self._received = bytearray()
        self.pipe = world.open_client(node_id, listener, self._received.extend)

    def send(self, *frames: bytes) -> None:
        self._world.send(self.pipe, b"".join(frames))

    @property
    def correlation_ids(self) -> list[int]:
        found, position = [], 0
        while position < len(self._received):
            length, correlation_id = struct.unpack_from(">ii", self._received, position)
            found.append(correlation_id)
            position += 4 + length
        return found

    @property
    def is_open(self) -> bool:
        return self._world.is_open(self.pipe)


def api_versions(correlation_id: int) -> bytes:
    return frame(struct.pack(">hhih", API_VERSIONS, 0, correlation_id, -1))
