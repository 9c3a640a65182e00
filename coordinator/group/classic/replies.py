"""An answer that is owed to a request: given once, now or when its group goes on."""

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Reply(Generic[R]):
    """One answer; what is said after it is dropped.

    The fate of a record may be reported after its request was answered: a member is told its id
    before the record of its new group is committed.
    """

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[R], None]) -> None:
        self._answer: Callable[[R], None] | None = answer

    @property
    def is_owed(self) -> bool:
        """True until it is given."""
        return self._answer is not None

    def __call__(self, response: R) -> None:
        """Give the answer, unless one was given."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(response)
