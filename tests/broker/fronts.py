"""A front with handlers that keep their calls, and the frames of its clients."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from msgspec.structs import replace

from broker.awaited import Asks, Work
from broker.clients.call import Call
from broker.clients.client_quotas import ClientQuotas
from broker.clients.front import Front
from broker.clients.request_metrics import RequestMetrics
from broker.effects import Effect, SendParts, SendToKernel, SetReading
from broker.services import Services
from network.clock import Clock, Now
from network.memory_pool import MemoryPool, counted_bytes_of
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from simulator.cluster.memory_vfs import MemoryVfs
from storage.segments.file_slice import FileSlice
from wire.api_keys import API_VERSIONS, FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE
from wire.connections.framing import frame
from wire.messages import codec

LISTENER = "PLAINTEXT"
QUEUED_BYTES_MAX = 1_000
Kind = TypeVar("Kind", bound=Effect)


def list_offsets(correlation_id: int = 0) -> bytearray:
    new = codec.newest(LIST_OFFSETS, "request")
    body = new.ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=(), timeout=timedelta(0))
    return bytearray(codec.encode_request(LIST_OFFSETS, 7, correlation_id, "client", body))


def api_versions(correlation_id: int = 0) -> bytearray:
    body = codec.default_request(API_VERSIONS)
    return bytearray(codec.encode_request(API_VERSIONS, 4, correlation_id, "client", body))


def request(api_key: int, size_bytes: int, version: int = 7) -> bytearray:
    """A request of a version without tagged fields and of any content."""
    start = (
        api_key.to_bytes(2, "big")
        + version.to_bytes(2, "big", signed=True)
        + bytes(4)
        + b"\xff\xff"
    )
    assert len(start) <= size_bytes
    return bytearray(start.ljust(size_bytes, b"x"))


def produce(size_bytes: int) -> bytearray:
    return request(PRODUCE, size_bytes)


def services_of(clock: Clock, effects: list[Effect], budget: TurnBudget) -> Services:
    """Services whose work and questions nobody ends."""
    return Services(clock, effects, Work(effects), Asks(effects), budget)


class Fronts:
    """The front of a broker that serves four APIs, with what it has told its driver."""

    def __init__(
        self,
        *,
        is_serving: bool = True,
        used_interval_ms: int = 60_000,
        budget: TurnBudget | None = None,
        handle: Callable[[Call], None] = lambda _: None,
        kind: Callable[..., Front] = Front,
    ) -> None:
        self.clock = Clock(Now(1_000, 5_000))
        self.effects: list[Effect] = []
        self.calls: list[Call] = []
        self.now_ns = 0
        self.budget = TurnBudget(1 << 30) if budget is None else budget
        self.services = services_of(self.clock, self.effects, self.budget)
        self.memory = MemoryPool(QUEUED_BYTES_MAX)
        self.quotas = ClientQuotas(self.clock, QuotaWindow(), lambda: self.now_ns)
        self.metrics = RequestMetrics(lambda: self.now_ns)
        served = (PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER_ID)

        def keep(call: Call) -> None:
            self.calls.append(call)
            handle(call)

        handlers = dict.fromkeys(served, keep)
        self.front = kind(
            handlers,
            self.memory,
            self.services,
            quotas=self.quotas,
            metrics=self.metrics,
            used_interval_ms=used_interval_ms,
        )
        if is_serving:
            self.front.serve()

    def open(self, connection_id: int = 1, host: str = "127.0.0.1") -> None:
        self.front.opened(connection_id, LISTENER, host)
        self.effects.clear()

    def receive(self, *frames: bytearray, connection_id: int = 1) -> None:
        """Frames come with their memory, here whether there is room or not."""
        self.memory.used_bytes += sum(map(counted_bytes_of, frames))
        self.front.received(connection_id, frames)
        self.front.go_on()

    def answer(self, call: Call, *parts: bytes | FileSlice) -> None:
        call.answer_parts(parts)
        self.front.go_on()

    def end(self, call: Call, close_reason: str | None = None) -> None:
        call.answer_nothing(close_reason)
        self.front.go_on()

    def kernel_answers(self, *contents: bytes, connection_id: int = 1) -> None:
        self.front.kernel_bytes(connection_id, b"".join(map(frame, contents)))
        self.front.go_on()

    def taken(self) -> list[Effect]:
        """Effects since the last one, without who is told when they have left."""
        effects = list(map(unmeasured, self.effects))
        self.effects.clear()
        return effects

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The effects of one kind since the last `taken`."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent(self, connection_id: int = 1) -> bytes:
        """Every byte for a client since the last `taken`."""
        parts = [e.parts for e in self.of(SendParts) if e.connection_id == connection_id]
        return b"".join(content(each) for each in parts)

    def deliver(self, after_ns: int = 0) -> None:
        """End the half of a step: what is sent leaves, and has left after a time."""
        self.front.pause()
        taken_ns = self.now_ns
        self.now_ns += after_ns
        for effect in self.of(SendParts):
            if effect.sent is not None:
                effect.sent(taken_ns, self.now_ns)
        self.effects.clear()

    def to_kernel(self, connection_id: int = 1) -> bytes:
        return b"".join(e.data for e in self.of(SendToKernel) if e.connection_id == connection_id)

    def reading(self, connection_id: int = 1) -> list[bool]:
        return [e.is_wanted for e in self.of(SetReading) if e.connection_id == connection_id]


def unmeasured(effect: Effect) -> Effect:
    """An effect without who is told when it has left."""
    return replace(effect, sent=None) if isinstance(effect, SendParts) else effect


def file_slice(vfs: MemoryVfs) -> FileSlice:
    """The bytes 23456 of a file."""
    file = vfs.open("/log", create=True)
    file.pwrite(b"0123456789", 0)
    return FileSlice(file, 2, 5, 0, 0)


def is_open(part: FileSlice) -> bool:
    try:
        part.file.size()
    except AssertionError:
        return False
    return True


def content(parts: Sequence[bytes | FileSlice]) -> bytes:
    return b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
