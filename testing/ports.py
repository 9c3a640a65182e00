"""Free ports, held for a cluster while its nodes are up, down or not started yet.

A socket that is bound with SO_REUSEADDR and never listens keeps its port from all who ask the
system for a free one, and lets a listener with SO_REUSEADDR, such as a node's, have it.
"""

import socket

from testing.settings import HOST, NodePorts


class HeldPorts:
    """Ports of `nodes` nodes, free now; the system gives them to nobody until `close`.

    Args:
        nodes: number of nodes.
        first: the port of the first node's broker; None takes one that is free.

    Raises:
        OSError: somebody listens on `first`.
    """

    def __init__(self, nodes: int, first: int | None = None) -> None:
        self._sockets: list[socket.socket] = []
        try:
            ports = [self._hold(first if i == 0 and first else 0) for i in range(2 * nodes)]
        except OSError:
            self.close()
            raise
        self.nodes = tuple(
            NodePorts(broker=ports[i], controller=ports[nodes + i]) for i in range(nodes)
        )

    def _hold(self, port: int) -> int:
        held = socket.socket()
        self._sockets.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, port))
        number: int = held.getsockname()[1]
        return number

    def close(self) -> None:
        """Let the ports go."""
        while self._sockets:
            self._sockets.pop().close()
