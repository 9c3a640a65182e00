"""The answer to a call of a connection, to come once, and the parts that it is sent in."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.clients.client import Client
from broker.clients.request_metrics import Begun
from broker.effects import Part
from storage.segments.file_slice import FileSlice
from wire.connections.framing import LENGTH_BYTES
from wire.steps import Steps

if TYPE_CHECKING:
    from broker.clients.running import Running


JOINED_BYTES_MAX: Final = 4096
"""Size of a part that costs less to copy than to send as a piece of its own."""


class Reply:
    """The answer to one call, to come once; `begun` is there once its handler has ended."""

    __slots__ = (
        "_answered",
        "_begin",
        "_released",
        "answered_ns",
        "begun",
        "client",
        "is_answered",
        "queued_bytes",
        "running",
        "slot",
        "throttle_ms",
    )

    def __init__(
        self,
        answered: Callable[["Reply", Sequence[Part] | None, str | None], None],
        begin: Callable[["Reply", Steps[None]], None],
        released: Callable[["Reply", Callable[[], None] | None], None],
        client: Client,
        queued_bytes: int,
    ) -> None:
        self._answered = answered
        self._begin = begin
        self._released = released
        self.client = client
        self.slot = client.slots.take()
        self.queued_bytes = queued_bytes
        self.is_answered = False
        self.begun: Begun | None = None
        self.answered_ns = 0
        self.running: Running | None = None
        """The pieces that the call was cut into last; None behind the last of them."""
        self.throttle_ms = 0

    def __call__(self, parts: Sequence[Part] | None, close_reason: str | None) -> None:
        """Answer; as `Call` does."""
        self.is_answered = True
        self._answered(self, parts, close_reason)

    def hold(self) -> Callable[[Callable[[], None] | None], None]:
        """Hold up later requests of the connection until the function is called; as `Call.hold`."""
        self.client.held += 1
        return self._release

    def _release(self, withdraw: Callable[[], None] | None) -> None:
        self.client.held -= 1
        self._released(self, withdraw)

    def run(self, steps: Steps[None]) -> None:
        """Go on with the request in pieces over turns."""
        self._begin(self, steps)


def framed(parts: Sequence[Part]) -> Sequence[Part]:
    """Prepend the length of a response, and join the small parts that stand side by side."""
    texts = [part for part in parts if isinstance(part, bytes)]
    size_bytes = sum(map(len, texts))
    if len(texts) < len(parts):
        size_bytes += sum(part.size_bytes for part in parts if not isinstance(part, bytes))
    elif size_bytes <= JOINED_BYTES_MAX:  # as most answers are
        return [b"".join((size_bytes.to_bytes(LENGTH_BYTES, "big"), *texts))]
    whole: list[Part] = []
    small = [size_bytes.to_bytes(LENGTH_BYTES, "big")]
    for part in parts:
        if isinstance(part, bytes) and len(part) <= JOINED_BYTES_MAX:
            small.append(part)
            continue
        if small:
            whole.append(b"".join(small))
            small = []
        whole.append(part)
    if small:
        whole.append(b"".join(small))
    return whole


def close_slices(parts: Sequence[Part]) -> None:
    """Close the files of an answer that nobody gets."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.file.close()
