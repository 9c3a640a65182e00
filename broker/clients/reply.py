"""The answer to a call of a connection, to come once, and the parts that it is sent in."""

from collections.abc import Callable, Sequence

from broker.clients.client import Client
from broker.clients.request_metrics import Begun
from broker.effects import Part
from storage.segments.file_slice import FileSlice
from wire.connections.framing import LENGTH_BYTES


class Reply:
    """The answer to one call, to come once; `begun` is there once its handler has ended."""

    __slots__ = (
        "_answered", "begun", "client", "is_answered", "queued_bytes", "slot", "throttle_ms",
    )  # fmt: skip

    def __init__(
        self,
        answered: Callable[["Reply", Sequence[Part] | None, str | None], None],
        client: Client,
        queued_bytes: int,
    ) -> None:
        self._answered = answered
        self.client = client
        self.slot = client.slots.take()
        self.queued_bytes = queued_bytes
        self.is_answered = False
        self.begun: Begun | None = None
        self.throttle_ms = 0

    def __call__(self, parts: Sequence[Part] | None, close_reason: str | None) -> None:
        """Answer; as `Call` does."""
        self.is_answered = True
        self._answered(self, parts, close_reason)


def framed(parts: Sequence[Part]) -> Sequence[Part]:
    """Prepend the length of a response."""
    size_bytes = sum(len(part) if isinstance(part, bytes) else part.size_bytes for part in parts)
    return (size_bytes.to_bytes(LENGTH_BYTES, "big"), *parts)


def close_slices(parts: Sequence[Part]) -> None:
    """Close the files of an answer that nobody gets."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.file.close()
