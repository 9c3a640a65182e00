"""One connection of a client at a broker listener, as the front keeps it."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from broker.clients.kernel_answers import Asked
from broker.clients.request_metrics import AnsweredRequest
from broker.effects import Part
from network.connections import address_bytes
from quorum_controller.security.authorization import Caller, host_text
from wire.connections.framing import FrameReader
from wire.connections.reply_slots import ReplySlots

if TYPE_CHECKING:
    from broker.clients.running import Running

_RESPONSE_BYTES_MAX: Final = (1 << 31) - 1


class Client:
    """One connection.

    `waiting` are frames that are not taken yet, `forwarded` the slots of the requests that the
    kernel has, with what they ask for while time has a quota. `broken` is the reason to close it
    behind the waiting frames, `closing` the one behind the answers before slot `end_slot`.
    `parked` has, by slot, what ends the waits of calls that hold no frame. `muted_until_ms` is the
    end of its throttle time, 0 without one. `has_gone` is true for a closed one whose frames
    are still taken. `received_ns` is the begin of the step that received the first of them.
    `running` are requests that are done in pieces, `held` is the number of those that hold up later
    ones; meanwhile no frame is taken.
    """

    __slots__ = (
        "broken",
        "caller",
        "calls",
        "closing",
        "connection_id",
        "end_slot",
        "forwarded",
        "has_gone",
        "held",
        "host",
        "is_at_kernel",
        "is_read",
        "is_used",
        "listener",
        "muted_until_ms",
        "parked",
        "received_ns",
        "responses",
        "running",
        "slots",
        "waiting",
    )

    def __init__(self, connection_id: int, listener: str, host: str) -> None:
        self.connection_id = connection_id
        self.listener = listener
        self.host = host
        self.caller = Caller(host=host_text(address_bytes(host)))
        self.slots = ReplySlots[tuple[Sequence[Part], AnsweredRequest | None]]()
        self.forwarded: deque[tuple[int, Asked | None]] = deque()
        self.responses = FrameReader(_RESPONSE_BYTES_MAX)
        self.waiting: deque[bytearray] = deque()
        self.calls = 0
        self.parked: dict[int, Callable[[], None]] = {}
        self.broken: str | None = None
        self.closing: str | None = None
        self.end_slot = 0
        self.muted_until_ms = 0
        self.received_ns = 0
        self.running: deque[Running] = deque()
        self.held = 0
        self.has_gone = False
        self.is_at_kernel = True
        self.is_read = True
        self.is_used = False

    def begin(self, running: "Running") -> "Running":
        """Take a request in pieces behind those that are running."""
        self.running.append(running)
        return running

    @property
    def is_held(self) -> bool:
        """True while work of the request in pieces is done aside."""
        return bool(self.running) and self.running[0].is_held

    @property
    def is_settled(self) -> bool:
        """True if an answer changes nothing else: it is read, so that nothing of it waits."""
        return self.is_read and self.closing is None and not self.muted_until_ms

    def answered(self, slot: int) -> None:
        """Note the answer to a call."""
        self.calls -= 1
        self.is_used = True
        self.parked.pop(slot, None)
