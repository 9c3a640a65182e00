"""Messages of one kind that vanish between nodes, while everything else passes.

A frame is what is lost, never a part of one: the others keep their order, as if the server had not
answered, or had never read the request. A response says only the correlation id of its request, so
the requests of every connection between nodes are remembered while such a fault may come.
"""

from struct import Struct
from typing import Final

import msgspec

from simulator.network import Direction, Pipe
from simulator.probes import Probes
from wire.api_keys import (
    ALLOCATE_PRODUCER_IDS,
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
    END_QUORUM_EPOCH,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    VOTE,
)

API_KEYS: Final[dict[str, int]] = {
    "Fetch": FETCH,
    "Vote": VOTE,
    "BeginQuorumEpoch": BEGIN_QUORUM_EPOCH,
    "EndQuorumEpoch": END_QUORUM_EPOCH,
    "FetchSnapshot": FETCH_SNAPSHOT,
    "BrokerHeartbeat": BROKER_HEARTBEAT,
    "BrokerRegistration": BROKER_REGISTRATION,
    "Envelope": ENVELOPE,
    "CreateTopics": CREATE_TOPICS,
    "AllocateProducerIds": ALLOCATE_PRODUCER_IDS,
    "ApiVersions": API_VERSIONS,
}
"""Kafka's names of what nodes say to each other."""

MESSAGES: Final = tuple(f"{name} {way}" for name in API_KEYS for way in ("request", "response"))
"""What may be lost: `Fetch response`."""

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">ihhi")
"""Length, api key, version, correlation id."""
_RESPONSE: Final = Struct(">ii")
"""Length, correlation id."""


class Rule(msgspec.Struct, frozen=True, eq=False):
    """What is lost now."""

    links: frozenset[tuple[int, int]]
    """On which the message itself travels."""
    api_key: int
    is_request: bool


def rule_of(message: str, links: frozenset[tuple[int, int]]) -> Rule:
    """The rule for one of `MESSAGES`."""
    name, way = message.split()
    return Rule(links, API_KEYS[name], way == "request")


class _Stream:
    """One connection: which request has which correlation id, and frames that began earlier."""

    __slots__ = ("api_keys", "left")

    def __init__(self) -> None:
        self.api_keys: dict[int, int] = {}
        self.left = {True: 0, False: 0}
        """Bytes still to come of a frame, to the server and to the client."""


class LostMessages:
    """Takes frames out of what is sent; `Network.passes` asks `passed`.

    Args:
        host_ids: of the nodes; connections of others (clients) are left alone.
        probes: marks.
    """

    def __init__(self, host_ids: frozenset[int], probes: Probes) -> None:
        self.rules: list[Rule] = []
        self._host_ids = host_ids
        self._probes = probes
        self._streams: dict[Pipe, _Stream] = {}

    def passed(self, pipe: Pipe, direction: Direction, data: bytes) -> bytes:
        """What of a chunk is sent: all of its frames but those that a rule takes."""
        if pipe.to_server.link[0] not in self._host_ids:
            return data
        to_server = direction is pipe.to_server
        stream = self._streams.get(pipe)
        if stream is None:
            self._streams = {p: known for p, known in self._streams.items() if p.is_open}
            stream = self._streams[pipe] = _Stream()
        kept: list[bytes] = []
        position = min(stream.left[to_server], len(data))
        stream.left[to_server] -= position
        kept.append(data[:position])
        while position < len(data):
            assert len(data) - position >= _REQUEST.size, "a chunk ends within a header"
            (length,) = _LENGTH.unpack_from(data, position)
            end = position + _LENGTH.size + length
            api_key = _noted(stream, data, position, to_server=to_server)
            if end > len(data):
                stream.left[to_server] = end - len(data)
                kept.append(data[position:])
            elif not self._is_lost(direction.link, api_key, is_request=to_server):
                kept.append(data[position:end])
            position = min(end, len(data))
        return b"".join(kept)

    def _is_lost(self, link: tuple[int, int], api_key: int | None, *, is_request: bool) -> bool:
        for rule in self.rules:
            is_kind = (api_key, is_request) == (rule.api_key, rule.is_request)
            if is_kind and link in rule.links:
                self._probes.hit("request_lost" if is_request else "response_lost")
                return True
        return False


def _noted(stream: _Stream, data: bytes, position: int, *, to_server: bool) -> int | None:
    """Api key of the frame that begins there; None: answers what was sent before it was watched."""
    if to_server:
        _, api_key, _, correlation_id = _REQUEST.unpack_from(data, position)
        stream.api_keys[correlation_id] = api_key
        return int(api_key)
    _, correlation_id = _RESPONSE.unpack_from(data, position)
    return stream.api_keys.pop(correlation_id, None)
