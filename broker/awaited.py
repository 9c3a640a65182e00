"""Work and questions of the parts of a broker, each with the function that takes its end.

A token names each to the driver; its end comes back as an event with that token, once.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from broker.effects import Ask, EffectSink, Lane, RunWork
from wire.messages.codec import Entity

End = TypeVar("End")
WorkFinished = Callable[[BaseException | None], None]
"""Told in a later step that work has run, with what it raised."""


class _Awaited(Generic[End]):
    """Functions that await an end, by token."""

    def __init__(self) -> None:
        self._next_token = 1
        self._functions: dict[int, Callable[[End], None]] = {}

    def __len__(self) -> int:
        return len(self._functions)

    def add(self, function: Callable[[End], None]) -> int:
        """Await an end under a new token."""
        token = self._next_token
        self._next_token += 1
        self._functions[token] = function
        return token

    def end(self, token: int, end: End) -> None:
        """Hand out the end of a token."""
        self._functions.pop(token)(end)


class Work:
    """Work off the step thread."""

    def __init__(self, effects: EffectSink) -> None:
        self._effects = effects
        self._awaited = _Awaited[BaseException | None]()
        self._idle: Callable[[], None] | None = None
        self.progress = 0
        """Another number whenever some work, or a part of one, has ended."""

    def went_on(self) -> None:
        """Note the end of a part of a work; any thread."""
        self.progress += 1

    def run(self, lane: Lane, name: str, work: Callable[[], object], done: WorkFinished) -> None:
        """Run work in the lane of this name; `done` gets what it raised."""
        self._effects.append(RunWork(self._awaited.add(done), lane, name, work))

    def on_done(self, token: int, error: BaseException | None) -> None:
        """Take the end of a work."""
        self.went_on()
        self._awaited.end(token, error)
        self._tell_if_idle()

    def when_idle(self, idle: Callable[[], None]) -> None:
        """Tell once when all work has ended; at once if there is none."""
        self._idle = idle
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._idle is not None and not len(self._awaited):
            idle, self._idle = self._idle, None
            idle()


class Asks:
    """Requests to the active controller."""

    def __init__(self, effects: EffectSink) -> None:
        self._effects = effects
        self._awaited = _Awaited[object | None]()

    def ask(self, api_key: int, body: Entity, answered: Callable[[object | None], None]) -> None:
        """Send a request; `answered` gets a response of the newest shape, None if there is none."""
        self._effects.append(Ask(self._awaited.add(answered), api_key, body))

    def on_answer(self, token: int, answer: object | None) -> None:
        """Take the answer to a request, or its absence."""
        self._awaited.end(token, answer)
