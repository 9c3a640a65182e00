"""Target: a node whose only peer answers nonsense.

Of two voters one runs; the other is played here. It answers ApiVersions as it should, and all
else with structured, damaged or random bytes. The node may close the connection, never end, but
for one reason: it was told of two leaders in one epoch (docs/raft.md, as Kafka). The next case
starts another.
"""

import hashlib
import struct
from random import Random

from kernel import effects as out
from kernel import events
from kernel.config import BrokerConfig
from kernel.kernel import Kernel
from kernel.serving.dispatch import APIS
from raft.state import RaftInvariantError
from tests.fuzz.engine import Target
from tests.fuzz.entities import body_bytes
from tests.fuzz.mutation import mutated
from tests.fuzz.wire_targets import golden_responses
from tests.kernel.harness import LATENCY_MS, Pipe, World
from wire.api_table import ListenerKind, api_versions_body
from wire.connections.framing import FrameReader, frame
from wire.connections.headers import encode_response_header, parse_request_header
from wire.messages.codec import encode_response, entity_class, has_flexible_response_header

API_VERSIONS = 18
ANSWERS_PER_CASE = 4
CASES_PER_NODE = 50
CASE_MS_MAX = 3_000
CASES_MS = 2 * CASES_PER_NODE * CASE_MS_MAX
EPOCH_MAX = 2**30
TABLE = APIS[ListenerKind.CONTROLLER]


class Played(World):
    """A world in which node 2 is played by `_answer`."""

    def __init__(self) -> None:
        # Nobody lets it register: it must live for all cases, not end after a minute as it should.
        super().__init__(2, seed=1, broker=BrokerConfig(initial_registration_timeout_ms=CASES_MS))
        self.rng_of_case = Random(0)
        self.answered = 0
        self._readers: dict[tuple[int, int, int], FrameReader] = {}

    def _connect(self, node_id: int, life: int, effect: out.ConnectPeer) -> None:
        peer = (node_id, life, effect.peer_id)
        self._next_connection_id += 1
        self._by_peer[peer] = Pipe((2, 0, self._next_connection_id), peer)
        self._readers[peer] = FrameReader(1 << 20)
        self.post(node_id, life, events.PeerConnected(effect.peer_id))

    def _to_server(self, pipe: Pipe, content: bytes) -> None:
        if pipe.peer is None or self._by_peer.get(pipe.peer) is not pipe:
            return
        reader = self._readers[pipe.peer]
        reader.feed(content)
        while (request := reader.next_frame()) is not None:
            answer = self._answer(request)
            if pipe.peer in self._by_peer:
                sent = events.PeerBytes(pipe.peer[2], answer)
                peer = pipe.peer
                self.after(LATENCY_MS, lambda sent=sent, peer=peer: self.post(*peer[:2], sent))

    def _answer(self, request: bytes) -> bytes:
        header, _ = parse_request_header(request)
        key, version, rng = header.api_key, header.api_version, self.rng_of_case
        if key == API_VERSIONS and rng.random() < 0.95:
            body = api_versions_body(TABLE)
            return frame(encode_response(key, version, header.correlation_id, body))
        self.answered += 1
        flexible = has_flexible_response_header(key, version)
        start = encode_response_header(header.correlation_id, is_flexible=flexible)
        kind = rng.random()
        recorded = [d[6:] for d in golden_responses() if d[0] == key and d[1] == version]
        if recorded and kind < 0.4:
            content = rng.choice(recorded)[len(start) - 4 :]
        else:
            content = body_bytes(entity_class(key, version, "response"), rng)
        if rng.random() < 0.5:
            content = mutated(content, [content], rng)
        if rng.random() < 0.02:
            start = struct.pack(">i", rng.randrange(5))
        return frame(start + content) if rng.random() < 0.98 else rng.randbytes(20)


class Node:
    """The node under fire."""

    def __init__(self) -> None:
        self._world: Played | None = None
        self._cases = 0

    def receive(self, data: bytes) -> Kernel | None:
        """The input is the seed of what the peer answers; None if it named two leaders."""
        try:
            return self._answered(data)
        except RaftInvariantError as error:
            if not str(error).startswith("INV-LEADER-1 two leaders"):
                raise
            self._world = None
            return None

    def _answered(self, data: bytes) -> Kernel:
        world = self._ready()
        self._cases += 1
        world.rng_of_case = Random(hashlib.sha256(data).digest())
        until, deadline = world.answered + ANSWERS_PER_CASE, world.now_ms + CASE_MS_MAX
        while world.answered < until and world.now_ms < deadline:
            world.advance_once()
            node = world.nodes[1]
            assert node.kernel is not None, f"the node ended: {node.exit}"
        kernel = world.kernel(1)
        if kernel.core.epoch > EPOCH_MAX:
            self._world = None
        return kernel

    def _ready(self) -> Played:
        if self._world is None or self._cases >= CASES_PER_NODE:
            self._world = Played()
            self._world.start(1)
            self._cases = 0
        return self._world


def targets() -> list[Target]:
    """The one of this file."""
    seeds = [bytes([n]) for n in range(8)]
    return [
        Target("peer", seeds, Node().receive, (), None, lambda rng: rng.randbytes(8),
               cpu_seconds_max=1.0, weight=0.05)
    ]  # fmt: skip
