"""Faults that a test has asked for: where they act, and what they have met."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypedDict


class Where(TypedDict, total=False):
    """The requests that a fault meets: those that name a topic or partition, those of a node."""

    topic: str
    partition: int
    """Of the topic; all without it."""
    node_id: int


class Fault:
    """One fault of some nodes, until `end` or the end of its `with`; a restart of a node ends it.

    Args:
        ask: asks the warm process.
        numbers: of the fault at each node, by pid.
    """

    def __init__(self, ask: Callable[..., Any], numbers: Mapping[int, int]) -> None:
        self._ask = ask
        self._numbers = numbers
        self._met: int | None = None
        """Requests that it has met, once it has ended."""

    @property
    def hits(self) -> int:
        """Requests that it has met, at all nodes that live."""
        return self._asked("fault_hits") if self._met is None else self._met

    def end(self) -> None:
        """End it."""
        if self._met is None:
            self._met = self._asked("fault_end")

    def _asked(self, op: str) -> int:
        return sum(self._ask(op, pid=pid, number=number) for pid, number in self._numbers.items())

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.end()
