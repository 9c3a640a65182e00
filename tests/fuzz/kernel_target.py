"""Target: a whole node that anybody may connect to. No request, however odd, ends it.

The node lives on from case to case, so that odd requests meet what earlier ones left behind; after
some hundreds it is replaced by a new one. A failure is repeated by the bytes alone only where it
does not depend on what came before; then `--seed` and `--cases` repeat it.
"""

from random import Random

from kernel.kernel import Kernel
from quorum_controller.authorization import AccessRules
from tests.fuzz.engine import Target
from tests.fuzz.wire_targets import golden_requests, request_frame
from tests.kernel.harness import World
from wire.framing import frame

CASES_PER_NODE = 400
QUIET_MS = 4
EPOCH_MAX = 2**30
"""A Vote may name any epoch. One near 2^31 leaves no room for elections, in Kafka neither."""


class Node:
    """The node under fire; `rules` are those of its authorizer."""

    def __init__(self, rules: AccessRules | None) -> None:
        self._rules = rules
        self._world: World | None = None
        self._cases = 0

    def receive(self, data: bytes) -> Kernel:
        """Listener by the first byte, then a frame."""
        world = self._ready()
        self._cases += 1
        listener = "CONTROLLER" if data[:1] < b"\x80" else "PLAINTEXT"
        pipe = world.open_client(1, listener, lambda _: None)
        world.send(pipe, frame(data[1:]))
        world.run_for(QUIET_MS)
        node = world.nodes[1]
        assert node.kernel is not None, f"the node ended: {node.exit}"
        if node.kernel.replica.core.epoch > EPOCH_MAX:
            self._world = None
        return node.kernel

    def _ready(self) -> World:
        if self._world is None or self._cases >= CASES_PER_NODE:
            self._world = World(1, seed=1, access=self._rules)
            self._world.start_all()
            self._world.run_until(self._world.is_ready)
            self._cases = 0
        return self._world


def _request(rng: Random) -> bytes:
    return rng.choice((b"\x00", b"\xff")) + request_frame(rng)


def targets() -> list[Target]:
    """The one of this file."""
    seeds = [bytes([255 * (n % 2)]) + data for n, data in enumerate(golden_requests())]
    refusing = AccessRules(frozenset({"User:admin"}), allows_without_acl=True)
    nodes = {"kernel": Node(None), "kernel-authorizer": Node(refusing)}
    return [
        Target(name, seeds, node.receive, (), None, _request, cpu_seconds_max=1.0, weight=0.4)
        for name, node in nodes.items()
    ]
