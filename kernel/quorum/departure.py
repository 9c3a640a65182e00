"""The end of the replica in a shutdown: it waits for a successor only while there can be one.

Raft alone would wait out a time (raft/poll.py): the voters that acknowledged the resignation may
end before one of them leads, as when all nodes of a quorum are stopped together.
"""

from typing import Final

from kernel.quorum.replica import Replica
from network.clock import Clock
from network.peers import Peers
from network.timers import DEPARTURE
from raft import events as raft_events

CHECK_MS: Final = 20


class Departure:
    """The shutdown of one node's replica.

    Args:
        replica: told of the shutdown, and of its end without a successor.
        peers: asked which voters are gone.
        clock: clock of the node.
    """

    def __init__(self, replica: Replica, peers: Peers, clock: Clock) -> None:
        self._replica = replica
        self._peers = peers
        self._clock = clock
        self._timers = clock.timers

    def begin(self) -> None:
        """Shut down the replica; a resigned leader is to end as soon as it can."""
        self._replica.enqueue(raft_events.ShutdownRequested())
        self._timers.set(DEPARTURE, self._clock.now_ms + CHECK_MS)

    def tick(self) -> None:
        """Check whether a majority of the voters is left; without one nobody can be elected."""
        now_ms = self._clock.now_ms
        if now_ms < self._timers.at_ms[DEPARTURE]:
            return
        self._timers.set(DEPARTURE, now_ms + CHECK_MS)
        if self._peers.is_quorum_refused():
            self._replica.enqueue(raft_events.QuorumGone())
