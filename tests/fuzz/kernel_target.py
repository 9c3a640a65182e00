"""Targets: a whole node that anybody may connect to, and the principal that an Envelope carries.

No request, however odd, ends the node. `envelope` puts the odd things into a sound Envelope.

The node lives on from case to case, so that odd requests meet what earlier ones left behind; after
some hundreds it is replaced by a new one. A failure is repeated by the bytes alone only where it
does not depend on what came before; then `--seed` and `--cases` repeat it.
"""

import struct
from random import Random

from kernel.kernel import Kernel
from kernel.serving.access import principal_of
from kernel.serving.dispatch import FORWARDED
from kernel.serving.forwarding import ANONYMOUS_PRINCIPAL
from quorum_controller.security.authorization import AccessRules
from tests.fuzz.engine import Target
from tests.fuzz.wire_targets import golden_requests, request_frame
from tests.kernel.harness import World
from wire.api_keys import ENVELOPE
from wire.connections.framing import frame
from wire.errors import RemoteProtocolError
from wire.messages.codec import encode_request, newest
from wire.primitives import encode_unsigned_varint

CASES_PER_NODE = 400
QUIET_MS = 4
EPOCH_MAX = 2**30
"""A Vote may name any epoch. One near 2^31 leaves no room for elections, in Kafka neither."""
ALICE = b"\x00\x00" + b"\x05User" + b"\x06alice" + b"\x01\x00"
ADDRESS = b"\x7f\x00\x00\x01"


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
        if node.kernel.core.epoch > EPOCH_MAX:
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


# ---- Envelope ----------------------------------------------------------------------------------


def _principal_again(text: str, _data: bytes, _rng: Random) -> None:
    """Type and name, written anew, are the same principal."""
    kind, separator, name = text.partition(":")
    assert separator
    assert principal_of(_principal(kind, name)) == text


def _principal(kind: str, name: str) -> bytes:
    texts = (kind.encode(), name.encode())
    parts = (encode_unsigned_varint(len(text) + 1) + text for text in texts)
    return b"\x00\x00" + b"".join(parts) + b"\x00\x00"


def _principal_bytes(rng: Random) -> bytes:
    alphabet = "a:\u00e9\u4e2d\x00"
    return _principal(*("".join(rng.choices(alphabet, k=rng.randrange(200))) for _ in range(2)))


def _content(principal: bytes, address: bytes, inner: bytes) -> bytes:
    """Input of `_envelope`: a byte each of length of principal (255: none) and address."""
    return bytes([len(principal), len(address)]) + principal + address + inner


def _envelope(data: bytes) -> bytes:
    """A sound Envelope around principal, address and request; for the kernel's target."""
    lengths = struct.pack("2s", data)
    start, end = 2 + lengths[0] % 255, 2 + lengths[0] % 255 + lengths[1]
    body = newest(ENVELOPE, "request").EnvelopeRequest(
        request_data=data[end:],
        request_principal=None if lengths[0] == 255 else data[2:start],
        client_host_address=data[start:end],
    )
    return b"\x00" + encode_request(ENVELOPE, 0, 1, "c", body)


def _may_be_inside(request: bytes) -> bool:
    return struct.unpack_from(">h", request)[0] in FORWARDED


def _inner(rng: Random) -> bytes:
    request = request_frame(rng)
    while not _may_be_inside(request):
        request = request_frame(rng)
    return _content(rng.choice((ANONYMOUS_PRINCIPAL, ALICE)), ADDRESS, request)


def targets() -> list[Target]:
    """All of this file."""
    requests = golden_requests()
    seeds = [bytes([255 * (n % 2)]) + data for n, data in enumerate(requests)]
    refusing = AccessRules(frozenset({"User:admin"}), allows_without_acl=True)
    nodes = {"kernel": Node(None), "kernel-authorizer": Node(refusing)}
    brokers = Node(AccessRules(frozenset({"User:ANONYMOUS"}), allows_without_acl=True))
    inner = [
        _content(ALICE if n % 2 else ANONYMOUS_PRINCIPAL, ADDRESS, data)
        for n, data in enumerate(filter(_may_be_inside, requests))
    ]
    return [
        *(
            Target(name, seeds, node.receive, (), None, _request, cpu_seconds_max=1.0, weight=0.4)
            for name, node in nodes.items()
        ),
        Target(
            "envelope", inner, lambda data: brokers.receive(_envelope(data)), (), None, _inner,
            cpu_seconds_max=1.0, weight=0.4,
        ),
        Target(
            "principal", [ANONYMOUS_PRINCIPAL, ALICE], principal_of, (RemoteProtocolError,),
            _principal_again, _principal_bytes,
        ),
    ]  # fmt: skip
