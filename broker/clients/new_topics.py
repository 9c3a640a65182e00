"""Metadata of topics that are being made, in a node of a test: answered when they are there.

As Kafka, a broker answers UNKNOWN_TOPIC_OR_PARTITION to who names a topic that it has the
controller make, and clients ask again after 100 ms, which a test with topics of its own waits for
each time. Here the answer is held for less than that, and the request goes to the kernel again.
Who gets it sees a broker that was slow, and a topic.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from typing_extensions import override

from broker.clients.answers import Answers
from broker.clients.client import Client
from broker.clients.kernel_answers import Asked
from broker.clients.request_metrics import AnsweredRequest
from broker.effects import Part, SendToKernel
from wire.api_keys import METADATA
from wire.connections.framing import LENGTH_BYTES, frame
from wire.connections.headers import RequestHeader
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import codec

PAUSES_MS: Final = (2, 3, 5, 10, 20, 40)
"""Before each further attempt: together less than clients wait."""

Later = Callable[[int, Callable[[], None]], None]
"""Runs a function after so many ms."""


class _Held(msgspec.Struct):
    """A Metadata request that may make topics."""

    header: RequestHeader
    frame: bytes
    request: Asked | None
    attempts: int = 0
    answer: tuple[Sequence[Part], AnsweredRequest | None] | None = None
    """The last one, which was not sent."""


class PatientAnswers(Answers):
    """Answers, of which those that name topics that are being made are held.

    Args:
        later: runs what is to be done later.
        arguments: as those of `Answers`.
    """

    __slots__ = ("_held", "_later")

    def __init__(self, later: Later, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._later = later
        self._held: dict[tuple[int, int], _Held] = {}

    def note(self, client: Client, header: RequestHeader, sent: bytearray) -> None:
        """Note a Metadata request, which has just been forwarded."""
        slot, request = client.forwarded[-1]
        self._held[client.connection_id, slot] = _Held(header, bytes(sent), request)

    @override
    def release(
        self, client: Client, slot: int, content: Sequence[Part], reply: AnsweredRequest | None
    ) -> None:
        """As `Answers`, or ask again."""
        held = self._held.pop((client.connection_id, slot), None)
        if held is None or held.attempts == len(PAUSES_MS) or not _is_early(held, content):
            super().release(client, slot, content, reply)
            return
        pause_ms = PAUSES_MS[held.attempts]
        held.attempts += 1
        held.answer = content, reply
        self._held[client.connection_id, slot] = held
        self._later(pause_ms, lambda: self._again(client, slot, held))

    def _again(self, client: Client, slot: int, held: _Held) -> None:
        if (client.connection_id, slot) in self._held:
            client.forwarded.append((slot, held.request))
            self._effects.append(SendToKernel(client.connection_id, frame(held.frame)))

    def give_up(self, client: Client) -> None:
        """Answer as the kernel did last: it answers no more."""
        for key in [key for key in self._held if key[0] == client.connection_id]:
            answer = self._held.pop(key).answer
            if answer is not None:
                asked = [one for one in client.forwarded if one[0] != key[1]]
                client.forwarded.clear()
                client.forwarded.extend(asked)
                super().release(client, key[1], *answer)

    @override
    def drop(self, client: Client) -> None:
        """As `Answers`; ask no more."""
        super().drop(client)
        for key in [key for key in self._held if key[0] == client.connection_id]:
            del self._held[key]


def _is_early(held: _Held, content: Sequence[Part]) -> bool:
    """True if a response says that a topic is unknown which the request has made."""
    header = held.header
    response = b"".join(part for part in content if isinstance(part, bytes))[LENGTH_BYTES:]
    try:
        _, body = codec.decode_response(METADATA, header.api_version, response)
        unknown = any(row.error_code is ErrorCode.unknown_topic_or_partition for row in body.topics)
        _, position = codec.split_request(held.frame)
        asked = codec.decode_request(METADATA, header.api_version, held.frame[position:])
    except RemoteProtocolError:
        return False
    return unknown and bool(asked.allow_auto_topic_creation)
