"""A request that is done in pieces over turns, as the front keeps it."""

from collections.abc import Callable

from broker.clients.reply import Reply
from broker.clients.throttling import Throttle
from wire.errors import RemoteProtocolError
from wire.steps import Steps


class Running:
    """One request in pieces.

    Args:
        reply: to its call.
        steps: its pieces.
    """

    __slots__ = ("_reply", "_steps", "handled", "throttle")

    def __init__(self, reply: Reply, steps: Steps[None]) -> None:
        self._reply = reply
        self._steps = steps
        self.throttle: Throttle | None = None
        """The quotas that its pieces count for; None for one whose handler had ended before."""
        self.handled: Callable[[], None] | None = None
        """Called behind the last piece; None as above."""

    def go_on(self) -> int | None:
        """Do the next piece; what it cost, None behind the last."""
        if self.throttle is not None:
            self.throttle.resumed()
        try:
            units = next(self._steps, None)
        except RemoteProtocolError as error:
            self._reply(None, str(error))
            units = None
        if self.throttle is not None:
            self.throttle.handled()
        if units is None and self.handled is not None:
            self.handled()
        return units
