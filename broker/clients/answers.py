"""Answers of a connection, which leave in the order of its requests."""

from collections.abc import Sequence
from functools import partial

from broker.clients.client import Client
from broker.clients.reply import close_slices
from broker.clients.request_metrics import AnsweredRequest, RequestMetrics
from broker.effects import EffectSink, Part, SendParts


class Answers:
    """Answers to requests of clients, of the kernel and of calls."""

    __slots__ = ("_effects", "_metrics", "_unsent")

    def __init__(self, effects: EffectSink, metrics: RequestMetrics) -> None:
        self._effects = effects
        self._metrics = metrics
        self._unsent: list[AnsweredRequest] = []
        """Requests that are over without anything to send."""

    def release(
        self, client: Client, slot: int, content: Sequence[Part], reply: AnsweredRequest | None
    ) -> None:
        """Fill a slot, with the answer of the kernel or of a call, and send what can leave."""
        parts: list[Part] = []
        replies: list[AnsweredRequest] = []
        for each, answer in client.slots.release(slot, (content, reply)):
            parts += each
            if answer is not None:
                replies.append(answer)
        if parts:
            sent = partial(self._metrics.sent, replies) if replies else None
            self._effects.append(SendParts(client.connection_id, tuple(parts), sent))
        else:
            self._unsent += replies

    def drop(self, client: Client) -> None:
        """Close what a connection that has gone does not get any more."""
        for parts, reply in client.slots.drop():
            close_slices(parts)
            if reply is not None:
                self._unsent.append(reply)

    def end(self) -> None:
        """Note the end of the requests that need no answer, or whose answer nobody gets."""
        if self._unsent:
            now_ns = self._metrics.nanoseconds()
            self._metrics.sent(self._unsent, now_ns, now_ns)
            self._unsent.clear()
