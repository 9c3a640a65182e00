"""Loss of messages of one kind between nodes, while everything else passes.

A frame is lost whole, never in part: the others keep their order, as if the server had not
answered, or had never read the request. A response carries only the correlation id of its request,
so every connection between nodes is followed (cluster/frames.py) while such a fault may come.
"""

from typing import Final

import msgspec

from simulator.campaign.probes import Probes
from simulator.cluster.frames import FrameReader
from simulator.cluster.network import Direction, Pipe
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
"""Kafka's names of the messages between nodes."""

MESSAGES: Final = tuple(f"{name} {way}" for name in API_KEYS for way in ("request", "response"))
"""Messages that may be lost: `Fetch response`."""


class Rule(msgspec.Struct, frozen=True, eq=False):
    """Messages that are lost now."""

    links: frozenset[tuple[int, int]]
    """Links on which the message itself travels."""
    api_key: int
    is_request: bool


def rule_of(message: str, links: frozenset[tuple[int, int]]) -> Rule:
    """Make the rule for one of `MESSAGES`."""
    name, way = message.split()
    return Rule(links, API_KEYS[name], way == "request")


class LostMessages:
    """Takes frames out of what is sent; `Network.passes` calls `passed`.

    Args:
        host_ids: the nodes'; connections of others (clients) are not touched.
        probes: marks to hit.
    """

    def __init__(self, host_ids: frozenset[int], probes: Probes) -> None:
        self._rules: list[Rule] = []
        self._host_ids = host_ids
        self._probes = probes
        self._frames: dict[Pipe, FrameReader] = {}

    def lose(self, rule: Rule) -> None:
        """Lose messages by a rule, beside those of others."""
        self._rules.append(rule)

    def spare(self, rule: Rule) -> None:
        """Lose no more messages by this rule."""
        self._rules.remove(rule)

    def lose_nothing(self) -> None:
        """Forget all rules."""
        self._rules.clear()

    def passed(self, pipe: Pipe, direction: Direction, data: bytes) -> bytes:
        """Return a chunk without the frames that a rule takes."""
        if pipe.to_server.link[0] not in self._host_ids:
            return data
        to_server = direction is pipe.to_server
        frames = self._frames.get(pipe)
        if frames is None:
            self._frames = {p: known for p, known in self._frames.items() if p.is_open}
            frames = self._frames[pipe] = FrameReader()
        return b"".join(
            part.data
            for part in frames.parts(data, to_server=to_server)
            if not (
                part.is_whole and self._is_lost(direction.link, part.api_key, is_request=to_server)
            )
        )

    def _is_lost(self, link: tuple[int, int], api_key: int | None, *, is_request: bool) -> bool:
        for rule in self._rules:
            is_kind = (api_key, is_request) == (rule.api_key, rule.is_request)
            if is_kind and link in rule.links:
                self._probes.hit("request_lost" if is_request else "response_lost")
                return True
        return False
