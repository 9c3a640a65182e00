"""Requests that are done in pieces over turns, as the front keeps them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from broker.clients.client import Client
from broker.clients.reply import Reply
from broker.clients.throttling import Throttle
from broker.effects import Lane
from broker.services import Services
from wire.errors import RemoteProtocolError
from wire.steps import Aside, Steps


class RunningCalls:
    """The requests in pieces of all connections, of each the first.

    Args:
        services: of the step; work that is to be done aside has a lane of its own.
        wake: lets the front look at a client again.
    """

    __slots__ = ("_budget", "_services", "_wake")

    def __init__(self, services: Services, wake: Callable[[Client], None]) -> None:
        self._services = services
        self._budget = services.budget
        self._wake = wake

    def go_on(self, client: Client) -> None:
        """Do a piece of the first request of a client, unless it is held."""
        running = client.running[0]
        if running.is_held:
            return
        piece = running.go_on()
        if isinstance(piece, Aside):
            running.is_held = True
            self._services.run(Lane.CODEC, "", piece.run, partial(self._is_done, client))
            return
        if piece is None:
            client.running.popleft()
        else:
            self._budget.spend(piece)
        if client.running:
            self._wake(client)

    def _is_done(self, client: Client, error: BaseException | None) -> None:
        """Go on behind work that was done aside."""
        if error is not None:
            raise error
        client.running[0].is_held = False
        self._wake(client)


class Running:
    """One request in pieces.

    Args:
        reply: to its call.
        steps: its pieces.
    """

    __slots__ = ("_reply", "_steps", "handled", "is_held", "throttle")

    def __init__(self, reply: Reply, steps: Steps[None]) -> None:
        self._reply = reply
        self._steps = steps
        self.throttle: Throttle | None = None
        """The quotas that its pieces count for; None for one whose handler had ended before."""
        self.handled: Callable[[], None] | None = None
        """Called behind the last piece; None as above."""
        self.is_held = False
        """True while work of its is done aside: there is no next piece."""

    def go_on(self) -> int | Aside[Any] | None:
        """Do the next piece; what it cost or what is to be done aside, None behind the last."""
        if self.throttle is not None:
            self.throttle.resumed()
        try:
            piece = next(self._steps, None)
        except RemoteProtocolError as error:
            self._reply(None, str(error))
            piece = None
        if self.throttle is not None:
            self.throttle.handled()
        if piece is None:
            self._reply.running = None  # no cycle, which only a search for garbage would free
            if self.handled is not None:
                self.handled()
        return piece
