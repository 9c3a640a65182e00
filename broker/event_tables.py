"""The events of clients' connections, of peers and of the node, each with what takes it."""

from collections.abc import Callable
from typing import Any

from broker.awaited import Asks, Work
from broker.clients.front import Front
from broker.events import (
    Answered,
    ConnectionBroken,
    ConnectionClosed,
    ConnectionOpened,
    FramesReceived,
    KernelBytes,
    KernelClosed,
    PeerBytes,
    PeerConnected,
    PeerDisconnected,
    WorkDone,
)
from broker.leader_links import LeaderLinks


def front_table(front: Front) -> dict[type, Callable[[Any], None]]:
    """Return the functions of the events of connections."""
    return {
        FramesReceived: lambda event: front.received(event.connection_id, event.frames),
        KernelBytes: lambda event: front.kernel_bytes(
            event.connection_id, event.data, event.spent_ns
        ),
        ConnectionOpened: lambda event: front.opened(
            event.connection_id, event.listener, event.client_host
        ),
        ConnectionBroken: lambda event: front.broken(event.connection_id, event.reason),
        ConnectionClosed: lambda event: front.closed(event.connection_id),
        KernelClosed: lambda event: front.kernel_closed(event.connection_id, event.reason),
    }


def later_table(links: LeaderLinks, asks: Asks, work: Work) -> dict[type, Callable[[Any], None]]:
    """Return the functions of the events that wait for their share of a turn."""
    return {
        PeerBytes: lambda event: links.on_bytes(event.peer_id, event.data),
        PeerConnected: lambda event: links.on_connected(event.peer_id),
        PeerDisconnected: lambda event: links.on_disconnected(event.peer_id, refused=event.refused),
        Answered: lambda event: asks.on_answer(event.token, event.answer),
        WorkDone: lambda event: work.on_done(event.token, event.error),
    }
