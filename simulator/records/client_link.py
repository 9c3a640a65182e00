"""A client's connection to one broker: requests with an answer or its absence, any number open."""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from simulator.cluster.client_end import ClientEnd
from simulator.cluster.network import Network, Pipe
from simulator.cluster.scheduler import Scheduler

Answered = Callable[[Any], None]
"""Gets the body of the response; None if the connection ended or time ran out."""


class ClientLink(ClientEnd):
    """One connection; the first request that is not answered in time closes it.

    Args:
        host: number of the client.
        target: node.
        network: between them.
        scheduler: of the world.
        connect: opens the pipe.
    """

    def __init__(
        self,
        host: int,
        target: int,
        network: Network,
        scheduler: Scheduler,
        connect: "Callable[[ClientLink], Pipe]",
    ) -> None:
        self._scheduler = scheduler
        self._awaited: dict[int, Answered] = {}
        self._untold: list[tuple[int, Any]] = []
        """Requests without a response that wait for the versions."""
        super().__init__(host, target, network, connect)

    def request(self, api_key: int, body: Any, answered: Answered, within_us: int) -> None:
        """Send now, or as soon as the versions are known."""
        if self.is_closed:
            answered(None)
            return
        correlation_id = self.send(api_key, body)
        self._awaited[correlation_id] = answered
        self._scheduler.after(within_us, lambda: self._time_out(correlation_id))

    def tell(self, api_key: int, body: Any) -> None:
        """Send a request that has no response, now or as soon as the versions are known."""
        if self.is_closed:
            return
        if self._protocol.is_negotiated:
            content = self._protocol.request_without_response(api_key, body)
            self._network.send(self._pipe, content, to_server=True)
        else:
            self._untold.append((api_key, body))

    @override
    def received(self, data: bytes) -> None:
        super().received(data)
        if self._untold and self._protocol.is_negotiated:
            untold, self._untold = self._untold, []
            for api_key, body in untold:
                self.tell(api_key, body)

    def _time_out(self, correlation_id: int) -> None:
        if correlation_id in self._awaited:
            self.close()

    @override
    def answered(self, correlation_id: int, body: Any) -> None:
        self._awaited.pop(correlation_id)(body)

    def closed(self, *, refused: bool) -> None:
        """End what is open."""
        del refused
        self.is_closed = True
        self._end()

    def close(self) -> None:
        """Close the connection."""
        self.disconnect()
        self._end()

    def _end(self) -> None:
        awaited, self._awaited = self._awaited, {}
        for answered in awaited.values():
            answered(None)
