"""Notes to the kernel of the connections that are in use, which it must not close as idle.

The kernel sees only what is forwarded to it.
"""

from collections.abc import Mapping
from typing import Final

from broker.clients.client import Client
from broker.effects import EffectSink, UsedAtKernel
from network.memory_pool import MemoryPool

USED_INTERVAL_MS: Final = 60_000
"""Time between two notes to the kernel that a connection is used, at most."""


class UseNotes:
    """Notes at an interval, while there are connections.

    Args:
        interval_ms: time between two notes that a connection is used.
        memory: of the frames.
        effects: of the step.
    """

    __slots__ = ("_effects", "_interval_ms", "_memory", "next_ms")

    def __init__(self, interval_ms: int, memory: MemoryPool, effects: EffectSink) -> None:
        self._interval_ms = interval_ms
        self._memory = memory
        self._effects = effects
        self.next_ms = 0
        """Time of the next notes."""

    def begin(self, now_ms: int) -> None:
        """Count the interval from now on."""
        self.next_ms = now_ms + self._interval_ms

    def note(self, clients: Mapping[int, Client], now_ms: int) -> None:
        """Tell the kernel the connections that were used for records or await an answer or memory.

        To begin a large request is a use, to go on with it is not: its memory must come back.
        """
        self.begin(now_ms)
        begun = self._memory.take_users()
        for connection_id, client in clients.items():
            is_waiting = client.calls or client.waiting or client.muted_until_ms
            has_begun = connection_id in begun or self._memory.is_waiting(connection_id)
            if client.is_at_kernel and (client.is_used or is_waiting or has_begun):
                client.is_used = False
                self._effects.append(UsedAtKernel(connection_id))


def used_interval_ms(idle_ms_max: int) -> int:
    """Time between notes by which the kernel, with this limit, closes no connection in use."""
    return min(USED_INTERVAL_MS, max(1, idle_ms_max // 4)) if idle_ms_max else USED_INTERVAL_MS
