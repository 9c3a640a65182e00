"""A whole broker: events reach its parts, what they ask comes back, timers run when due."""

from broker.effects import (
    CloseAtKernel,
    CloseConnection,
    OpenAtKernel,
    SendParts,
    SendToKernel,
)
from broker.events import (
    ConnectionBroken,
    ConnectionClosed,
    ConnectionOpened,
    FramesReceived,
    KernelBytes,
    KernelClosed,
    TimeAdvanced,
)
from broker.front import USED_INTERVAL_MS
from network.timers import NEVER_MS
from tests.broker.brokers import Driven
from tests.broker.fronts import LISTENER, api_versions
from wire.framing import frame

OPENED = ConnectionOpened(1, LISTENER, "127.0.0.1")


def test_what_is_not_about_records_goes_through_the_kernel() -> None:
    driven = Driven()
    assert driven.step(OPENED) == [OpenAtKernel(1, LISTENER, "127.0.0.1")]
    request = api_versions()
    (asked,) = driven.step(FramesReceived(1, [request]))
    assert asked == SendToKernel(1, frame(bytes(request)))
    answered = driven.step(KernelBytes(1, frame(b"answer")))
    assert answered == [SendParts(1, (b"\0\0\0\6", b"answer"))]
    assert driven.step(KernelClosed(1, "idle")) == [CloseConnection(1, "idle")]


def test_connections_end_on_either_side() -> None:
    driven = Driven()
    driven.step(OPENED, ConnectionOpened(2, LISTENER, "127.0.0.1"))
    assert driven.one(CloseConnection, ConnectionBroken(1, "bad")) == CloseConnection(1, "bad")
    assert driven.step(ConnectionClosed(2)) == [CloseAtKernel(2)]


def test_the_deadline_is_that_of_the_first_part() -> None:
    driven = Driven()
    assert driven.broker.next_deadline_ms() == 1_000
    driven.step(TimeAdvanced())
    assert driven.broker.next_deadline_ms() == NEVER_MS
    driven.step(OPENED)
    assert driven.broker.next_deadline_ms() == 1_000 + USED_INTERVAL_MS
