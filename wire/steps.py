"""Computations that are done in pieces, so that others have their turn between two of them.

Each piece yields what it cost, in the units of `network.turn_budget`; the result is returned.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Steps: TypeAlias = Generator[int, None, Result]


def finished(steps: Steps[Result]) -> Result:
    """Do all pieces at once; the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
