"""Computations that are done in pieces, so that others have their turn between two of them.

Each piece yields what it cost, in the units of `network.turn_budget`, or work to be done aside
before the next; the result is returned.
"""

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

Result = TypeVar("Result")


class Aside(Generic[Result]):
    """Work without the interpreter that takes longer than a piece may, such as compression.

    Another thread does it while the steps wait; who has none does it at once.

    Args:
        work: returns the result and raises nothing; what it reads does not change meanwhile.
    """

    __slots__ = ("_work", "result")

    result: Result

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work

    def run(self) -> None:
        """Do it; the result is there from now on."""
        self.result = self._work()


Steps: TypeAlias = Generator[int | Aside[Any], None, Result]


def finished(steps: Steps[Result]) -> Result:
    """Do all pieces at once; the result."""
    while True:
        try:
            piece = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if isinstance(piece, Aside):
            piece.run()


def result_of_one_piece(steps: Steps[Result]) -> Result | None:
    """Do the first piece; the result if there are no others. It is never None."""
    try:
        piece = next(steps)
    except StopIteration as end:
        result: Result = end.value
        assert result is not None, "None says that there are other pieces"
        return result
    assert not isinstance(piece, Aside), "others would not wait for it"
    return None
